//! CIFAR-10: records are read in order, and every fault of a file is told.

use std::fs;

use dahl::dataset::{self, Options};

use crate::folder::{Folder, assert_message, gzip};

const TRAIN: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
const TEST: &str = "test_batch.bin";

/// Records with these labels; pixels follow from the label and their place.
fn records(labels: &[u8]) -> Vec<u8> {
    let record = |&label: &u8| {
        std::iter::once(label).chain((0..3072).map(move |i| (i % 251) as u8 ^ label)).collect::<Vec<_>>()
    };
    labels.iter().flat_map(record).collect()
}

/// Two images in each file.
fn valid(name: &str, inner: &str) -> Folder {
    let folder = Folder::empty(&format!("cifar-{name}"));
    for (i, file) in TRAIN.iter().enumerate() {
        folder.write(&format!("{inner}{file}"), &records(&[i as u8, 9 - i as u8]));
    }
    folder.write(&format!("{inner}{TEST}"), &records(&[3]));
    folder
}

#[test]
fn records_become_images_and_labels_in_order() {
    let folder = valid("valid", "");
    let data = dataset::open(folder.spec(), &Options::default()).unwrap();
    assert_eq!((data.shape, data.classes, data.name.as_str()), ([3, 32, 32], 10, "dataset-cifar-valid"));
    assert_eq!(data.class_names[3], "cat");
    assert_eq!(data.train.labels(), [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]);
    assert_eq!(data.test.labels(), [3]);
    let image = data.train.image(3).unwrap();
    assert_eq!((image.len(), image[0], image[250], image[251], image[3071]), (3072, 8, 250 ^ 8, 8, 59 ^ 8));
    let few = dataset::open(folder.spec(), &Options { limit: Some(3), ..Options::default() }).unwrap();
    assert_eq!((few.train.labels(), few.test.len()), (&[0, 9, 1][..], 1));
}

#[test]
fn compressed_files_and_the_folder_of_the_archive_are_equal() {
    let folder = valid("plain", "");
    let plain = dataset::cifar10(&folder.0).unwrap();
    let packed = valid("plain-archive", "cifar-10-batches-bin/");
    for file in TRAIN {
        let file = format!("cifar-10-batches-bin/{file}");
        let bytes = fs::read(packed.0.join(&file)).unwrap();
        packed.remove(&file);
        packed.write(&format!("{file}.gz"), &gzip(&bytes));
    }
    let packed = dataset::open(packed.spec(), &Options::default()).unwrap();
    assert_eq!((packed.train, packed.test), (plain.train, plain.test));
}

#[test]
fn names_of_classes_are_read_and_their_number_counts() {
    let folder = valid("names", "");
    folder.write("batches.meta.txt", b"a\nb\nc\nd\ne\nf\ng\nh\ni\nlast one\n\n");
    let data = dataset::cifar10(&folder.0).unwrap();
    assert_eq!((data.classes, data.class_names[9].as_str()), (10, "last one"));
    folder.write("batches.meta.txt", b"a\nb\n");
    assert_message(dataset::cifar10(&folder.0), &[TRAIN[0], "0 to 1", "record 1 is 9"]);
    folder.write("batches.meta.txt", "x\n".repeat(257).as_bytes());
    assert_message(dataset::cifar10(&folder.0), &["batches.meta.txt", "at most 256", "257"]);
    folder.write("batches.meta.txt", b"\n");
    assert_eq!(dataset::cifar10(&folder.0).unwrap().class_names[9], "9");
}

#[test]
fn each_missing_file_is_named() {
    for file in TRAIN.into_iter().chain([TEST]) {
        let folder = valid(&format!("no-{file}"), "");
        folder.remove(file);
        let opened = dataset::open(folder.spec(), &Options::default());
        assert_message(opened, &[&format!("{file} or {file}.gz"), "neither is there"]);
    }
}

#[test]
fn a_file_that_is_no_whole_number_of_records_is_an_error() {
    let folder = valid("cut", "");
    for (n, parts) in [(0, "0 records and 0 bytes"), (3072, "0 records and 3072"), (3074, "1 records and 1")]
    {
        folder.write(TRAIN[2], &records(&[1, 2])[..n]);
        assert_message(
            dataset::cifar10(&folder.0),
            &[TRAIN[2], "records of 3073 bytes", parts, "fetch it again"],
        );
    }
    let packed = gzip(&records(&[1, 2]));
    folder.write(TRAIN[2], &packed[..packed.len() / 2]);
    assert_message(dataset::cifar10(&folder.0), &[TRAIN[2], "break off"]);
    let mut packed = packed;
    let crc = packed.len() - 8;
    packed[crc] ^= 1;
    folder.write(TRAIN[2], &packed);
    assert_message(dataset::cifar10(&folder.0), &[TRAIN[2], "intact"]);
}

#[test]
fn a_label_out_of_range_is_an_error() {
    let folder = valid("label", "");
    folder.write(TEST, &records(&[3, 10]));
    assert_message(dataset::cifar10(&folder.0), &[TEST, "labels from 0 to 9", "record 1 is 10"]);
}
