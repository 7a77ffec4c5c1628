//! Opening what arguments name: data sets, models, checkpoints.

use crate::output::{count, warn};
use anyhow::{Context, Result, ensure};
use dahl::dataset::{self, Dataset, Kind, Options};
use dahl::file;
use dahl::layer::Kinds;
use dahl::model::{Builtin, Sequential};
use dahl::train::Checkpoint;
use dahl_runtime::machine::{Hardware, Machine, n_cores};
use dahl_runtime::shown;
use indicatif::ProgressBar;
use serde_json::json;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{MAIN_SEPARATOR, Path};

/// A data set by its description. Reading many images takes its time, which a bar shows.
pub fn data(spec: &str, options: &Options, is_quiet: bool) -> Result<Dataset> {
    let is_hidden = is_quiet || !stderr().is_terminal();
    let bar =
        if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0).with_message("reading images") };
    let data = dataset::open_with(spec, options, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    data.context("cannot load the data")
}

/// The same for the data that a checkpoint names: it may have been moved since.
pub fn data_of_checkpoint(spec: &str, options: &Options, is_quiet: bool) -> Result<Dataset> {
    let data = data(spec, options, is_quiet);
    if is_built_in(spec) || Kind::of(Path::new(spec)).is_some() {
        return data;
    }
    data.with_context(|| {
        format!("the checkpoint was trained on {spec}; if it is elsewhere now, add --data FOLDER")
    })
}

/// A description of the same data that holds in any folder that a command is called in.
pub fn anywhere(spec: &str) -> String {
    let full = if is_built_in(spec) { None } else { fs::canonicalize(spec).ok() };
    full.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| spec.to_string())
}

/// Whether data needs no folder.
fn is_built_in(spec: &str) -> bool {
    spec == "digits" || spec == "synthetic" || spec.starts_with("synthetic:")
}

/// Whether a model is a file, and not a name.
pub fn is_file(spec: &str) -> bool {
    spec.ends_with(".toml") || spec.contains(MAIN_SEPARATOR) || Path::new(spec).is_file()
}

/// A data set of which no image is read that has a file of its own.
pub fn described(spec: &str, classes: Option<usize>) -> Result<Dataset> {
    data(spec, &Options { memory_bytes: Some(0), classes, ..Options::default() }, true)
}

/// The largest model file that is read; the longest of those that are built in has a few kilobytes.
const MAX_MODEL_BYTES: u64 = 16 << 20;

/// A model by name, or from a file, for images of this shape, or of the one that it says itself, and this
/// many classes.
pub fn model(spec: &str, input: Option<[usize; 3]>, classes: usize) -> Result<Sequential> {
    if !is_file(spec) {
        return Ok(Builtin::named(spec)?.model(input, classes)?);
    }
    let text = file::read_text(spec, MAX_MODEL_BYTES)?;
    Ok(Sequential::from_toml(&text, spec, input, Some(classes))?)
}

/// A machine of so many workers, or of one per core. More than there are cores are possible, and told.
pub fn machine(workers: Option<usize>) -> Machine {
    let n_cores = n_cores();
    let n = workers.unwrap_or(n_cores);
    if n > n_cores {
        let (workers, cores) = (count(n, "worker"), count(n_cores, "core"));
        warn(format_args!("{workers} take turns on {cores}, which is slower than one per core"));
    }
    Machine::of_hardware(&Hardware::detect(), n)
}

/// A checkpoint file, or the newest one of a folder that is whole; says on standard error which newer ones
/// are not.
pub fn checkpoint(path: &Path) -> Result<Checkpoint> {
    let loaded = Checkpoint::load(path)?;
    for refused in &loaded.refused {
        warn(format_args!("{} is passed over: {}", shown::path(&refused.path), refused.reason));
    }
    if !loaded.refused.is_empty() {
        warn(format_args!("going back to {}", shown::path(&loaded.path)));
    }
    Ok(loaded.checkpoint)
}

const MODEL: &str = "model";
const DATA: &str = "data";
const CLASS_NAMES: &str = "classes";

/// What a checkpoint notes beside settings, so that it can be used without anything else.
pub fn notes(model: &str, spec: &str, data: &Dataset) -> Vec<(&'static str, String)> {
    vec![
        (MODEL, model.to_string()),
        (DATA, spec.to_string()),
        (CLASS_NAMES, json!(data.class_names).to_string()),
    ]
}

/// What a checkpoint says about itself.
pub struct Described {
    /// What the model is called.
    pub name: String,
    /// The model, without weights.
    pub model: Sequential,
    /// The data that it was trained on, where it says so.
    pub data: Option<String>,
    /// The names of the classes that it was trained on; none where it does not say.
    pub classes: Vec<String>,
}

/// Reads what a checkpoint says about itself: its model, and if it was written by `dahl train`, more.
pub fn describe(checkpoint: &Checkpoint) -> Result<Described> {
    let note = |key: &str| checkpoint.settings.get(&format!("note.{key}"));
    ensure!(
        checkpoint.settings.contains_key(MODEL),
        "the checkpoint does not say of which model it is: dahl eval and dahl predict take it as a file of weights, with --model"
    );
    let names = note(CLASS_NAMES);
    let classes: Vec<String> = names
        .map_or(Ok(Vec::new()), |names| serde_json::from_str(names))
        .context("the checkpoint has no list of classes")?;
    let model = checkpoint.untrained_model(&Kinds::default())?;
    let (n, n_told) = (classes.len(), model.classes()?);
    ensure!(
        n <= n_told,
        "the checkpoint names {n} classes, and its model tells {n_told} apart: take another one"
    );
    let name = note(MODEL).map_or("network", String::as_str).to_string();
    Ok(Described { name, model, data: note(DATA).cloned(), classes })
}

/// The epoch in which a checkpoint goes on.
pub fn epoch_of(checkpoint: &Checkpoint) -> usize {
    checkpoint.settings.get("position.epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(1)
}

/// Refuses a path that cannot be written to, before anything is done for it.
pub fn writable(path: &Path) -> Result<()> {
    Ok(dahl_runtime::file::writable(path).map_err(|error| file::unwritable(path, error))?)
}
