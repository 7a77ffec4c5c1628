//! What is said before, during and after a run, in words or as JSON lines.

use super::setup::Job;
use super::{Args, busy};
use crate::output::{bytes, count, say, thousands};
use anyhow::Result;
use dahl::train::{Epoch, Evaluation, Notice, PlanSummary, Report, StepDump};
use serde_json::{Value, json};

/// The lines before the first epoch.
pub fn start(job: &Job) -> Result<()> {
    if job.args.json {
        return Ok(());
    }
    let Job { args, data, model, machine, .. } = job;
    let [channels, height, width] = data.shape;
    say(format!(
        "{}: {} training and {} test images of {channels}x{height}x{width}, {} classes",
        data.name,
        data.train.len(),
        data.test.len(),
        data.classes
    ))?;
    let batch = job
        .batches
        .as_ref()
        .and_then(|batches| batches.first())
        .map_or(args.batch.min(data.train.len()), Vec::len);
    say(format!(
        "{}: {} weights, batch {batch}, {}, {}",
        job.name,
        thousands(model.n_weights()? as u64),
        job.optimizer(),
        count(machine.units.len(), "worker")
    ))?;
    if let Some(step) = job.resumed_at {
        say(format!("going on after step {step}"))?;
    }
    Ok(())
}

/// The line of an epoch.
pub fn epoch(args: &Args, epoch: &Epoch, notices: &[Notice]) -> String {
    // Too few steps to measure leave nothing to report.
    let usage = Some(&epoch.usage).filter(|usage| usage.n_steps > 0);
    if args.json {
        let line = json!({
            "epoch": epoch.epoch,
            "loss": epoch.loss,
            "accuracy": epoch.accuracy,
            "test_loss": epoch.test_loss,
            "test_accuracy": epoch.test_accuracy,
            "images_per_s": epoch.images_per_s,
            "seconds": epoch.seconds,
            "peak_bytes": epoch.peak_bytes,
            "stall": usage.map(|usage| usage.stall),
            "reading": epoch.reading,
            "median_step_us": usage.map(|usage| 1e6 * usage.median_step_seconds),
            "overhead": usage.map(|usage| usage.overhead),
            "median_overhead": usage.map(|usage| usage.median_overhead),
            "busy_cores": busy::to_json(notices),
        });
        return line.to_string();
    }
    // Images that lie in memory are there when they are asked for.
    let stall = match usage.filter(|_| epoch.reading > 0.0) {
        Some(usage) => format!("   waited for images {:.1} %", 100.0 * usage.stall),
        None => String::new(),
    };
    format!(
        "epoch {:>3}   loss {:.4}   test accuracy {:>6.2} %   {:>9} images/s{stall}",
        epoch.epoch,
        epoch.loss,
        100.0 * epoch.test_accuracy,
        thousands(epoch.images_per_s as u64),
    )
}

/// The lines after the last epoch.
pub fn summary(job: &Job, report: &Report) -> Result<()> {
    let args = &job.args;
    if args.json {
        return Ok(say(json!({ "summary": to_json(job, report) }))?);
    }
    let Some(last) = report.epochs.last() else {
        let n = count(report.n_steps as usize, "step");
        return Ok(say(format!("all {n} were done already; ask for more with --epochs or --steps"))?);
    };
    say(format!("\ntest accuracy {:.2} %", 100.0 * last.test_accuracy))?;
    if let Some(share) = computing(&report.epochs) {
        say(format!(
            "time: workers spent {:.1} % of it computing, and the rest waiting for each other or for images",
            100.0 * share
        ))?;
    }
    let PlanSummary { n_tasks, bytes: planned, scratch_bytes, bytes_unshared, state_bytes } = report.plan;
    let scratch = match scratch_bytes {
        0 => String::new(),
        some => format!(" {} of it as scratch of kernels,", bytes(some as u64)),
    };
    say(format!(
        "memory: a step needs {} for what its {n_tasks} tasks compute ({} if they did not share it),{scratch} besides {} of \
         weights and images",
        bytes(planned as u64),
        bytes(bytes_unshared as u64),
        bytes(state_bytes as u64)
    ))?;
    say(format!(
        "plan: {} ({}); the same plan gives the same bits, and --save-plan FILE writes it down",
        report.plans.hash(),
        report.plans.origin()
    ))?;
    if let Some(startup) = job.startup.words(report) {
        say(format!("start: the first step was over {startup}"))?;
    }
    if let Some(path) = &args.trace {
        say(format!("trace of the newest full steps: {}", path.display()))?;
    }
    if let Some(path) = &args.report {
        say(format!("report: {}", path.display()))?;
    }
    if let Some(path) = &report.checkpoint {
        say(format!("checkpoint: {}", path.display()))?;
    }
    if let Some(next) = next(args) {
        say(format!("next: {next}"))?;
    }
    Ok(())
}

/// The share of the time in training steps that workers spent in kernels, where enough steps were measured.
fn computing(epochs: &[Epoch]) -> Option<f64> {
    let measured = || epochs.iter().filter(|epoch| epoch.usage.n_steps > 0);
    let seconds: f64 = measured().map(|epoch| epoch.seconds).sum();
    let outside: f64 = measured().map(|epoch| epoch.seconds * epoch.usage.overhead).sum();
    (seconds > 0.0).then(|| 1.0 - outside / seconds)
}

/// What to try after this run.
fn next(args: &Args) -> Option<String> {
    match (&args.checkpoint, args.data.as_str()) {
        (Some(dir), _) => Some(format!("dahl eval {0}, or dahl predict {0} 0", dir.display())),
        (None, "digits") => Some(
            "dahl train --checkpoint run, then dahl predict run 0; or --data FOLDER with MNIST, CIFAR-10 or your own images".into(),
        ),
        _ => None,
    }
}

/// The lines after Ctrl-C.
pub fn stopped(job: &Job, report: &Report) -> Result<()> {
    if let Some(path) = job.args.report.as_ref().filter(|_| !job.args.json) {
        say(format!("\nreport: {}", path.display()))?;
    }
    let Some(dir) = job.args.checkpoint.as_ref().filter(|_| report.checkpoint.is_some()) else {
        if job.args.json {
            return Ok(say(json!({ "summary": to_json(job, report) }))?);
        }
        let n = count(report.n_steps as usize, "step");
        return Ok(say(format!("\nstopped after {n}; nothing was saved, as there was no --checkpoint DIR"))?);
    };
    if job.args.json {
        return Ok(say(json!({ "summary": to_json(job, report) }))?);
    }
    let n = count(report.n_steps as usize, "step");
    say(format!("\nstopped after {n} and saved; to go on: dahl train --resume {}", dir.display()))?;
    Ok(())
}

fn to_json(job: &Job, report: &Report) -> Value {
    let last = report.epochs.last();
    let PlanSummary { n_tasks, bytes, scratch_bytes, bytes_unshared, state_bytes } = report.plan;
    json!({
        "test_accuracy": last.map(|epoch| epoch.test_accuracy),
        "test_loss": last.map(|epoch| epoch.test_loss),
        "steps": report.n_steps,
        "stopped": report.is_stopped,
        "checkpoint": report.checkpoint,
        "tasks_per_step": n_tasks,
        "mem_max_bytes": bytes,
        "mem_unshared_bytes": bytes_unshared,
        "scratch_bytes": scratch_bytes,
        "state_bytes": state_bytes,
        "planned_bytes": report.planned_bytes,
        "plan_hash": report.plans.hash().to_string(),
        "plan_origin": report.plans.origin(),
        "startup": job.startup.json(report),
    })
}

/// The lines after given batches.
pub fn replayed(args: &Args, steps: &StepDump, test: &Evaluation) -> Result<()> {
    let (first, last) = (steps.losses.first(), steps.losses.last());
    if args.json {
        let line = json!({
            "summary": {
                "steps": steps.losses.len(),
                "first_loss": first,
                "last_loss": last,
                "test_loss": test.loss,
                "test_accuracy": test.accuracy,
            }
        });
        return Ok(say(line)?);
    }
    let (first, last) = (first.copied().unwrap_or(f64::NAN), last.copied().unwrap_or(f64::NAN));
    let n = count(steps.losses.len(), "step");
    say(format!("{n} on given batches: loss {first:.6} at first, {last:.6} at last"))?;
    say(format!("test accuracy {:.2} %", 100.0 * test.accuracy))?;
    if let Some(dir) = &args.dump {
        say(format!("dumped into {}", dir.display()))?;
    }
    Ok(())
}
