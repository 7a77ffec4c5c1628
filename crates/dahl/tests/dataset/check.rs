//! Checking whole data sets: numbers are right, and all faults are found in one run.

use dahl::dataset::{self, Kind, Options};

use crate::folder::{Folder, assert_message, pgm};

fn check(spec: &str) -> dataset::Check {
    dataset::check(spec, &Options { n_threads: Some(3), ..Options::default() }, &|_, _| ()).unwrap()
}

#[test]
fn numbers_are_those_of_the_digits() {
    let check = check("digits");
    assert_eq!((check.name.as_str(), check.shape, check.class_names.len()), ("digits", [1, 8, 8], 10));
    let [train, test] = &check.parts[..] else { panic!("two parts") };
    assert_eq!((train.n_images, train.n_read, test.n_images), (1501, 1501, 296));
    assert_eq!(train.per_class, [149, 152, 148, 153, 151, 152, 151, 150, 145, 150]);
    assert_eq!((train.min, train.max), (0, 255));
    let data = dataset::digits();
    let pixels = data.train.resident().unwrap();
    let mean = pixels.iter().map(|&v| f64::from(v)).sum::<f64>() / pixels.len() as f64;
    let variance = pixels.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / pixels.len() as f64;
    assert!((train.mean - mean).abs() < 1e-9 && (train.std - variance.sqrt()).abs() < 1e-9);
    assert_eq!((train.n_duplicates, check.n_shared, check.faults.len()), (0, 0, 0));
}

#[test]
fn all_damaged_images_duplicates_and_leaks_are_found() {
    let folder = Folder::empty("check-images");
    for i in 0..12 {
        folder.write(&format!("train/a/{i:02}.pgm"), &pgm(3, 3, i));
    }
    folder.write("train/a/12.pgm", &pgm(3, 3, 7));
    folder.write("train/a/05.pgm", b"");
    folder.write("train/b/0.pgm", b"P5 3 3 255\n12");
    folder.write("test/b/1.pgm", &pgm(3, 3, 7));
    folder.write("test/b/2.pgm", b"no image");
    let check = check(folder.spec());
    let places: Vec<_> = check.faults.iter().map(|fault| fault.place.rsplit('/').next().unwrap()).collect();
    assert_eq!(places, ["05.pgm", "0.pgm", "2.pgm"]);
    assert!(
        check.faults[1].message.contains("9 bytes of values") && !check.faults[1].message.contains("0.pgm")
    );
    assert_eq!((check.parts[0].n_images, check.parts[0].n_read, check.parts[0].n_duplicates), (14, 12, 1));
    assert_eq!((check.parts[0].per_class.as_slice(), check.n_shared), (&[13, 1][..], 1));
    assert_eq!((check.parts[0].min, check.parts[0].max), (0, 11));
}

#[test]
fn all_damaged_files_of_the_other_kinds_are_found() {
    let folder = Folder::empty("check-idx");
    folder.write("train-images-idx3-ubyte", b"junk junk junk junk");
    folder.write("train-labels-idx1-ubyte", b"");
    let found = check(folder.spec());
    assert!(found.parts.is_empty());
    assert_eq!(found.faults.len(), 4, "two damaged, two missing: {:?}", found.faults);
    let folder = Folder::empty("check-cifar");
    folder.write("data_batch_1.bin", &[0; 3073]);
    folder.write("data_batch_2.bin", &[1; 3072]);
    folder.write("test_batch.bin", &[99; 3073]);
    let found = check(folder.spec());
    assert_eq!(found.faults.len(), 5, "{:?}", found.faults);
    assert!(found.faults[4].message.contains("record 0 is 99"));
    assert_message(dataset::check("nowhere", &Options::default(), &|_, _| ()), &["no such folder"]);
    assert_message(dataset::check("synthetic:1", &Options::default(), &|_, _| ()), &["1 sizes"]);
}

#[test]
fn a_summary_tells_what_can_be_seen_from_outside() {
    let folder = Folder::empty("summary");
    assert_eq!(dataset::summary(&folder.0).unwrap(), None);
    folder.write("a/1.pgm", &pgm(3, 3, 1));
    folder.write("a/2.pgm", b"damaged, which cannot be seen");
    let summary = dataset::summary(&folder.0).unwrap().unwrap();
    assert_eq!((summary.kind, summary.shape, summary.classes), (Kind::Images, None, Some(1)));
    assert_eq!((summary.n_train, summary.n_test), (Some(1), Some(1)));
    folder.write("data_batch_1.bin", &[0; 2 * 3073]);
    folder.write("test_batch.bin", &[0; 3073]);
    let summary = dataset::summary(&folder.0).unwrap().unwrap();
    assert_eq!((summary.kind, summary.n_train, summary.n_test), (Kind::Cifar10, None, Some(1)));
    let images = |n: u8| [0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 2, 0, 0, 0, 3];
    folder.write("train-images-idx3-ubyte", &images(200));
    assert_message(dataset::summary(&folder.0), &["t10k-images-idx3-ubyte"]);
    folder.write("t10k-images-idx3-ubyte", &images(9));
    let summary = dataset::summary(&folder.0).unwrap().unwrap();
    assert_eq!((summary.kind, summary.shape), (Kind::Idx, Some([1, 2, 3])));
    assert_eq!((summary.n_train, summary.n_test), (Some(200), Some(9)));
}
