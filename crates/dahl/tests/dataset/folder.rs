//! Folders that tests fill.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A folder of its own for one test, removed when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder called `name`.
    pub fn empty(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dataset-{name}"));
        // A run that was killed may have left its folder behind.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the test folder can be made");
        Self(path)
    }

    /// Writes a file, in a folder within this one if `file` says so.
    pub fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.join(file);
        let parent = path.parent().expect("a file is in a folder");
        fs::create_dir_all(parent).expect("the test folder can be made");
        fs::write(path, bytes).expect("the test file can be written");
    }

    pub fn remove(&self, file: &str) {
        fs::remove_file(self.0.join(file)).expect("the test file can be removed");
    }

    /// What names this folder as a data set.
    pub fn spec(&self) -> &str {
        self.0.to_str().expect("paths of tests are UTF-8")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Asserts that `result` is one line that states an expectation and holds every one of `parts`.
#[track_caller]
pub fn assert_message<T>(result: Result<T, impl Display>, parts: &[&str]) {
    let message = match result {
        Ok(_) => panic!("this data set is faulty: {parts:?}"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    assert!(message.contains("expected"), "no expectation in: {message}");
    assert!(!message.contains('\n'), "more than one line: {message}");
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

/// A grey image file of one value.
pub fn pgm(width: usize, height: usize, value: u8) -> Vec<u8> {
    [format!("P5\n{width} {height}\n255\n").as_bytes(), &vec![value; width * height]].concat()
}

/// A coloured image file of one colour.
pub fn ppm(width: usize, height: usize, colour: [u8; 3]) -> Vec<u8> {
    [format!("P6\n{width} {height}\n255\n").as_bytes(), &colour.repeat(width * height)].concat()
}
