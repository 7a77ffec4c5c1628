//! Opening by a word or a path: what is found, and what is told if nothing is.

use std::sync::Mutex;

use dahl::dataset::{self, Kind, Options};

use crate::folder::{Folder, assert_message, pgm};

#[test]
fn words_open_what_needs_no_file() {
    let data = dataset::open("digits", &Options::default()).unwrap();
    assert_eq!(data, dataset::digits());
    let few = dataset::open("digits", &Options { limit: Some(10), ..Options::default() }).unwrap();
    assert_eq!((few.train.len(), few.test.len()), (10, 296));
    let data = dataset::open("synthetic:2x5x7x3:10", &Options::default()).unwrap();
    assert_eq!((data.shape, data.classes, data.train.len(), data.test.len()), ([2, 5, 7], 3, 10, 3));
    let lazy = Options { memory_bytes: Some(0), ..Options::default() };
    let lazy = dataset::open("synthetic:2x5x7x3:10", &lazy).unwrap();
    assert!(data.train.resident().is_some() && lazy.train.resident().is_none());
    for i in 0..10 {
        assert_eq!(data.train.image(i).unwrap(), lazy.train.image(i).unwrap());
    }
    let few = Options { limit: Some(4), ..Options::default() };
    assert_eq!(dataset::open("synthetic:2x5x7x3:10", &few).unwrap().train.n_bytes(), 4 * 70);
}

#[test]
fn what_cannot_be_parsed_or_found_is_told_with_what_was_looked_for() {
    let open = |spec: &str| dataset::open(spec, &Options::default());
    assert_message(open("synthetic"), &["synthetic:CxHxW"]);
    assert_message(open("synthetic:3x32"), &["synthetic:3x32", "2 sizes"]);
    assert_message(
        open("nowhere-to-be-found"),
        &[
            "nowhere-to-be-found: there is no such folder",
            "digits",
            "synthetic:CxHxW",
            "IDX",
            "CIFAR-10",
            "folder per class",
        ],
    );
    assert_message(open(""), &["no such folder"]);
    let folder = Folder::empty("open-empty");
    assert_message(open(folder.spec()), &["open-empty", "the folder is empty"]);
    for i in 0..9 {
        folder.write(&format!("notes{i}.txt"), b"");
    }
    assert_message(open(folder.spec()), &["the folder has notes0.txt", "notes4.txt and 4 more"]);
    assert_message(open(folder.0.join("notes1.txt").to_str().unwrap()), &["this is a file"]);
    folder.write("inner/a/1.pgm", &pgm(2, 2, 1));
    folder.write("inner/a/2.pgm", &pgm(2, 2, 1));
    assert_eq!(Kind::of(&folder.0.join("inner")), Some(Kind::Images));
    assert_message(open(folder.spec()), &["inner is one: try that"]);
}

#[test]
fn a_shape_or_a_limit_that_cannot_be_is_an_error() {
    let shape = Options { shape: Some([3, 32, 32]), ..Options::default() };
    assert_message(dataset::open("digits", &shape), &["digits", "3x32x32", "1x8x8", "another model"]);
    let limit = Options { limit: Some(0), ..Options::default() };
    assert_message(dataset::open("digits", &limit), &["at least one"]);
}

#[test]
fn progress_is_told_up_to_the_end() {
    let told = Mutex::new(Vec::new());
    let options = Options { n_threads: Some(3), ..Options::default() };
    dataset::open_with("synthetic:1x4x4:40", &options, &|done, total| {
        told.lock().unwrap().push((done, total));
    })
    .unwrap();
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    assert_eq!(told, (1..=50).map(|done| (done, 50)).collect::<Vec<_>>());
}
