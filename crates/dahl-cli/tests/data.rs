//! `dahl data` lists and checks.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.arg("data").args(arguments).output().expect("dahl runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// What is printed by a command that succeeds.
fn good(arguments: &[&str]) -> String {
    let output = data(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(bytes: &str) -> Value {
    serde_json::from_str(bytes).expect("one JSON object")
}

/// A folder with two data sets: images of two classes, of which one can be damaged, and IDX files that are
/// cut off.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, is_damaged: bool) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-data-{name}"));
        let _ = fs::remove_dir_all(&folder);
        for (class, n) in [("cats", 7), ("dogs", 2)] {
            let inner = folder.join("pets").join(class);
            fs::create_dir_all(&inner).expect("made");
            for i in 0..n {
                fs::write(inner.join(format!("{i}.pgm")), format!("P2 2 2 255 {i} 0 {n} 9"))
                    .expect("written");
            }
        }
        if is_damaged {
            fs::write(folder.join("pets/cats/2.pgm"), "P2 2 2 255 1").expect("written");
            fs::write(folder.join("pets/dogs/1.pgm"), "hello").expect("written");
        }
        fs::create_dir_all(folder.join("numbers")).expect("made");
        fs::create_dir_all(folder.join("other")).expect("made");
        fs::write(folder.join("numbers/train-images-idx3-ubyte"), [0, 0, 8]).expect("written");
        Folder(folder)
    }

    fn path(&self, inner: &str) -> String {
        self.0.join(inner).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_list_tells_what_is_built_in_and_which_folders_are_understood() {
    let shown = good(&["list"]);
    for part in ["digits", "synthetic:CxHxW", "IDX", "CIFAR-10", "train/CLASS", "dahl data list FOLDER"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let value = json(&good(&["list", "--json"]));
    assert_eq!(value["built_in"][0]["name"], "digits");
    assert_eq!(value["folders"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_list_of_a_folder_tells_what_it_holds() {
    let folder = Folder::new("list", true);
    for inner in ["", "pets"] {
        let shown = good(&["list", &folder.path(inner)]);
        assert!(shown.contains("pets  images, 7 training and 2 test images, 2 classes"), "{shown}");
    }
    let value = json(&good(&["list", &folder.path(""), "--json"]));
    let sets = value["datasets"].as_array().expect("a list");
    assert_eq!(sets.len(), 2, "{value}");
    assert!(sets[0]["fault"].as_str().is_some_and(|fault| fault.contains("header")), "{value}");
    assert_eq!((&sets[1]["kind"], &sets[1]["train"]), (&"images".into(), &7.into()));
    let shown = good(&["list", &folder.path("other")]);
    assert!(shown.contains("no data set is here") && shown.contains("digits"), "{shown}");
    let missing = data(&["list", &folder.path("nowhere")]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot read the folder"));
}

#[test]
fn a_check_of_good_data_succeeds_with_its_numbers() {
    let folder = Folder::new("good", false);
    let shown = good(&["check", &folder.path("pets")]);
    for part in
        ["images of 1x2x2, 2 classes", "train  7 images", "test   2 images", "cats", "everything can be read"]
    {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let value = json(&good(&["check", "digits", "--json", "--threads", "3"]));
    assert_eq!(value["parts"][0]["images"], 1501);
    assert_eq!(value["parts"][1]["per_class"], serde_json::json!([29, 30, 29, 30, 30, 30, 30, 29, 29, 30]));
    assert_eq!(value["faults"], serde_json::json!([]));
    let value = json(&good(&["check", &folder.path("pets"), "--input", "3x5x7", "--limit", "2", "--json"]));
    assert_eq!((&value["shape"], &value["parts"][0]["images"]), (&serde_json::json!([3, 5, 7]), &2.into()));
}

#[test]
fn a_check_of_damaged_data_lists_every_file_and_fails() {
    let folder = Folder::new("damaged", true);
    let output = data(&["check", &folder.path("pets")]);
    assert_eq!(output.status.code(), Some(1));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("cats/2.pgm: expected") && out.contains("dogs/1.pgm: expected"), "{out}");
    assert!(err.contains("2 files cannot be used"), "{err}");
    let output = data(&["check", &folder.path("pets"), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&text(&output.stdout))["faults"].as_array().map(Vec::len), Some(2));
    let output = data(&["check", &folder.path("numbers"), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&text(&output.stdout))["faults"].as_array().map(Vec::len), Some(4));
}

#[test]
fn what_names_no_data_set_is_an_error_in_a_sentence() {
    let shape = ["check", "digits", "--input", "3x32x32"];
    let cases: [(&[&str], &str); 3] = [
        (&["check", "nowhere"], "there is no such folder"),
        (&["check", "synthetic:3x32"], "there are 2 sizes"),
        (&shape, "but these are 1x8x8"),
    ];
    for (arguments, part) in cases {
        let output = data(arguments);
        let sentence = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{sentence}");
        assert!(sentence.contains(part) && !sentence.contains("panicked"), "{sentence}");
    }
    for arguments in [["--input", "3x"], ["--limit", "0"], ["--threads", "0"]] {
        let output = data(&[&["check", "digits"][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(arguments[0]));
    }
}
