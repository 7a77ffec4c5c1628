//! Data sets and pictures.

use super::choices::Choices;
use super::folder::Folder;
use dahl::dataset::{self, Dataset, Options, Split};

/// What every data set that was opened keeps to.
fn check(data: &Dataset) {
    assert!(data.classes > 0 && data.classes <= 256 && data.class_names.len() == data.classes);
    for split in [&data.train, &data.test] {
        assert!(!split.is_empty() && split.labels().len() == split.len());
        assert_eq!(split.image_bytes(), data.shape.iter().product::<usize>());
        assert!(split.labels().iter().all(|&label| usize::from(label) < data.classes));
        assert!(split.image(0).is_ok_and(|image| image.len() == split.image_bytes()) || !is_resident(split));
    }
}

fn is_resident(split: &Split) -> bool {
    split.resident().is_some()
}

/// Looks at a folder in every way there is.
fn look(folder: &Folder) {
    let spec = folder.path().to_str().expect("a path in UTF-8");
    let options = Options { n_threads: Some(1), ..Options::default() };
    let is_whole = dataset::open(spec, &options).inspect(check).is_ok();
    if let Ok(found) = dataset::check(spec, &options, &|_, _| {}) {
        assert!(!is_whole || found.faults.is_empty(), "what opens has no faults: {:?}", found.faults);
    }
    let _ = dataset::summary(folder.path());
}

/// Images and labels in IDX files, each compressed or not: two bytes with the length of the images' file,
/// that, and the labels' file. Both parts of the data set are the same.
pub fn idx(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (images, labels) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let folder = Folder::new();
    for part in ["train", "t10k"] {
        folder.write(&format!("{part}-images-idx3-ubyte"), images);
        folder.write(&format!("{part}-labels-idx1-ubyte"), labels);
    }
    look(&folder);
}

/// A file of CIFAR-10, compressed or not, in the place of all six; and the names of the classes, if there is
/// a second part: as for IDX, the first two bytes tell where it begins.
pub fn cifar(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (records, names) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let folder = Folder::new();
    for file in 1..6 {
        folder.write(&format!("data_batch_{file}.bin"), records);
    }
    folder.write("test_batch.bin", records);
    if !names.is_empty() {
        folder.write("batches.meta.txt", names);
    }
    look(&folder);
}

/// Three bytes with channels, height and width, and a picture of any kind, brought to that.
pub fn picture(bytes: &[u8]) {
    let Some((shape, picture)) = bytes.split_first_chunk::<3>() else { return };
    let mut choices = Choices::new(shape);
    let shape = [[1, 3][choices.below(2)], choices.between(1, 40), choices.between(1, 40)];
    let folder = Folder::new();
    let path = folder.write("picture", picture);
    if let Ok(pixels) = dataset::image_file(&path, shape) {
        assert_eq!(pixels.len(), shape.iter().product::<usize>());
        // The same once more.
        assert_eq!(dataset::image_file(&path, shape).expect("read before"), pixels);
    }
}

/// What is written behind `synthetic:`.
pub fn synthetic(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(asked) = dataset::Synthetic::parse(text) else { return };
    if asked.shape.iter().product::<usize>() <= 4096 && asked.n_train <= 64 {
        let data = dataset::open(&format!("synthetic:{text}"), &Options::default()).expect("it makes sense");
        check(&data);
        assert_eq!((data.shape, data.classes, data.train.len()), (asked.shape, asked.classes, asked.n_train));
    }
}
