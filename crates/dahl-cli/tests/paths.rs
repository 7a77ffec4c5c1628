//! Every argument that names a path, given everything that a path can be but should not: devices, pipes,
//! folders, links to nothing, files without permission. The command must say so, soon and in little memory.
//!
//! The table is compared with what `--help` says, so that no argument is forgotten.

#![cfg(unix)]

mod command;

use Thing::{Dangling, Device, Directory, Forbidden, Link, Pipe};
use command::{Folder, skipped, success};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// What stands where a path is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    /// `/dev/zero`, which has no end.
    Device,
    /// A link to it.
    Link,
    /// A pipe that nobody reads or writes.
    Pipe,
    /// An empty folder.
    Directory,
    /// A link to what is not there.
    Dangling,
    /// A file that may not be read or written.
    Forbidden,
}

const THINGS: [Thing; 6] = [Device, Link, Pipe, Directory, Dangling, Forbidden];

/// A file or folder that is read must be one.
const READ: &[Thing] = &[];
/// A file can be written to a device, and to where a link points.
const WRITTEN: &[Thing] = &[Device, Link, Dangling];

/// Arguments that name a path: how a command is called with one (`@`), and with which things it works. `RUN`,
/// `TRACE` and `WEIGHTS` stand for what a training left.
const TABLE: &[(&str, &str, &[Thing])] = &[
    ("train --model", "train --limit 16 --epochs 1 --model @", READ),
    ("train --data", "train --limit 16 --epochs 1 --data @", READ),
    ("train --init", "train --limit 16 --epochs 1 --init @", READ),
    ("train --plan", "train --limit 16 --epochs 1 --plan @", READ),
    ("train --batches", "train --limit 16 --batches @", READ),
    ("train --resume", "train --epochs 2 --resume @", READ),
    ("train --save-plan", "train --limit 16 --epochs 1 --workers 1 --save-plan @", WRITTEN),
    // The ending says how a trace is written, and that a report is a page; `/dev/zero` has none.
    ("train --trace", "train --limit 16 --epochs 1 --workers 1 --trace @", &[Link, Dangling]),
    ("train --report", "train --limit 16 --epochs 1 --workers 1 --report @", &[Link, Dangling]),
    ("train --metrics", "train --limit 16 --epochs 1 --workers 1 --metrics @", WRITTEN),
    ("train --dump", "train --limit 16 --epochs 1 --workers 1 --dump @", &[Directory]),
    ("train --checkpoint", "train --limit 16 --epochs 1 --workers 1 --checkpoint @", &[Directory]),
    ("eval CHECKPOINT", "eval @", READ),
    ("eval --data", "eval RUN --data @", READ),
    ("eval --model", "eval WEIGHTS --data digits --model @", READ),
    ("predict CHECKPOINT", "predict @ 0", READ),
    ("predict IMAGE|INDEX", "predict RUN @", READ),
    ("predict --data", "predict RUN 0 --data @", READ),
    ("predict --model", "predict WEIGHTS 0 --data digits --model @", READ),
    ("model NAME|FILE", "model @", READ),
    ("model --data", "model seed --data @", READ),
    // It says that no data set is there.
    ("data list FOLDER", "data list @", &[Directory]),
    ("data check DATA", "data check @", READ),
    ("trace FILE", "trace @", READ),
    ("trace --output", "trace TRACE --to dot --output @", WRITTEN),
    ("stats FILE", "stats @", READ),
    ("stats --against", "stats TRACE --against @", READ),
    ("stats --machine", "stats TRACE --machine @", READ),
    ("diff A", "diff @ WEIGHTS", READ),
    ("diff B", "diff WEIGHTS @", READ),
    ("calibrate --model", "calibrate --model @", READ),
    ("calibrate --data", "calibrate --data @", READ),
    ("sweep --model", "sweep --model @", READ),
    ("sweep --data", "sweep --data @", READ),
    ("sweep --plot", "sweep --batch 4 --workers 1 --default --rounds 1 --seconds 0.001 --plot @", WRITTEN),
    ("bench --model", "bench --model @", READ),
    (
        "bench --python",
        "bench --model seed --batch 4 --workers 1 --rounds 1 --against torch --python @",
        READ,
    ),
    ("machine --output", "machine --output @", WRITTEN),
];

/// What `--help` calls the values of arguments that are no paths.
const NO_PATHS: &str = "BATCH BY CLASSES CxHxW DEVICES DTYPE EPOCHS LR MODES MOMENTUM N NAME NUMBERS OPTIMIZER SCHEDULE SECONDS SEED \
     SHELL SIZES STEPS TILES TO TYPES WHOM WORKERS X";
/// Arguments that are no paths, although others whose values are called the same are.
const NOR_THESE: &[&str] = &["train --impl"];

/// More address space than any of these commands needs, and less than what has no end.
const MAX_KIB: u64 = 8 << 20;
/// Somebody without rights.
const NOBODY: u32 = 65534;

/// A folder with what the commands are about.
fn given(name: &str) -> Folder {
    let folder = Folder::new(name);
    let (run, trace) = (folder.file("run"), folder.file("trace.json"));
    success(&["train", "--limit", "16", "--epochs", "1", "--workers", "1", "--checkpoint", &run]);
    success(&["train", "--limit", "16", "--steps", "1", "--workers", "1", "--trace", &trace]);
    let entries = fs::read_dir(&run).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut checkpoints =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    fs::copy(checkpoints.next().expect("a checkpoint"), folder.0.join("weights.safetensors"))
        .expect("copied");
    folder
}

/// Runs the command in little memory, and ends it if it hangs.
fn bounded(arguments: &[&str]) -> Output {
    bounded_as(arguments, |_| ()).expect("dahl runs")
}

/// The same for a command that is changed before it is started; nothing if it cannot be.
fn bounded_as(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Option<Output> {
    let mut command = command::within(MAX_KIB, arguments);
    change(&mut command);
    Some(command::ended(command.spawn().ok()?, format!("{arguments:?}")))
}

/// What is wrong with the end of a command that should have failed with a sentence.
fn wrong(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let is_told = matches!(output.status.code(), Some(1 | 2)) && !text.contains("panicked");
    let has_sentence = text.lines().any(|line| line.starts_with("dahl: ") || line.starts_with("error: "));
    (!is_told || !has_sentence).then(|| format!("{}: {text}", output.status))
}

/// Makes a thing and says where it is.
fn make(thing: Thing, folder: &Folder, name: &str, ending: &str) -> String {
    let path = folder.file(&format!("{name}-{thing:?}.{ending}"));
    match thing {
        Device => return "/dev/zero".to_string(),
        Link => symlink("/dev/zero", &path).expect("a link"),
        Pipe => assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success()),
        Directory => fs::create_dir(&path).expect("a folder"),
        Dangling => symlink(folder.file(&format!("{name}-nothing.{ending}")), &path).expect("a link"),
        Forbidden => {
            fs::write(&path, "{}").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("forbidden");
        }
    }
    path
}

/// Tries all things for the arguments of some commands.
fn check(commands: &[&str]) {
    let folder = &given(&format!("paths-{}", commands[0]));
    let is_root = fs::metadata(&folder.0).expect("a folder").uid() == 0;
    // Nothing is forbidden to root.
    let become_nobody = |command: &mut Command| {
        if is_root {
            command.uid(NOBODY);
        }
    };
    let version = bounded_as(&["--version"], become_nobody);
    let may_run = version.is_some_and(|output| output.status.success());
    if !may_run {
        skipped("files without permission: nobody else may run the command here");
    }
    let mut wrongs = Vec::new();
    for (key, line, fine) in TABLE {
        if !commands.contains(&key.split(' ').next().unwrap_or_default()) {
            continue;
        }
        for thing in THINGS.into_iter().filter(|thing| may_run || *thing != Forbidden) {
            let name: String = key.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
            // One that a trace may have, and where it must be, a page.
            let ending = if *key == "train --report" { "html" } else { "json" };
            let path = make(thing, folder, &name, ending);
            let arguments: Vec<String> = line
                .split(' ')
                .map(|word| match word {
                    "@" => path.clone(),
                    "RUN" => folder.file("run"),
                    "TRACE" => folder.file("trace.json"),
                    "WEIGHTS" => folder.file("weights.safetensors"),
                    _ => word.to_string(),
                })
                .collect();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = match thing {
                Forbidden => bounded_as(&arguments, become_nobody).expect("dahl runs"),
                _ => bounded(&arguments),
            };
            let text = String::from_utf8_lossy(&output.stderr);
            let fault = match fine.contains(&thing) {
                true => {
                    (!output.status.success()).then(|| format!("should work, but {}: {text}", output.status))
                }
                false => wrong(&output),
            };
            wrongs.extend(fault.map(|fault| format!("{key} with {thing:?}: {fault}")));
        }
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

#[test]
fn training_refuses_what_is_no_file() {
    check(&["train"]);
}

#[test]
fn using_what_was_trained_refuses_what_is_no_file() {
    check(&["eval", "predict", "model", "data"]);
}

#[test]
fn looking_at_runs_refuses_what_is_no_file() {
    check(&["trace", "stats", "diff", "machine"]);
}

#[test]
fn measuring_refuses_what_is_no_file() {
    check(&["calibrate", "sweep", "bench"]);
}

/// The commands in the help of `path`, which is a command or none.
fn commands_in(path: &[&str]) -> Vec<String> {
    let help = success(&[path, &["-h"]].concat());
    let (_, commands) = help.split_once("Commands:\n").unwrap_or_default();
    let names = commands.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The arguments with values in the help of a command, as in the table, and what their values are called.
fn arguments_in(path: &[&str]) -> Vec<(String, String)> {
    let help = success(&[path, &["-h"]].concat());
    let mut found = Vec::new();
    for line in help.lines().map(str::trim_start) {
        let words = line.split("  ").next().unwrap_or_default();
        let value =
            |open: char, close: char| words.split_once(open)?.1.split_once(close).map(|(value, _)| value);
        let name = words.split([' ', ',']).find(|word| word.starts_with("--"));
        match (name, words.chars().next()) {
            (Some(name), Some('-')) => {
                found.extend(value('<', '>').map(|value| (name.to_owned(), value.to_owned())));
            }
            (None, Some('<')) => {
                found.extend(value('<', '>').map(|value| (value.to_owned(), value.to_owned())))
            }
            (None, Some('[')) if words.ends_with(']') => {
                found.extend(value('[', ']').map(|value| (value.to_owned(), value.to_owned())));
            }
            _ => {}
        }
    }
    found.into_iter().map(|(name, value)| (format!("{} {name}", path.join(" ")), value)).collect()
}

#[test]
fn the_table_has_every_argument_that_names_a_path() {
    let mut wanted = BTreeSet::new();
    for command in commands_in(&[]) {
        let inner = commands_in(&[&command]);
        let paths: Vec<Vec<&str>> = match inner.is_empty() {
            true => vec![vec![&command]],
            false => inner.iter().map(|inner| vec![command.as_str(), inner]).collect(),
        };
        for path in paths {
            let arguments = arguments_in(&path).into_iter();
            let no_path = |value: &String| NO_PATHS.split(' ').any(|known| known == value);
            wanted.extend(arguments.filter(|(_, value)| !no_path(value)).map(|(argument, _)| argument));
        }
    }
    let table = TABLE.iter().map(|(key, _, _)| *key).chain(NOR_THESE.iter().copied());
    let table: BTreeSet<String> = table.map(str::to_owned).collect();
    assert!(wanted.len() > 30, "{wanted:?}");
    assert_eq!(wanted, table, "the arguments of --help, and those that are tried");
}

/// A folder of images with two classes, one of whose images is a thing.
fn images(folder: &Folder, thing: Thing) -> String {
    let name = format!("images-{thing:?}");
    for class in ["a", "b"] {
        fs::create_dir_all(folder.0.join(&name).join(class)).expect("a folder");
        for i in 0..3 {
            folder.write(&format!("{name}/{class}/{i}.pgm"), "P5 4 4 255\n0123456789abcdef");
        }
    }
    fs::rename(make(thing, folder, "image", "json"), folder.0.join(&name).join("a/9.png")).expect("moved");
    folder.file(&name)
}

#[test]
fn what_is_no_file_among_images_is_refused() {
    let folder = Folder::new("among-images");
    for thing in [Link, Pipe, Dangling] {
        let data = images(&folder, thing);
        for line in
            [&["train", "--epochs", "1", "--watchdog", "20", "--data", &data][..], &["data", "check", &data]]
        {
            let output = bounded(line);
            let told = [&output.stderr[..], &output.stdout].concat();
            let told = String::from_utf8_lossy(&told);
            assert_eq!(wrong(&output), None, "{line:?}");
            assert!(told.contains("9.png"), "{thing:?}: {told}");
        }
    }
}

#[test]
fn what_is_no_file_among_the_files_of_a_data_set_is_refused() {
    let folder = Folder::new("among-files");
    let labels = b"\0\0\x08\x01\0\0\0\x01\0";
    let image = b"\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\x07";
    let idx = [
        ("train-images-idx3-ubyte", &image[..]),
        ("train-labels-idx1-ubyte", labels),
        ("t10k-images-idx3-ubyte", image),
        ("t10k-labels-idx1-ubyte", labels),
    ];
    let record = [0_u8; 3073];
    let batches =
        ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"];
    let names = batches.map(|name| format!("{name}.bin"));
    let mut cifar: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &record[..])).collect();
    cifar.push(("batches.meta.txt", b"cat\ndog\n"));
    for (kind, files) in [("idx", &idx[..]), ("cifar", &cifar)] {
        for (i, thing) in [Link, Pipe].into_iter().flat_map(|thing| (0..files.len()).map(move |i| (i, thing)))
        {
            let data = format!("{kind}-{i}-{thing:?}");
            fs::create_dir(folder.0.join(&data)).expect("a folder");
            for (name, bytes) in files {
                folder.write(&format!("{data}/{name}"), bytes);
            }
            let made = make(thing, &folder, &data, "json");
            fs::rename(made, folder.0.join(&data).join(files[i].0)).expect("moved");
            let data = folder.file(&data);
            let output = bounded(&["data", "check", &data]);
            assert_eq!(wrong(&output), None, "{} is {thing:?}", files[i].0);
        }
    }
}

#[test]
fn what_is_no_file_among_checkpoints_is_passed_over() {
    let folder = given("among-checkpoints");
    for thing in [Link, Pipe] {
        let run = folder.0.join(format!("{thing:?}"));
        fs::create_dir(&run).expect("a folder");
        fs::rename(make(thing, &folder, "step", "json"), run.join("step-000000000009.safetensors"))
            .expect("moved");
        let output = bounded(&["eval", run.to_str().expect("text")]);
        assert_eq!(wrong(&output), None);
        fs::copy(folder.0.join("weights.safetensors"), run.join("step-000000000001.safetensors"))
            .expect("copied");
        let output = bounded(&["eval", run.to_str().expect("text"), "--workers", "1"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("is passed over"), "{}: {text}", output.status);
    }
}

#[test]
fn what_is_no_file_among_what_was_measured_keeps_nobody_waiting() {
    let folder = Folder::new("among-measured");
    let cache = folder.file("cache");
    let train = || {
        let arguments = ["train", "--limit", "256", "--batch", "16", "--epochs", "1", "--workers", "1"];
        bounded_as(&arguments, |command| _ = command.env("DAHL_CACHE", &cache)).expect("dahl runs")
    };
    assert!(train().status.success());
    let entries = fs::read_dir(&cache).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files: Vec<_> = entries.collect();
    assert!(files.len() > 1, "{files:?}");
    for path in files {
        fs::remove_file(&path).expect("removed");
        fs::rename(make(Pipe, &folder, "measured", "json"), &path).expect("moved");
        let output = train();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}: {text}", path.display(), output.status);
        assert!(text.contains(&*path.to_string_lossy()), "{}: {text}", path.display());
        fs::remove_file(&path).expect("removed");
    }
}
