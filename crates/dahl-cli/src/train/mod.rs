//! `dahl train`: from arguments to a trainer, and from what it reports to lines.

mod args;
mod progress;
mod report;

pub use args::Args;

use crate::exit::Exit;
use crate::output::{count, say};
use anyhow::{Context, Result, bail};
use dahl::Trainer;
use dahl::dataset::{self, Dataset};
use dahl::model::Sequential;
use dahl_runtime::machine::{Machine, n_cores};
use dahl_runtime::plan::PlanFile;
use dahl_runtime::trace::Format;

/// Trains as the arguments say, and reports.
pub fn run(args: &Args) -> Result<Exit> {
    let (data, epochs, lr) = load(args)?;
    let workers = args.workers.unwrap_or_else(n_cores);
    if let Some(path) = &args.trace {
        // Better now than after the training.
        Format::of_path(path)?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let mut model = match args.model.as_str() {
        "seed" => Sequential::seed(data.shape, data.classes),
        other => bail!("there is no model '{other}'; models: seed"),
    };
    let machine = Machine::with_workers(workers);
    let machine = if args.test_unit { machine.with_test_unit() } else { machine };
    let mut trainer = Trainer::new(&machine)
        .sgd(lr)
        .batch(args.batch)
        .epochs(epochs)
        .seed(args.seed)
        .watchdog(args.watchdog)
        .dtype(args.dtype.into())
        .schedule(args.schedule.into());
    if !args.json {
        let [channels, height, width] = data.shape;
        let (train, test) = (data.train.len(), data.test.len());
        let (name, classes) = (&data.name, data.classes);
        say(format!(
            "{name}: {train} training and {test} test images of {channels}x{height}x{width}, {classes} classes"
        ))?;
        let (name, weights, batch) = (&args.model, model.n_weights()?, args.batch);
        say(format!("{name}: {weights} weights, batch {batch}, SGD {lr}, {}", count(workers, "worker")))?;
    }
    if let Some(path) = &args.plan {
        let plans = PlanFile::load(path)?;
        if plans.was_edited() && !args.json {
            say(format!("{} was edited since it was written", path.display()))?;
        }
        trainer = trainer.plan(plans);
    }
    if let Some(path) = &args.save_plan {
        trainer.make_plans(&model, &data).context("planning failed")?.save(path)?;
    }
    let bar = progress::bar(args, epochs);
    let mut told = Ok(());
    let report = trainer.fit_with(&mut model, &data, |epoch| {
        if told.is_ok() {
            told = bar.suspend(|| say(report::epoch(args, epoch)));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report.context("training failed")?;
    // Before anything is said: nobody may be listening any more.
    if let Some(path) = &args.trace {
        report.trace.save(path)?;
    }
    told?;
    report::summary(args, &report)?;
    if let Some(path) = args.trace.as_ref().filter(|_| !args.json) {
        say(format!("trace of the newest full steps: {}", path.display()))?;
    }
    Ok(Exit::Done)
}

fn load(args: &Args) -> Result<(Dataset, usize, f64)> {
    let (mut data, epochs, lr) = match args.data.as_str() {
        "digits" => (dataset::digits(), 60, 0.5),
        folder => (dataset::idx(folder).context("cannot load the data")?, 1, 0.1),
    };
    if let Some(limit) = args.limit {
        data.train.truncate(limit);
    }
    Ok((data, args.epochs.unwrap_or(epochs), args.lr.unwrap_or(lr)))
}
