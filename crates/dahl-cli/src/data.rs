//! `dahl data`.

use std::fmt::Write as _;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::exit::Exit;
use crate::output::say;
use crate::parse::{at_least_one, classes, image_shape, name, path};
use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use dahl::dataset::{self, Check, Kind, Options, PartCheck, Summary};
use dahl_runtime::shown;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// What to do with data sets.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl data list                       what dahl brings along, and which folders it understands
  dahl data list data                  the data sets in the folder `data`
  dahl data check data/fashion-mnist   reads all of it: sizes, classes, pixels, damage
  dahl data check photos --json        the same for programs; the exit code is 1 if anything is damaged
  dahl data check synthetic:3x32x32    what a synthetic data set looks like")]
pub struct Args {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand)]
enum DataCommand {
    /// Show what can be trained on: what is built in, which folders are understood, and what a folder holds
    List {
        /// A data set, or a folder of data sets
        #[arg(value_parser = path())]
        folder: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Read a whole data set and tell what it holds and what is damaged
    Check {
        /// `digits`, `synthetic:CxHxW[xCLASSES][:COUNT]` or a folder
        #[arg(value_parser = name())]
        data: String,
        /// Channels, height and width to bring images to that have files of their own [default: those of the
        /// first, at most 64]
        #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
        input: Option<[usize; 3]>,
        /// Look only at N training images
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
        /// How many classes there are, where labels are mere numbers and some class has no image
        #[arg(long, value_name = "N", value_parser = classes)]
        classes: Option<usize>,
        /// Threads to read images on [default: one per core]
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        threads: Option<usize>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Shows or checks data sets.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.command {
        DataCommand::List { folder: None, json } => print(*json, &known_json(), &known_text()),
        DataCommand::List { folder: Some(folder), json } => list(folder, *json),
        DataCommand::Check { data, input, limit, classes, threads, json } => {
            let (shape, limit, classes, n_threads) = (*input, *limit, *classes, *threads);
            let options = Options { shape, limit, classes, n_threads, ..Options::default() };
            check(data, &options, *json)
        }
    }?;
    Ok(Exit::Done)
}

fn print(json: bool, value: &Value, text: &str) -> Result<()> {
    match json {
        true => say(value)?,
        false => say(text.trim_end_matches('\n'))?,
    }
    Ok(())
}

/// What needs no file, and how to ask for it.
const BUILT_IN: [(&str, &str); 2] = [
    ("digits", "1797 real images of handwritten digits, 1x8x8, 10 classes"),
    ("synthetic:CxHxW", "images of any shape, made on the spot; [xCLASSES][:COUNT] may follow"),
];

fn known_json() -> Value {
    let built_in = BUILT_IN.map(|(name, about)| json!({ "name": name, "description": about }));
    let folders = Kind::ALL.map(|kind| json!({ "kind": kind.name(), "description": kind.description() }));
    json!({ "built_in": built_in, "folders": folders })
}

fn known_text() -> String {
    let mut text = "built in\n".to_owned();
    for (name, about) in BUILT_IN {
        let _ = writeln!(text, "  {name:<16}  {about}");
    }
    text += "folders with\n";
    for kind in Kind::ALL {
        let _ = writeln!(text, "  {:<16}  {}", kind.name(), kind.description());
    }
    text + "next: dahl data list FOLDER, dahl train --data digits\n"
}

/// Shows the data set in `folder`, or those one level below.
fn list(folder: &Path, json: bool) -> Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    if Kind::of(folder).is_none() {
        let entries = fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder {}", shown::path(folder)))?;
        folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort_unstable();
    }
    let found = folders.into_iter().filter_map(|path| match dataset::summary(&path) {
        Ok(None) => None,
        Ok(Some(summary)) => Some((path, Ok(summary))),
        Err(error) => Some((path, Err(format!("{error:#}")))),
    });
    let found: Vec<(PathBuf, Result<Summary, String>)> = found.collect();
    let mut text = String::new();
    for (path, summary) in &found {
        let _ = match summary {
            Ok(summary) => writeln!(text, "{}  {}", shown::path(path), summary_text(summary)),
            Err(fault) => writeln!(text, "{}  cannot be used: {fault}", shown::path(path)),
        };
    }
    if found.is_empty() {
        let _ = writeln!(text, "{}: no data set is here or one folder below", shown::path(folder));
        text += &known_text();
    }
    let sets = found.iter().map(|(path, summary)| match summary {
        Ok(summary) => json!({
            "path": path.display().to_string(),
            "kind": summary.kind.name(),
            "shape": summary.shape,
            "classes": summary.classes,
            "train": summary.n_train,
            "test": summary.n_test,
        }),
        Err(fault) => json!({ "path": path.display().to_string(), "fault": fault }),
    });
    print(json, &json!({ "datasets": sets.collect::<Vec<_>>() }), &text)
}

fn summary_text(summary: &Summary) -> String {
    let mut parts = vec![summary.kind.name().to_owned()];
    if let (Some(train), Some(test)) = (summary.n_train, summary.n_test) {
        parts.push(format!("{train} training and {test} test images"));
    }
    if let Some([c, h, w]) = summary.shape {
        parts.push(format!("{c}x{h}x{w}"));
    }
    if let Some(classes) = summary.classes {
        parts.push(format!("{classes} classes"));
    }
    parts.join(", ")
}

/// Checks a data set; damage is told and then an error.
fn check(spec: &str, options: &Options, json: bool) -> Result<()> {
    let bar = late_bar(json);
    let check = dataset::check(spec, options, &|done, total| {
        bar.set_length(total as u64);
        // Images may be done in another order than they are told here.
        bar.set_position(bar.position().max(done as u64));
    });
    bar.finish_and_clear();
    let check = check.context("cannot check the data")?;
    print(json, &check_json(&check), &check_text(&check))?;
    let n = check.faults.len();
    ensure!(n == 0, "{spec}: {n} {} cannot be used", if n == 1 { "file" } else { "files" });
    Ok(())
}

/// A bar on the terminal, for what takes longer than a second.
fn late_bar(json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    let start = Instant::now();
    let late = move |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
        if start.elapsed() > Duration::from_secs(1) {
            let _ = write!(out, "{} of {} images", state.pos(), state.len().unwrap_or(0));
        }
    };
    let style = ProgressStyle::with_template("{late}").map(|style| style.with_key("late", late));
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

fn check_json(check: &Check) -> Value {
    let part = |part: &PartCheck| {
        json!({
            "name": part.name,
            "images": part.n_images,
            "read": part.n_read,
            "per_class": part.per_class,
            "min": part.min,
            "max": part.max,
            "mean": part.mean,
            "std": part.std,
            "duplicates": part.n_duplicates,
        })
    };
    let faults = check.faults.iter().map(|fault| json!({ "place": fault.place, "message": fault.message }));
    json!({
        "name": check.name,
        "shape": check.shape,
        "classes": check.class_names,
        "parts": check.parts.iter().map(part).collect::<Vec<_>>(),
        "shared": check.n_shared,
        "faults": faults.collect::<Vec<_>>(),
    })
}

fn check_text(check: &Check) -> String {
    let mut text = String::new();
    if !check.parts.is_empty() {
        let [c, h, w] = check.shape;
        let _ = writeln!(
            text,
            "{}: images of {c}x{h}x{w}, {} classes",
            shown::name(&check.name),
            check.class_names.len()
        );
        for part in &check.parts {
            let _ = writeln!(
                text,
                "{:<5}  {} images; pixels {} to {}, mean {:.2}, standard deviation {:.2}; {} duplicates",
                part.name, part.n_images, part.min, part.max, part.mean, part.std, part.n_duplicates
            );
        }
        if check.n_shared > 0 {
            let _ = writeln!(
                text,
                "{} test images are training images, too: accuracy will look too good",
                check.n_shared
            );
        }
        let names: Vec<String> = check.class_names.iter().map(|name| shown::name(name).to_string()).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let _ = writeln!(text, "{:<width$}  {:>8}  {:>8}", "class", "train", "test");
        for (i, name) in names.iter().enumerate() {
            let counts: Vec<usize> = check.parts.iter().map(|part| part.per_class[i]).collect();
            let _ = writeln!(text, "{name:<width$}  {:>8}  {:>8}", counts[0], counts[1]);
        }
    }
    for fault in &check.faults {
        let _ = writeln!(text, "damaged: {}: {}", shown::name(&fault.place), fault.message);
    }
    if check.faults.is_empty() {
        text += "everything can be read\n";
    }
    text
}
