//! Folders of images: PIL's pixels, classes and their order, reading ahead, and every fault.

use std::fs;
use std::path::{Path, PathBuf};

use dahl::dataset::{self, Options};
use dahl::random::Stream;
use safetensors::SafeTensors;

use crate::folder::{Folder, assert_message, pgm, ppm};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images")
}

/// Options that keep nothing in memory.
fn streamed() -> Options {
    Options { memory_bytes: Some(0), ..Options::default() }
}

#[test]
fn pixels_are_those_of_pil() {
    let bytes = fs::read(golden().join("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    assert!(expected.len() > 90);
    let mut wrong = Vec::new();
    for (key, tensor) in expected.tensors() {
        let (name, _) = key.split_once('/').unwrap();
        let shape: [usize; 3] = tensor.shape().try_into().unwrap();
        let pixels = dataset::image_file(golden().join(name), shape).unwrap();
        let differences = pixels.iter().zip(tensor.data()).map(|(&a, &b)| u32::from(a.abs_diff(b)));
        let (worst, sum) = differences.fold((0, 0), |(worst, sum), d| (d.max(worst), sum + d));
        let mean = f64::from(sum) / pixels.len() as f64;
        // JPEG leaves the rounding of its transform to the decoder, and how to enlarge the colours.
        let (most, most_mean) = match name {
            "colour_420.jpg" => (40, 3.0),
            _ if name.contains(".jp") => (4, 1.0),
            _ => (0, 0.0),
        };
        if worst > most || mean > most_mean {
            wrong.push(format!("{key}: worst {worst}, mean {mean:.3}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sixteen_bits_and_other_depths_are_read() {
    for (depth, colour, data, expected) in [
        (png::BitDepth::Sixteen, png::ColorType::Grayscale, vec![0x12, 0xff, 0xfe, 0x00], vec![0x12, 0xfe]),
        (png::BitDepth::Four, png::ColorType::Grayscale, vec![0x3f], vec![0x33, 0xff]),
    ] {
        let folder = Folder::empty(&format!("depth-{}", depth as u8));
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_depth(depth);
        encoder.set_color(colour);
        encoder.write_header().unwrap().write_image_data(&data).unwrap();
        folder.write("a.png", &file);
        assert_eq!(dataset::image_file(folder.0.join("a.png"), [1, 1, 2]).unwrap(), expected);
    }
}

#[test]
fn a_file_cut_or_changed_anywhere_is_an_error_or_an_image_but_no_panic() {
    let folder = Folder::empty("cut-images");
    let path = folder.0.join("image");
    let is_a_line = |read: &dahl::Result<Vec<u8>>| match read {
        Ok(_) => true,
        Err(error) => !error.to_string().contains('\n'),
    };
    for name in ["colour.png", "palette.png", "colour_444.jpg", "progressive.jpeg", "colour.ppm"] {
        let bytes = fs::read(golden().join(name)).unwrap();
        for n in 0..bytes.len() {
            if n % 7 == 0 || n + 16 > bytes.len() {
                folder.write("image", &bytes[..n]);
                let read = dataset::image_file(&path, [3, 4, 4]);
                assert!(read.is_err() && is_a_line(&read), "{name} cut at {n}: {read:?}");
            }
        }
        let random = Stream::new(7, 0);
        for trial in 0..300 {
            let mut changed = bytes.clone();
            let at = random.bits(trial) as usize % bytes.len();
            changed[at] ^= 1 << (trial % 8);
            folder.write("image", &changed);
            let read = dataset::image_file(&path, [3, 4, 4]);
            assert!(is_a_line(&read), "{name} changed at {at}: {read:?}");
            // PNG has checksums.
            assert!(!name.ends_with(".png") || read.is_err(), "{name} changed at {at} is read");
        }
    }
}

/// Three classes with 7, 2 and 1 images, the value of each its number.
fn classes(name: &str) -> Folder {
    let folder = Folder::empty(&format!("images-{name}"));
    for i in 0..7 {
        folder.write(&format!("b/{i}.pgm"), &pgm(4, 3, 10 + i));
    }
    folder.write("a/x.PNM", &pgm(4, 3, 20));
    folder.write("a/deeper/w.pgm", &pgm(8, 8, 21));
    folder.write("a/notes.txt", b"not an image");
    folder.write("a/.hidden.pgm", b"not an image either");
    folder.write(".git/config.pgm", b"nor this");
    folder.write("c/only.ppm", &ppm(4, 3, [30, 30, 30]));
    folder
}

fn values(split: &dataset::Split) -> Vec<u8> {
    (0..split.len()).map(|i| split.image(i).unwrap()[0]).collect()
}

#[test]
fn classes_side_by_side_are_divided_by_counting() {
    let folder = classes("counted");
    for options in [Options::default(), streamed()] {
        let data = dataset::open(folder.spec(), &options).unwrap();
        assert_eq!(data.train.resident().is_some(), options.memory_bytes.is_none());
        assert_eq!(data.class_names, ["a", "b", "c"]);
        // The shape is that of the first image, a/deeper/w.pgm.
        assert_eq!((data.shape, data.classes), ([1, 8, 8], 3));
        assert_eq!(values(&data.train), [21, 10, 11, 12, 13, 14, 16, 30]);
        assert_eq!(data.train.labels(), [0, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!((values(&data.test), data.test.labels()), (vec![20, 15], &[0, 1][..]));
    }
}

#[test]
fn a_limit_takes_from_the_classes_in_turn() {
    let folder = classes("limited");
    let limited = |limit| {
        let options = Options { limit: Some(limit), shape: Some([3, 2, 2]), ..Options::default() };
        dataset::open(folder.spec(), &options).unwrap()
    };
    assert_eq!(values(&limited(1).train), [21]);
    assert_eq!(values(&limited(3).train), [21, 10, 30]);
    assert_eq!(values(&limited(5).train), [21, 10, 11, 12, 30]);
    assert_eq!(limited(100).train.len(), 8);
    assert_eq!((limited(3).test.len(), limited(3).shape), (2, [3, 2, 2]));
}

#[test]
fn train_and_test_folders_are_taken_as_they_are() {
    let folder = Folder::empty("images-divided");
    for (file, value) in
        [("train/x/1", 1), ("train/x/2", 2), ("train/y/1", 3), ("val/y/1", 4), ("val/y/0", 5)]
    {
        folder.write(&format!("{file}.pgm"), &pgm(2, 2, value));
    }
    let data = dataset::open(folder.spec(), &Options::default()).unwrap();
    assert_eq!((values(&data.train), data.train.labels()), (vec![1, 2, 3], &[0, 0, 1][..]));
    assert_eq!((values(&data.test), data.test.labels()), (vec![5, 4], &[1, 1][..]));
    folder.write("val/z/1.pgm", &pgm(2, 2, 0));
    assert_message(dataset::open(folder.spec(), &Options::default()), &["val/z", "(x, y)", "none of them"]);
    fs::remove_dir_all(folder.0.join("val")).unwrap();
    assert_message(dataset::open(folder.spec(), &Options::default()), &["test, val", "beside train"]);
}

#[test]
fn images_of_all_sizes_are_read_ahead_in_order_on_any_number_of_threads() {
    let folder = Folder::empty("images-ahead");
    for i in 0..40_u8 {
        let size = 1 + usize::from(i) * 7 % 23;
        folder.write(&format!("class{}/{i:02}.ppm", i % 4), &ppm(size, 24 - size, [i, 2 * i, 255 - i]));
    }
    let options = Options { shape: Some([3, 5, 6]), ..streamed() };
    let data = dataset::open(folder.spec(), &options).unwrap();
    assert!(data.train.resident().is_none() && data.test.resident().is_none());
    let n = data.train.len();
    let order: Vec<u32> = (0..5).flat_map(|epoch| Stream::new(3, epoch).permutation(n)).collect();
    for n_threads in [1, 2, 7] {
        let mut batches = data.train.batches(order.clone(), n_threads);
        for wanted in order.chunks(9) {
            let (mut pixels, mut labels) = (vec![0; 90 * wanted.len()], vec![0; wanted.len()]);
            batches.next_into(&mut pixels, &mut labels).unwrap();
            for (k, &image) in wanted.iter().enumerate() {
                assert_eq!(pixels[90 * k..90 * (k + 1)], *data.train.image(image as usize).unwrap());
                assert_eq!(labels[k], data.train.labels()[image as usize]);
                assert_eq!(pixels[90 * k] % 4, labels[k], "the pixels are those of the file");
            }
        }
    }
    let resident =
        dataset::open(folder.spec(), &Options { shape: Some([3, 5, 6]), ..Options::default() }).unwrap();
    assert_eq!(resident.train.resident().unwrap()[..90], *data.train.image(0).unwrap());
    // The test images alone may fit.
    let some = Options { memory_bytes: Some(data.test.n_bytes() * 2), ..options };
    let data = dataset::open(folder.spec(), &some).unwrap();
    assert!(data.train.resident().is_none() && data.test.resident().is_some());
}

#[test]
fn a_damaged_image_is_named_when_it_is_read() {
    let folder = classes("damaged");
    folder.write("b/3.pgm", b"P5 9 9 255\nshort");
    folder.write("b/4.pgm", b"");
    assert_message(
        dataset::open(folder.spec(), &Options { n_threads: Some(4), ..Options::default() }),
        &["b/3.pgm", "81 bytes of values were expected and 5", "replace or remove"],
    );
    let data = dataset::open(folder.spec(), &streamed()).unwrap();
    assert_message(data.train.image(4), &["b/3.pgm"]);
    assert_message(data.train.image(5), &["b/4.pgm", "the file is empty"]);
    let mut batches = data.train.batches(0..8, 3);
    batches.next_into(&mut [0; 4 * 64], &mut [0; 4]).unwrap();
    assert_message(batches.next_into(&mut [0; 64], &mut [0; 1]), &["b/3.pgm"]);
    // A first image that is damaged does not decide about the shape.
    folder.write("a/deeper/w.pgm", b"<html>");
    let data = dataset::open(folder.spec(), &streamed()).unwrap();
    assert_eq!(data.shape, [1, 3, 4]);
    assert_message(data.train.image(0), &["w.pgm", "begins with 3c 68 74 6d"]);
    fs::remove_file(folder.0.join("b/5.pgm")).unwrap();
    assert_message(data.test.image(1), &["b/5.pgm", "reading it failed"]);
}

#[test]
fn folders_without_use_are_errors() {
    let folder = classes("empty");
    fs::create_dir(folder.0.join("nothing")).unwrap();
    let opened = dataset::open(folder.spec(), &Options::default());
    assert_message(opened, &["images-empty/nothing", "at least one image", "0 other files", "png, jpg"]);
    let single = Folder::empty("images-single");
    single.write("a/1.pgm", &pgm(1, 1, 1));
    single.write("b/1.pgm", &pgm(1, 1, 1));
    assert_message(dataset::open(single.spec(), &Options::default()), &["at least two images", "single one"]);
    let many = Folder::empty("images-many");
    for class in 0..257 {
        many.write(&format!("{class}/1.pgm"), &pgm(1, 1, 1));
        many.write(&format!("{class}/2.pgm"), &pgm(1, 1, 1));
    }
    assert_message(dataset::open(many.spec(), &Options::default()), &["at most 256 classes", "257"]);
    let options = Options { shape: Some([2, 8, 8]), ..Options::default() };
    assert_message(dataset::open(single.0.join("..").to_str().unwrap(), &options), &[]);
    assert_message(dataset::image_file(single.0.join("a/1.pgm"), [2, 8, 8]), &["1 channel", "2 are asked"]);
    assert_message(dataset::image_file(single.0.join("a/1.pgm"), [1, 0, 8]), &["0 x 8"]);
    #[cfg(unix)]
    {
        let circle = classes("circle");
        std::os::unix::fs::symlink(&circle.0, circle.0.join("b/again")).unwrap();
        assert_message(dataset::open(circle.spec(), &Options::default()), &["again", "make a circle"]);
    }
}
