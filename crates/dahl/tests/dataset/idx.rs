//! IDX folders: every fault is an error that tells the reader what to do, compressed and plain files
//! are equal, and the real data have the known sizes.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use dahl::dataset::{self, Dataset, Options};

use crate::folder::{Folder, assert_message, gzip};

const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

/// The valid data set of the faults below: 5 images for training and 3 for testing, of 2 x 3 pixels.
fn valid(name: &str) -> Folder {
    let folder = Folder::empty(name);
    folder.write(TRAIN_IMAGES, &images([5, 2, 3]));
    folder.write(TRAIN_LABELS, &labels(&[0, 1, 2, 3, 0]));
    folder.write(TEST_IMAGES, &images([3, 2, 3]));
    folder.write(TEST_LABELS, &labels(&[3, 0, 1]));
    folder
}

/// Loads a folder that is valid.
#[track_caller]
fn load(folder: &Folder) -> Dataset {
    dataset::idx(&folder.0).expect("the folder is valid")
}

/// Asserts that loading a folder fails with a message that holds every one of `parts`.
#[track_caller]
fn assert_fails(folder: &Folder, parts: &[&str]) {
    assert_message(dataset::idx(&folder.0), parts);
}

fn header(magic: u32, dims: &[u32]) -> Vec<u8> {
    std::iter::once(&magic).chain(dims).flat_map(|value| value.to_be_bytes()).collect()
}

fn images(dims: [u32; 3]) -> Vec<u8> {
    let mut file = header(0x0803, &dims);
    file.extend((0..dims.iter().product()).map(|i| (i % 251) as u8));
    file
}

fn labels(values: &[u8]) -> Vec<u8> {
    let mut file = header(0x0801, &[values.len() as u32]);
    file.extend(values);
    file
}

#[test]
fn a_valid_folder_is_read() {
    let folder = valid("valid");
    let data = load(&folder);
    assert_eq!(data.name, "dataset-valid");
    assert_eq!(data.shape, [1, 2, 3]);
    assert_eq!(data.classes, 4);
    assert_eq!((data.train.len(), data.test.len()), (5, 3));
    assert_eq!(data.train.labels(), [0, 1, 2, 3, 0]);
    assert_eq!(data.test.labels(), [3, 0, 1]);
    assert_eq!(*data.train.image(1).unwrap(), [6, 7, 8, 9, 10, 11]);
}

#[test]
fn compressed_and_plain_files_are_equal() {
    let folder = valid("gzip");
    let plain = load(&folder);
    for file in [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS] {
        let bytes = fs::read(folder.0.join(file)).expect("the file was written");
        folder.remove(file);
        folder.write(&format!("{file}.gz"), &gzip(&bytes));
    }
    assert_eq!(load(&folder), plain);
}

#[test]
fn content_and_not_the_ending_says_whether_a_file_is_compressed() {
    let folder = valid("ending");
    let expected = load(&folder);
    folder.write(TRAIN_IMAGES, &gzip(&images([5, 2, 3])));
    folder.remove(TEST_LABELS);
    folder.write(&format!("{TEST_LABELS}.gz"), &labels(&[3, 0, 1]));
    assert_eq!(load(&folder), expected);
}

#[test]
fn the_plain_file_wins_over_the_compressed_one() {
    let folder = valid("both");
    folder.write(&format!("{TEST_LABELS}.gz"), &gzip(&labels(&[9])));
    let data = load(&folder);
    assert_eq!(data.test.labels(), [3, 0, 1]);
}

#[test]
fn gzip_files_of_several_members_are_read_to_the_end() {
    let folder = valid("members");
    let expected = load(&folder);
    let file = images([5, 2, 3]);
    let (start, rest) = file.split_at(21);
    folder.write(TRAIN_IMAGES, &[gzip(start), gzip(rest)].concat());
    assert_eq!(load(&folder), expected);
}

#[test]
fn a_missing_folder_is_an_error() {
    let folder = Folder::empty("no-folder");
    assert_message(
        dataset::idx(folder.0.join("nowhere")),
        &["nowhere", "does not exist", TRAIN_IMAGES, "check the path"],
    );
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error() {
    let folder = valid("file-for-folder");
    assert_message(dataset::idx(folder.0.join(TRAIN_IMAGES)), &[TRAIN_IMAGES, "is not a folder"]);
}

#[test]
fn each_missing_file_is_named() {
    for file in [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS] {
        let folder = valid(&format!("no-{file}"));
        folder.remove(file);
        assert_fails(&folder, &[&format!("{file} or {file}.gz"), "neither is there"]);
    }
}

#[test]
fn of_several_faults_the_first_file_is_named() {
    let folder = Folder::empty("nothing");
    for _ in 0..20 {
        assert_fails(&folder, &[TRAIN_IMAGES]);
    }
}

#[test]
fn a_wrong_magic_number_is_an_error() {
    let folder = valid("magic");
    folder.write(TRAIN_IMAGES, b"<!DOCTYPE html>\n<html>");
    assert_fails(&folder, &[TRAIN_IMAGES, "0x00000803", "0x3c21444f", "no IDX file"]);
}

#[test]
fn other_element_types_are_an_error() {
    let folder = valid("floats");
    folder.write(TEST_LABELS, &header(0x0d01, &[3]));
    assert_fails(&folder, &[TEST_LABELS, "0x00000801", "0x00000d01", "unsigned bytes"]);
}

#[test]
fn swapped_files_are_recognised() {
    let folder = valid("swapped");
    folder.write(TRAIN_IMAGES, &labels(&[0; 40]));
    assert_fails(&folder, &[TRAIN_IMAGES, "a file of labels", "swapped"]);
    let folder = valid("swapped-back");
    folder.write(TEST_LABELS, &images([3, 2, 3]));
    assert_fails(&folder, &[TEST_LABELS, "a file of images", "swapped"]);
    // A label file is shorter than the header of an image file; the hint must not depend on that.
    let folder = valid("swapped-short");
    folder.write(TRAIN_IMAGES, &labels(&[0]));
    assert_fails(&folder, &[TRAIN_IMAGES, "a file of labels", "swapped"]);
}

#[test]
fn a_file_compressed_twice_is_recognised() {
    let folder = valid("twice");
    folder.write(TRAIN_LABELS, &gzip(&gzip(&labels(&[0, 1, 2, 3, 0]))));
    assert_fails(&folder, &[TRAIN_LABELS, "compressed twice"]);
}

#[test]
fn empty_files_and_short_headers_are_errors() {
    let folder = valid("short-header");
    folder.write(TRAIN_IMAGES, b"");
    assert_fails(&folder, &[TRAIN_IMAGES, "header of 16 bytes", "end after 0"]);
    folder.write(TRAIN_IMAGES, &images([5, 2, 3])[..11]);
    assert_fails(&folder, &[TRAIN_IMAGES, "header of 16 bytes", "end after 11"]);
    folder.write(TRAIN_IMAGES, &gzip(&images([5, 2, 3]))[..5]);
    assert_fails(&folder, &[TRAIN_IMAGES, "header of 16 bytes", "end after 0"]);
}

#[test]
fn truncated_files_are_errors() {
    let folder = valid("truncated");
    let file = images([5, 2, 3]);
    folder.write(TRAIN_IMAGES, &file[..file.len() - 1]);
    assert_fails(&folder, &[TRAIN_IMAGES, "30 bytes for 5 images", "end after 29", "cut off"]);
    folder.write(TRAIN_IMAGES, &file);
    folder.write(TEST_LABELS, &labels(&[3, 0, 1])[..9]);
    assert_fails(&folder, &[TEST_LABELS, "3 bytes for 3 labels", "end after 1", "cut off"]);
}

#[test]
fn a_compressed_file_cut_anywhere_is_an_error() {
    let folder = valid("cut");
    let file = gzip(&images([5, 2, 3]));
    for n_bytes in 0..file.len() {
        folder.write(TRAIN_IMAGES, &file[..n_bytes]);
        assert_fails(&folder, &[TRAIN_IMAGES]);
    }
}

#[test]
fn a_wrong_checksum_is_an_error() {
    let folder = valid("checksum");
    let mut file = gzip(&images([5, 2, 3]));
    let crc = file.len() - 8;
    file[crc] ^= 1;
    folder.write(TRAIN_IMAGES, &file);
    assert_fails(&folder, &[TRAIN_IMAGES, "intact", "fetch it again"]);
}

#[test]
fn trailing_bytes_are_errors() {
    let folder = valid("trailing");
    let mut file = labels(&[0, 1, 2, 3, 0]);
    file.push(7);
    folder.write(TRAIN_LABELS, &file);
    assert_fails(&folder, &[TRAIN_LABELS, "end after 5 bytes", "more follow"]);
    folder.write(TRAIN_LABELS, &gzip(&file));
    assert_fails(&folder, &[TRAIN_LABELS, "end after 5 bytes", "more follow"]);
    let mut file = gzip(&labels(&[0, 1, 2, 3, 0]));
    file.extend(b"garbage behind the checksum");
    folder.write(TRAIN_LABELS, &file);
    assert_fails(&folder, &[TRAIN_LABELS, "intact"]);
}

#[test]
fn images_and_labels_must_be_equally_many() {
    let folder = valid("count");
    folder.write(TRAIN_LABELS, &labels(&[0, 1, 2, 3]));
    assert_fails(&folder, &[TRAIN_LABELS, TRAIN_IMAGES, "expected 5 labels", "there are 4"]);
    let folder = valid("count-test");
    folder.write(TEST_IMAGES, &images([2, 2, 3]));
    assert_fails(&folder, &[TEST_LABELS, TEST_IMAGES, "expected 2 labels", "there are 3"]);
}

#[test]
fn a_split_without_images_is_an_error() {
    let folder = valid("zero");
    folder.write(TEST_IMAGES, &images([0, 2, 3]));
    folder.write(TEST_LABELS, &labels(&[]));
    assert_fails(&folder, &[TEST_IMAGES, "at least one", "says 0"]);
}

#[test]
fn absurd_dimensions_are_errors_and_reserve_no_memory() {
    let folder = valid("absurd");
    for dims in [[5, 0, 3], [5, 2, 0], [5, 4097, 3], [5, 2, u32::MAX], [u32::MAX; 3]] {
        folder.write(TRAIN_IMAGES, &header(0x0803, &dims));
        assert_fails(
            &folder,
            &[TRAIN_IMAGES, "1 to 4096 rows and columns", &format!("{} x {}", dims[1], dims[2])],
        );
    }
    folder.write(TRAIN_IMAGES, &header(0x0803, &[u32::MAX, 4096, 4096]));
    assert_fails(&folder, &[TRAIN_IMAGES, "at most", "4294967295 x 4096 x 4096"]);
}

#[test]
fn a_large_count_without_data_is_an_error_and_reserves_little_memory() {
    let folder = valid("lie");
    folder.write(TRAIN_LABELS, &header(0x0801, &[u32::MAX]));
    assert_fails(&folder, &[TRAIN_LABELS, "4294967295 bytes", "end after 0"]);
    folder.write(TRAIN_LABELS, &gzip(&header(0x0801, &[u32::MAX])));
    assert_fails(&folder, &[TRAIN_LABELS, "4294967295 bytes", "end after 0"]);
}

#[test]
fn both_splits_must_have_images_of_one_shape() {
    let folder = valid("shape");
    folder.write(TEST_IMAGES, &images([3, 3, 2]));
    assert_fails(&folder, &[TEST_IMAGES, TRAIN_IMAGES, "2 x 3", "3 x 2"]);
}

#[test]
fn a_test_label_unknown_in_training_is_an_error() {
    let folder = valid("label");
    folder.write(TEST_LABELS, &labels(&[3, 4, 1]));
    assert_fails(&folder, &[TEST_LABELS, TRAIN_LABELS, "from 0 to 3", "label number 1 is 4"]);
}

#[test]
fn the_folder_name_is_found_behind_dots() {
    let folder = valid("dots");
    let data = dataset::idx(folder.0.join(".")).expect("the folder is valid");
    assert_eq!(data.name, "dataset-dots");
}

#[test]
fn fashion_mnist_has_its_known_sizes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fashion-mnist");
    if !dir.is_dir() {
        // The print macros are captured in a passing test; the stream itself is not.
        let _ = writeln!(io::stderr(), "skipped: there is no {}", dir.display());
        return;
    }
    let data = dataset::idx(&dir).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(data.name, "fashion-mnist");
    assert_eq!(data.shape, [1, 28, 28]);
    assert_eq!(data.classes, 10);
    assert_eq!((data.train.len(), data.test.len()), (60_000, 10_000));
    assert_eq!(data.train.n_bytes(), 60_000 * 28 * 28);
    assert_eq!(data.train.labels()[..8], [9, 0, 0, 3, 0, 2, 7, 2]);
    for class in 0..10 {
        let count = |labels: &[u8]| labels.iter().filter(|&&label| label == class).count();
        assert_eq!(count(data.train.labels()), 6_000);
        assert_eq!(count(data.test.labels()), 1_000);
    }
}

fn open(folder: &Folder, classes: usize) -> dahl::Result<Dataset> {
    dataset::open(folder.spec(), &Options { classes: Some(classes), ..Options::default() })
}

#[test]
fn one_wrong_label_does_not_make_up_classes() {
    let folder = valid("wrong-label");
    folder.write(TRAIN_LABELS, &labels(&[0, 1, 2, 3, 77]));
    let parts =
        [TRAIN_LABELS, "none of class 4 nor of 72 classes above it", "label number 4 is 77", "--classes 78"];
    assert_fails(&folder, &parts);
    // The whole file counts, whatever is used of it.
    let limited = dataset::open(folder.spec(), &Options { limit: Some(2), ..Options::default() });
    assert_message(limited, &parts);
    let check = dataset::check(folder.spec(), &Options::default(), &|_, _| ()).unwrap();
    assert_eq!(check.faults.len(), 1, "{:?}", check.faults);
    assert!(check.faults[0].message.contains("label number 4 is 77"), "{:?}", check.faults);
    // Whoever says so means it.
    let data = open(&folder, 78).unwrap();
    assert_eq!((data.classes, data.class_names.len()), (78, 78));
    assert_message(open(&folder, 77), &[TRAIN_LABELS, "below 77", "label number 4 is 77"]);
    folder.write(TRAIN_LABELS, &labels(&[0, 1, 2, 3, 4]));
    folder.write(TEST_LABELS, &labels(&[0, 9, 1]));
    assert_message(open(&folder, 9), &[TEST_LABELS, "label number 1 is 9"]);
    assert_eq!(open(&folder, 10).unwrap().classes, 10);
}

#[test]
fn a_class_may_have_test_images_only_if_others_come_after_it() {
    let folder = valid("gap");
    folder.write(TRAIN_LABELS, &labels(&[0, 1, 3, 3, 0]));
    assert_fails(&folder, &["none of class 2, and label number 2 is 3", "--classes 4"]);
    folder.write(TEST_LABELS, &labels(&[3, 2, 1]));
    assert_eq!(load(&folder).classes, 4);
    // Labels that begin with 1, as those of letters do.
    folder.write(TRAIN_LABELS, &labels(&[1, 2, 3, 3, 1]));
    folder.write(TEST_LABELS, &labels(&[3, 2, 1]));
    assert_fails(&folder, &["none of class 0"]);
    assert_eq!(open(&folder, 4).unwrap().classes, 4);
}

#[test]
fn other_data_has_the_classes_it_has() {
    let options = |classes| Options { classes: Some(classes), ..Options::default() };
    assert_eq!(dataset::open("digits", &options(10)).unwrap().classes, 10);
    assert_message(dataset::open("digits", &options(11)), &["digits", "expected 11 classes", "there are 10"]);
    assert_message(dataset::open("synthetic:1x4x4x3", &options(4)), &["expected 4 classes", "there are 3"]);
}
