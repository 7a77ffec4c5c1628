//! Running the commands of a page, in order, in a folder of its own.

use crate::command::{Folder, skipped};
use crate::compare::difference;
use crate::page::{Block, Page, root};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Words that stand for something of the reader's.
const FORMS: [&str; 5] = ["FOLDER", "FILE", "DIR", "NAME", "IMAGE"];

/// How a page calls the program where it is not installed yet.
const UNINSTALLED: &str = "cargo run --release --";

/// Why a program in Python is not run.
const NO_TORCH: &str = "no Python with torch and safetensors; set PYTHON";

/// Where a page is followed, and with what.
pub struct Reader {
    folder: Folder,
    /// The folder with the data sets, if there is one.
    data: Option<PathBuf>,
    /// A Python with torch and safetensors, if there is one.
    python: Option<String>,
    /// How the last command ended.
    status: i32,
}

impl Reader {
    /// In a folder called `work`, beside `bin` with the programs and `cache` with what is measured.
    pub fn new(page: &Page, data: Option<PathBuf>, python: Option<String>) -> Reader {
        let name: String = page.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let reader = Reader { folder: Folder::new(&format!("guide-{name}")), data, python, status: 0 };
        for inner in ["bin", "work"] {
            fs::create_dir_all(reader.folder.0.join(inner)).expect("a folder");
        }
        let program = |name: &str, path: &str| {
            let file =
                reader.folder.write(&format!("bin/{name}"), format!("#!/bin/sh\nexec '{path}' \"$@\"\n"));
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a program");
        };
        program("dahl", env!("CARGO_BIN_EXE_dahl"));
        reader.python.iter().for_each(|python| program("python3", python));
        if let Some(data) = &reader.data {
            symlink(data, reader.work().join("data")).expect("a link");
        }
        reader
    }

    fn work(&self) -> PathBuf {
        self.folder.0.join("work")
    }

    /// Does what a block asks for. What went otherwise than the page says, with the page and the line.
    pub fn follow(&mut self, page: &Page, block: &Block) -> Vec<String> {
        if let Some(file) = block.file() {
            let path = self.work().join(file);
            fs::write(path, block.lines.join("\n") + "\n").expect("written");
            return Vec::new();
        }
        let place = |line: usize| format!("{}:{line}", page.name);
        if block.language == "python" {
            return self.run_python(block, &place(block.line)).into_iter().collect();
        }
        if block.language != "console" {
            return Vec::new();
        }
        if let Some(why) = block.not_run.clone().or_else(|| self.missing(block)) {
            skipped(format_args!("{}: {why}", place(block.line)));
            return Vec::new();
        }
        let mut faults = Vec::new();
        let commands = block.commands();
        for (i, command) in commands.iter().enumerate() {
            let text = command.text.replace(UNINSTALLED, "dahl");
            let words = || text.split(|c: char| !c.is_alphanumeric());
            if let Some(form) = words().find(|word| FORMS.contains(word)) {
                skipped(format_args!("{}: {form} is the reader's", place(command.line)));
                break;
            }
            if text.starts_with("cargo ") {
                skipped(format_args!("{}: {text} compiles", place(command.line)));
                continue;
            }
            let printed = self.run(&text);
            let asks_for_status = |command: &crate::page::Command| command.text == "echo $?";
            if self.status != 0 && !commands.get(i + 1).is_some_and(asks_for_status) {
                let status = self.status;
                faults.push(format!("{}: {text}\nends with {status}:\n{printed}", place(command.line)));
                break;
            }
            if let Some(what) = difference(&command.shown, &printed).filter(|_| !command.shown.is_empty()) {
                let shown = command.shown.join("\n");
                faults.push(format!(
                    "{}: {text}\n{what}\n-- shown\n{shown}\n-- printed\n{printed}",
                    place(command.line)
                ));
            }
        }
        faults
    }

    /// Runs a program in Python that has no name; says where it fails.
    fn run_python(&mut self, block: &Block, place: &str) -> Option<String> {
        if self.python.is_none() {
            skipped(format_args!("{place}: {NO_TORCH}"));
            return None;
        }
        self.folder.write("work/unnamed.py", block.lines.join("\n"));
        let printed = self.run("python3 unnamed.py");
        let status = std::mem::take(&mut self.status);
        (status != 0).then(|| format!("{place}: the program ends with {status}:\n{printed}"))
    }

    /// What a command prints, errors included. The next one knows how it ended.
    fn run(&mut self, text: &str) -> String {
        let script =
            format!("PATH={}:$PATH; export PATH; exec 2>&1; (exit {}); {text}", self.bin(), self.status);
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(self.work()).stdin(Stdio::null());
        let output = command.env("DAHL_CACHE", self.folder.file("cache")).output().expect("sh runs");
        self.status = output.status.code().unwrap_or(-1);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn bin(&self) -> String {
        format!("'{}'", self.folder.file("bin"))
    }

    /// What a block needs that is not here.
    fn missing(&self, block: &Block) -> Option<String> {
        let needed = block.needs.as_deref()?;
        match needed {
            "data" => {
                self.data.is_none().then(|| "no data; set DAHL_DATA to a folder with fashion-mnist/".into())
            }
            "torch" => {
                self.python.is_none().then(|| "no Python with torch and safetensors; set PYTHON".into())
            }
            tool => (!is_here(tool)).then(|| format!("no {tool}")),
        }
    }
}

/// Whether there is such a program.
fn is_here(tool: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", "command -v \"$0\" >/dev/null", tool]).status().is_ok_and(|status| status.success())
}

/// The Python that is named, if it has what the guide's scripts import.
pub fn with_torch(python: &str) -> Option<String> {
    let mut command = Command::new(python);
    let command = command.args(["-c", "import torch, safetensors.torch"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then(|| python.to_string())
}

/// The folder with the data sets that is named, or else the one beside the repository.
pub fn with_data(named: Option<PathBuf>) -> Option<PathBuf> {
    let folder = named.unwrap_or_else(|| root().join("../shared/data"));
    let has_images = |folder: &Path| folder.join("fashion-mnist").is_dir();
    folder.canonicalize().ok().filter(|folder| has_images(folder))
}
