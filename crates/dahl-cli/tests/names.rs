//! Names out of files and folders: a terminal is shown them and must not obey them.

#![cfg(unix)]

mod command;

use command::{Folder, dahl, sentence, success};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

/// Turns letters red, and clears the screen.
const HOSTILE: &str = "\u{1b}[31mred\u{9b}2J\nand more";

/// Images in two folders, one per class.
fn images(folder: &Folder, classes: [&[u8]; 2]) -> String {
    for class in classes {
        let dir = folder.0.join("data").join(OsStr::from_bytes(class));
        fs::create_dir_all(&dir).expect("a folder");
        for i in 0..4 {
            fs::write(dir.join(format!("{i}.pgm")), format!("P5 8 8 255\n{}", "0123456789abcde\n".repeat(4)))
                .expect("written");
        }
    }
    folder.file("data")
}

/// Whether a terminal would only draw what a command prints.
fn is_harmless(output: &Output) -> bool {
    let text = String::from_utf8([&output.stdout[..], &output.stderr].concat()).expect("text");
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[test]
fn classes_whose_names_are_no_text_are_refused_and_not_taken_for_one() {
    let folder = Folder::new("names-bytes");
    let data = images(&folder, [b"\xff", b"\xfe"]);
    for arguments in [&["data", "check", &data][..], &["train", "--epochs", "1", "--data", &data]] {
        let output = dahl(arguments);
        let text = sentence("names that are no text", &output, 1);
        let told = format!("{text}{}", String::from_utf8_lossy(&output.stdout));
        assert!(told.contains("data/\\xfe: expected the name of a class in UTF-8"), "{told}");
    }
}

#[test]
fn a_terminal_does_not_obey_names() {
    let folder = Folder::new("names-controls");
    let data = images(&folder, [HOSTILE.as_bytes(), b"plain"]);
    let run = folder.file("run");
    let spelt = "\\u001b[31mred\\u009b2J\\u000aand more";
    let train = ["train", "--epochs", "1", "--workers", "1", "--data", &data, "--checkpoint", &run];
    for arguments in [&["data", "check", &data][..], &train, &["predict", &run, "0", "--top", "2"]] {
        let output = dahl(arguments);
        assert!(output.status.success() && is_harmless(&output), "{arguments:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(arguments[0] == "train" || text.contains(spelt), "{arguments:?}: {text}");
    }
    // The same name in JSON.
    let found = command::json_lines(&["data", "check", &data]);
    assert_eq!(found[0]["classes"][0], HOSTILE, "{found:?}");
    // What cannot be read, and what is not there.
    fs::write(folder.0.join("data").join(HOSTILE).join("9.png"), "no image").expect("written");
    fs::write(folder.0.join("data/plain").join(format!("{HOSTILE}.png")), "no image").expect("written");
    let nowhere = format!("no/{HOSTILE}");
    let table = [
        &["data", "check", &data][..],
        &["data", "list", &nowhere],
        &["train", "--data", &data, "--epochs", "1"],
        &["train", "--data", &nowhere],
        &["train", "--plan", &nowhere],
        &["train", "--init", &nowhere],
        &["train", "--model", &nowhere],
        &["eval", &nowhere],
        &["predict", &run, &nowhere],
        &["model", &nowhere],
        &["trace", &nowhere],
        &["stats", &nowhere],
        &["diff", &nowhere, &nowhere],
    ];
    for arguments in table {
        let output = dahl(arguments);
        let text = format!("{output:?}");
        assert!(!output.status.success() && is_harmless(&output), "{arguments:?}: {text}");
        assert!(text.contains("u001b[31mred"), "{arguments:?}: {text}");
    }
}

#[test]
fn names_of_tensors_are_shown_as_they_are_spelt() {
    let folder = Folder::new("names-tensors");
    let file = |name: &str, tensor: &str| {
        let header = format!("{{\"{tensor}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}}}");
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
        folder.write(name, bytes)
    };
    let (a, b) = (file("a.safetensors", "x\\u001b[31m"), file("b.safetensors", "y"));
    let output = dahl(&["diff", &a, &b]);
    assert!(output.status.code() == Some(1) && is_harmless(&output), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("x\\u001b[31m"), "{output:?}");
    success(&["diff", &a, &a]);
}
