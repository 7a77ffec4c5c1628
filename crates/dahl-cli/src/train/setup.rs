//! From arguments to everything that a run needs, checked before anything is trained.

use super::dump::{Dump, read_batches};
use super::metrics::Metrics;
use super::startup::Startup;
use super::{Args, BATCH, resume};
use crate::measurements::Measurements;
use crate::open::{self, Described};
use crate::output::{count, say, thousands, warn};
use crate::trained::check_classes;
use anyhow::{Context, Result, bail};
use dahl::Trainer;
use dahl::dataset::{Dataset, Options};
use dahl::model::Sequential;
use dahl::op::default_cut;
use dahl::tensors::Tensors;
use dahl::train::{Checkpoint, FolderLock};
use dahl::tune::choice_key;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::PlanFile;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A run that can begin.
pub struct Job {
    /// The arguments, with those of the checkpoint that the run goes on from.
    pub args: Args,
    pub data: Dataset,
    /// What the model is called.
    pub name: String,
    pub model: Sequential,
    pub machine: Machine,
    pub trainer: Trainer,
    pub n_epochs: usize,
    /// The step that the run goes on after.
    pub resumed_at: Option<u64>,
    pub batches: Option<Vec<Vec<u32>>>,
    pub dump: Option<Dump>,
    pub metrics: Option<Metrics>,
    /// What tasks cost here.
    pub measured: Measurements,
    /// How long it takes to the first step.
    pub startup: Startup,
}

impl Job {
    pub fn new(mut args: Args, begun: Instant) -> Result<Job> {
        let mut startup = Startup::since(begun);
        let mut past = Past::take_up(&mut args)?;
        let optimizer = args.optimizer()?;
        let kept = past.checkpoint.as_ref().map(open::describe).transpose()?;
        let data = startup.reading(|| read_data(&args, kept.as_ref()))?;
        args.data = open::anywhere(&args.data);
        let (name, model) = network(&args, &data, kept, past.checkpoint.as_ref())?;
        let n_images = data.train.len();
        if args.batch > n_images && args.batch != BATCH {
            let (batch, images) = (thousands(args.batch as u64), count(n_images, "training image"));
            warn(format_args!("a batch of {batch} is more than there are: a step takes all {images}"));
        }
        let machine = open::machine(args.workers);
        let machine = if args.test_unit { machine.with_test_unit() } else { machine };
        let n_epochs = args.n_epochs(n_images);
        let measured = Measurements::open();
        let cut = cut(&args, &model, (&measured, &machine), past.checkpoint.is_some())?;
        // A run that goes on must be cut as before, whatever was calibrated since.
        note_cut(&mut args, &cut.as_ref().map_or_else(default_cut, |(cut, _)| cut.clone()));
        let mut trainer = trainer(&args, &machine, n_epochs).optimizer(optimizer);
        if let Some((cut, origin)) = cut {
            trainer = trainer.cut(cut).origin(origin);
        }
        if args.checkpoint.is_some() {
            trainer = trainer.note(resume::ARGUMENTS, resume::arguments(&args, n_epochs)?);
        }
        for (key, value) in open::notes(&name, &args.data, &data) {
            trainer = trainer.note(key, value);
        }
        if let Some(path) = &args.plan {
            let plans = PlanFile::load(path)?;
            if plans.was_edited() && !args.json {
                say(format!("{} was edited since it was written", path.display()))?;
            }
            trainer = trainer.plan(plans);
        }
        if let Some(dir) = &args.checkpoint {
            let every = args.checkpoint_every.map(|steps| steps as u64);
            trainer = trainer.checkpoint(dir, every).lock(past.lock_on(dir)?);
        }
        let epoch = past.checkpoint.as_ref().map_or(1, open::epoch_of);
        let resumed_at = past.checkpoint.as_ref().map(|checkpoint| checkpoint.step);
        if let Some(checkpoint) = past.checkpoint {
            trainer = trainer.resume(checkpoint);
        }
        // Whatever cannot be written is better known now than after the training.
        for path in [&args.trace, &args.report].into_iter().flatten() {
            open::writable(path)?;
        }
        let dump = args.dump.as_deref().map(|dir| Dump::create(dir, args.dtype.into())).transpose()?;
        let metrics = args.metrics.as_deref().map(|path| Metrics::create(path, epoch)).transpose()?;
        let mut batches = args.batches.as_deref().map(read_batches).transpose()?;
        if let (Some(batches), Some(steps)) = (&mut batches, args.steps) {
            batches.truncate(steps);
        }
        Ok(Job {
            args,
            data,
            name,
            model,
            machine,
            trainer,
            n_epochs,
            resumed_at,
            batches,
            dump,
            metrics,
            measured,
            startup,
        })
    }

    /// Optimiser and learning rate in a few words.
    pub fn optimizer(&self) -> String {
        let optimizer = self.args.optimizer().map_or(String::new(), |optimizer| optimizer.to_string());
        format!("{optimizer}, learning rate {}", self.args.learning_rate())
    }
}

/// What a run goes on from.
struct Past {
    /// The folder of the checkpoint.
    home: Option<PathBuf>,
    lock: Option<FolderLock>,
    checkpoint: Option<Checkpoint>,
}

impl Past {
    /// Opens the checkpoint that the arguments name, if they do, and puts its arguments below them.
    fn take_up(args: &mut Args) -> Result<Past> {
        // Where a run came from, it goes on, unless it is told to save elsewhere.
        let home = args.resume.as_deref().map(home);
        let stays = home.as_ref().filter(|home| home.is_dir() && args.checkpoint.is_none());
        // Before the checkpoint is read, so that nobody saves a newer one meanwhile.
        let lock = stays.map(FolderLock::take).transpose()?;
        let checkpoint = args.resume.as_deref().map(open::checkpoint).transpose()?;
        if let Some(checkpoint) = &checkpoint {
            *args = resume::merged(checkpoint)?;
        }
        args.checkpoint = args.checkpoint.take().or_else(|| home.clone());
        Ok(Past { home, lock, checkpoint })
    }

    /// The lock on a folder that checkpoints are saved into, which must not have those of another run.
    fn lock_on(&mut self, dir: &Path) -> Result<FolderLock> {
        let lock = self.lock.take().map_or_else(|| FolderLock::take(dir), Ok)?;
        if self.home.as_deref() != Some(dir) {
            no_other_run(dir)?;
        }
        Ok(lock)
    }
}

/// The data that the arguments name.
fn read_data(args: &Args, kept: Option<&Described>) -> Result<Dataset> {
    let options =
        Options { shape: args.input, limit: args.limit, classes: args.classes, ..Options::default() };
    match kept {
        Some(kept) if kept.data.as_ref() == Some(&args.data) => {
            open::data_of_checkpoint(&args.data, &options, args.json)
        }
        _ => open::data(&args.data, &options, args.json),
    }
}

/// The network with its name: that of the checkpoint, unless another is named, and the weights to begin with.
fn network(
    args: &Args,
    data: &Dataset,
    kept: Option<Described>,
    checkpoint: Option<&Checkpoint>,
) -> Result<(String, Sequential)> {
    let (name, mut model) = match (&args.model, kept) {
        (None, Some(mut kept)) => {
            // What a checkpoint says of its model is believed as far as it has weights for it.
            if let Some(checkpoint) = checkpoint {
                let fits = kept.model.set_tensors(&checkpoint.tensors);
                fits.context("the checkpoint contradicts itself")?;
            }
            check_classes(data, &kept.model, &kept.classes)
                .context("the run of this checkpoint cannot go on")?;
            (kept.name, kept.model)
        }
        (spec, _) => {
            let spec = spec.as_deref().unwrap_or("seed");
            (spec.to_string(), open::model(spec, Some(data.shape), data.classes)?)
        }
    };
    if let Some(path) = &args.init {
        let weights = Tensors::load(path)?;
        model.set_tensors(&weights).with_context(|| format!("{} does not fit", path.display()))?;
    }
    Ok((name, model))
}

/// The settings that are arguments as they are.
fn trainer(args: &Args, machine: &Machine, n_epochs: usize) -> Trainer {
    let trainer = Trainer::new(machine)
        .learning_rate(args.learning_rate())
        .batch(args.batch)
        .epochs(n_epochs)
        .max_steps(args.steps.map(|steps| steps as u64))
        .seed(args.seed)
        .watchdog(args.watchdog)
        .dtype(args.dtype.into());
    let trainer = match args.schedule {
        Some(schedule) => trainer.schedule(schedule),
        None => trainer,
    };
    if args.no_fusion { trainer.fusion(false) } else { trainer }
}

/// How tasks are cut, if that is not left to the heuristic, and who says so.
fn cut(
    args: &Args,
    model: &Sequential,
    (measured, machine): (&Measurements, &Machine),
    goes_on: bool,
) -> Result<Option<(CutOptions, String)>> {
    Ok(match forced_cut(args)? {
        Some(cut) => Some((cut, "as asked for".to_string())),
        // A run that was begun before cuts were noted was cut by the heuristic.
        None if goes_on => None,
        None => measured.choice(&choice_key(model, args.batch, args.dtype.into(), machine)),
    })
}

/// How tasks are cut, if the arguments say anything about it.
fn forced_cut(args: &Args) -> Result<Option<CutOptions>> {
    let mut cut = default_cut();
    if args.tiles.is_none() && args.group.is_none() && args.implementations.is_none() {
        return Ok(None);
    }
    args.tiles.as_deref().map_or(Ok(()), |tiles| cut.set_tiles(tiles))?;
    args.implementations.as_deref().map_or(Ok(()), |names| cut.set_impls(names))?;
    cut.tiles_per_group = args.group.unwrap_or(cut.tiles_per_group);
    Ok(Some(cut))
}

/// Says in the arguments how tasks are cut.
fn note_cut(args: &mut Args, cut: &CutOptions) {
    args.tiles = Some(cut.tiles());
    args.group = Some(cut.tiles_per_group);
    args.implementations = Some(cut.impls());
}

/// The folder of a checkpoint, which is named itself or by one of its files.
fn home(resumed: &Path) -> PathBuf {
    match resumed.parent() {
        Some(parent) if resumed.is_file() && parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) if resumed.is_file() => parent.to_path_buf(),
        _ => resumed.to_path_buf(),
    }
}

/// Refuses a folder with checkpoints of a run that this one does not go on from: they would be mixed up.
fn no_other_run(dir: &Path) -> Result<()> {
    if let Some(last) = Checkpoint::steps(dir)?.last() {
        let dir = dir.display();
        bail!(
            "{dir} has checkpoints of another run, up to step {last}: go on with --resume {dir}, or name another folder"
        );
    }
    Ok(())
}
