//! `dahl train`: from arguments to a trainer, and from what it reports to lines.

mod args;
mod busy;
mod dump;
mod memory;
mod metrics;
mod page;
mod progress;
mod rate;
mod report;
pub mod resume;
mod setup;
mod startup;

pub use args::{Args, BATCH};

use crate::exit::Exit;
use crate::measurements::learn;
use crate::output::say;
use crate::signal;
use anyhow::{Context, Result};
use busy::Told;
use dahl::train::{Event, Report};
use dahl_runtime::machine::peak_resident_bytes;
use dahl_runtime::perf::Models;
use progress::Bar;
use setup::Job;
use std::ops::ControlFlow;
use std::time::Instant;

/// Trains as the arguments say, and reports. The command began at `begun`.
pub fn run(args: Args, begun: Instant) -> Result<Exit> {
    let mut job = Job::new(args, begun)?;
    report::start(&job)?;
    if let Some(path) = &job.args.save_plan {
        job.trainer.make_plans(&job.model, &job.data).context("planning failed")?.save(path)?;
    }
    if job.args.memory_report {
        let planned = job.trainer.plan_step(&job.model, &job.data).context("planning failed")?;
        match job.args.json {
            true => say(memory::to_json(&planned, &job.machine))?,
            false => say(format!("\n{}\n", memory::words(&planned, &job.machine)))?,
        }
    }
    match job.batches.take() {
        Some(batches) => replay(&mut job, &batches),
        None => fit(&mut job),
    }
}

/// Trains epoch after epoch.
fn fit(job: &mut Job) -> Result<Exit> {
    let mut kept = job.args.report.is_some().then(|| page::Kept::after(job.resumed_at.unwrap_or(0)));
    let Job { args, data, model, trainer, dump, metrics, n_epochs, startup, .. } = job;
    // A run that goes on has no first step.
    let first = match dump.is_some() && args.resume.is_none() {
        true => Some(trainer.first_step(model, data).context("training failed")?),
        false => None,
    };
    signal::listen();
    let mut bar = Bar::new(args.json);
    let (mut told, mut losses) = (Ok(()), Vec::new());
    let mut noticed = Told::default();
    let report = trainer.fit_with(model, data, |event| {
        let now = match event {
            Event::Step(step) => {
                startup.step();
                if dump.is_some() {
                    losses.push(step.loss);
                }
                if let Some(kept) = &mut kept {
                    kept.step(&step);
                }
                let all = (*n_epochs as u64).saturating_mul(step.n_steps as u64);
                bar.step(&step, args.steps.map_or(all, |steps| all.min(steps as u64)));
                Ok(())
            }
            Event::Epoch(epoch) => {
                let written = metrics.as_mut().map_or(Ok(()), |metrics| metrics.add(epoch));
                let line = report::epoch(args, epoch, &noticed.take());
                written.and(bar.suspend(|| say(line)).map_err(Into::into))
            }
            Event::Saved(_) => Ok(()),
            Event::Noticed(notice) => {
                bar.suspend(|| noticed.add(notice));
                Ok(())
            }
        };
        // The first of these errors is told after the training, which they are no reason to give up.
        told = std::mem::replace(&mut told, Ok(())).and(now);
        if signal::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish();
    let report = report.context("training failed")?;
    // Before anything is said: nobody may be listening any more.
    if let Some(path) = &args.trace {
        dahl_trace::save(&report.trace, path)?;
    }
    if let Some(dump) = dump {
        dump.losses(&losses)?;
        match &first {
            Some(first) => dump.first_step(model, first)?,
            None => dump.no_first_step()?,
        }
        dump.last(model)?;
    }
    if let Some((path, kept)) = job.args.report.as_deref().zip(kept) {
        kept.write(path, job, &report)?;
    }
    told?;
    if job.args.memory_report {
        let peak = peak_resident_bytes();
        match job.args.json {
            true => say(memory::used_json(&report.used, peak))?,
            false => say(format!("\n{}", memory::used_words(&report.used, peak)))?,
        }
    }
    // What tasks took is worth keeping, and no reason to fail.
    let mut models = Models::new();
    learn(&mut models, &report.trace);
    job.measured.keep(&models);
    finish(job, &report)
}

/// Trains on exactly the batches that were given.
fn replay(job: &mut Job, batches: &[Vec<u32>]) -> Result<Exit> {
    let Job { args, data, model, trainer, dump, .. } = job;
    let before = model.clone();
    let steps = trainer.replay_batches(model, data, batches).context("training failed")?;
    if let Some(dump) = dump {
        dump.losses(&steps.losses)?;
        dump.first_step(&before, &steps)?;
        dump.last(model)?;
    }
    let test = trainer.evaluate(model, data).context("the evaluation failed")?;
    report::replayed(args, &steps, &test)?;
    Ok(Exit::Done)
}

/// What is said in the end, and how the command ends.
fn finish(job: &Job, report: &Report) -> Result<Exit> {
    if report.is_stopped {
        report::stopped(job, report)?;
        return Ok(Exit::Interrupted);
    }
    report::summary(job, report)?;
    Ok(Exit::Done)
}
