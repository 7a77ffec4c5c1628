//! The command as a user calls it, for all test programs.

#![allow(dead_code, reason = "each test program uses some of it")]

use serde_json::Value;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A folder of our own that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("dahl-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// The path of something in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_string()
    }

    /// Writes a file, and says where.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), text).expect("written");
        self.file(name)
    }

    /// The bytes of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.0.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says that something cannot be tested here, past the harness, which hides what passing tests print.
pub fn skipped(why: impl Display) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Where commands keep what they measure, apart from what the user has measured.
pub const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// The command, to be started.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.args(arguments).env("DAHL_CACHE", CACHE);
    command
}

/// The command with so much address space, to be started.
pub fn within(kib: u64, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v $0 && exec \"$@\"", &kib.to_string(), env!("CARGO_BIN_EXE_dahl")]);
    command.args(arguments).env("DAHL_CACHE", CACHE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command has printed when it has ended; it is ended if it hangs. What it prints must fit into a
/// pipe.
pub fn ended(mut child: Child, what: impl Display) -> Output {
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().expect("ended");
            panic!("{what} hangs: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("its output")
}

pub fn dahl(arguments: &[&str]) -> Output {
    command(arguments).output().expect("dahl runs")
}

/// What a command that must succeed prints.
pub fn success(arguments: &[&str]) -> String {
    let output = dahl(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} should succeed, but: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// The JSON lines that a command prints.
pub fn json_lines(arguments: &[&str]) -> Vec<Value> {
    let text = success(&[arguments, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The sentence with which a command fails that has been told something wrong: not a panic, and nothing but a
/// sentence.
pub fn failure(arguments: &[&str]) -> String {
    sentence(&format!("{arguments:?}"), &dahl(arguments), 1)
}

/// The same for arguments that make no sense by themselves.
pub fn misuse(arguments: &[&str]) -> String {
    sentence(&format!("{arguments:?}"), &dahl(arguments), 2)
}

/// The sentence of a command that ended with this code.
pub fn sentence(what: &str, output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(code), "{what} should end with {code}: {text}");
    assert!(!text.contains("panicked") && !text.trim().is_empty(), "{what}: {text}");
    text
}
