//! `dahl train`.

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use dahl::dataset::{self, Dataset};
use dahl::model::Sequential;
use dahl::train::{Epoch, PlanSummary, Schedule};
use dahl::{Trainer, train::Report};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::{Machine, n_cores};
use dahl_runtime::plan::PlanFile;
use dahl_runtime::trace::Format;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a training run.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl train                                    a small network on the digits that dahl brings along
  dahl train --data data/fashion-mnist          the same network on a folder of IDX files, gzipped or not
  dahl train --epochs 5 --lr 0.05 --workers 1   other settings; workers do not change the result
  dahl train --json                             one JSON line per epoch, for programs
  dahl train --save-plan digits.plan            writes down which worker does what, when and where
  dahl train --plan digits.plan                 does exactly that again, also after the file was edited
  dahl train --trace run.pftrace                who did what when, for https://ui.perfetto.dev
  dahl train --watchdog 10                      an error instead of waiting for ever")]
pub struct Args {
    /// The network: `seed` (convolution 3x3 with 8 filters, ReLU, max pool 2, dense)
    #[arg(long, default_value = "seed")]
    model: String,
    /// The data: `digits`, or a folder with MNIST-like IDX files
    #[arg(long, default_value = "digits")]
    data: String,
    /// Use only the first N training images
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Images per step
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Passes over the training images [default: 60 for the digits, 1 otherwise]
    #[arg(long)]
    epochs: Option<usize>,
    /// Learning rate [default: 0.5 for the digits, 0.1 otherwise]
    #[arg(long, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Element type to compute in
    #[arg(long, value_enum, default_value_t = DtypeArg::F32)]
    dtype: DtypeArg,
    /// Worker threads [default: one per core]
    #[arg(long)]
    workers: Option<usize>,
    /// What initial weights and the order of images are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Who decides which worker executes what; the result does not depend on it
    #[arg(long, value_enum, default_value_t = ScheduleArg::Replay)]
    schedule: ScheduleArg,
    /// Execute the plan in FILE; it must be for this model, data, batch and number of workers
    #[arg(long, value_name = "FILE", conflicts_with = "schedule")]
    plan: Option<PathBuf>,
    /// Write the plan to FILE before training begins
    #[arg(long, value_name = "FILE")]
    save_plan: Option<PathBuf>,
    /// Give the last worker a memory of its own, as a device has; the result does not depend on it
    #[arg(long)]
    test_unit: bool,
    /// Save who did what when in the newest full training steps; the ending decides: .perfetto or .pftrace (Perfetto), .paje or .trace
    /// (Paje), .dot (the task graph), .json (dahl's own, for `dahl trace`)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// End with an error that says what is stuck when no task has finished for this long
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    watchdog: Option<f64>,
    /// Print one JSON object per epoch and one at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DtypeArg {
    /// 32 bits
    F32,
    /// 64 bits
    F64,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScheduleArg {
    /// A plan made before the run; a worker that waits may take over some tasks
    Replay,
    /// The same, every task exactly where and when the plan says
    Fixed,
    /// Whoever is free takes the most urgent task that is ready
    Eager,
    /// Every worker keeps what it made ready, and takes from others when it has nothing
    Steal,
}

/// More threads than any machine has cores for.
const MAX_WORKERS: usize = 4096;

/// Trains as the arguments say, and reports.
pub fn run(args: &Args) -> Result<()> {
    let (data, epochs, lr) = load(args)?;
    let workers = args.workers.unwrap_or_else(n_cores);
    ensure!(workers > 0, "--workers 0: at least one worker is needed");
    ensure!(workers <= MAX_WORKERS, "--workers {workers}: at most {MAX_WORKERS} workers are possible");
    ensure!(epochs > 0, "--epochs 0: at least one epoch is needed");
    if let Some(path) = &args.trace {
        // Better now than after the training.
        Format::of_path(path)?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let watchdog = args.watchdog.map(seconds).transpose()?;
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
        .watchdog(watchdog)
        .dtype(match args.dtype {
            DtypeArg::F32 => Dtype::F32,
            DtypeArg::F64 => Dtype::F64,
        })
        .schedule(match args.schedule {
            ScheduleArg::Replay => Schedule::Replay,
            ScheduleArg::Fixed => Schedule::Fixed,
            ScheduleArg::Eager => Schedule::Eager,
            ScheduleArg::Steal => Schedule::Steal,
        });
    if !args.json {
        let [channels, height, width] = data.shape;
        say(format!(
            "{}: {} training and {} test images of {channels}x{height}x{width}, {} classes",
            data.name,
            data.train.len(),
            data.test.len(),
            data.classes
        ))?;
        say(format!(
            "{}: {} weights, batch {}, SGD {lr}, {workers} worker{}",
            args.model,
            model.n_weights()?,
            args.batch,
            if workers == 1 { "" } else { "s" }
        ))?;
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
    let bar = progress_bar(args, epochs);
    let mut told = Ok(());
    let report = trainer.fit_with(&mut model, &data, |epoch| {
        if told.is_ok() {
            told = bar.suspend(|| say(epoch_line(args, epoch)));
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
    print_summary(args, &report)?;
    if let Some(path) = args.trace.as_ref().filter(|_| !args.json) {
        say(format!("trace of the newest full steps: {}", path.display()))?;
    }
    Ok(())
}

/// A stretch of time that makes sense as a limit.
fn seconds(seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        _ => bail!("--watchdog {seconds}: a number of seconds above 0 is needed"),
    }
}

fn load(args: &Args) -> Result<(Dataset, usize, f64)> {
    let (mut data, epochs, lr) = match args.data.as_str() {
        "digits" => (dataset::digits(), 60, 0.5),
        folder => (dataset::idx(folder).context("cannot load the data")?, 1, 0.1),
    };
    if let Some(limit) = args.limit {
        ensure!(limit > 0, "--limit 0: at least one image is needed");
        data.train.truncate(limit);
    }
    Ok((data, args.epochs.unwrap_or(epochs), args.lr.unwrap_or(lr)))
}

fn progress_bar(args: &Args, epochs: usize) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} epoch {pos}/{len}  {elapsed} (about {eta} left)");
    let bar = ProgressBar::new(epochs as u64);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// Prints a line now, also into a pipe.
fn say(line: impl std::fmt::Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn epoch_line(args: &Args, epoch: &Epoch) -> String {
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
            "median_step_us": usage.map(|usage| 1e6 * usage.median_step_seconds),
            "overhead": usage.map(|usage| usage.overhead),
            "median_overhead": usage.map(|usage| usage.median_overhead),
        });
        return line.to_string();
    }
    let overhead = usage.map_or(String::new(), |usage| {
        format!("   overhead {:.1} % (mean {:.1} %)", 100.0 * usage.median_overhead, 100.0 * usage.overhead)
    });
    format!(
        "epoch {:>3}   loss {:.4}   test accuracy {:>5.2} %   {:>9} images/s{overhead}",
        epoch.epoch,
        epoch.loss,
        100.0 * epoch.test_accuracy,
        thousands(epoch.images_per_s as u64),
    )
}

fn print_summary(args: &Args, report: &Report) -> Result<()> {
    let Some(last) = report.epochs.last() else { bail!("no epoch was trained") };
    let PlanSummary { n_tasks, bytes, bytes_unshared, state_bytes } = report.plan;
    if args.json {
        let line = json!({
            "summary": {
                "test_accuracy": last.test_accuracy,
                "test_loss": last.test_loss,
                "tasks_per_step": n_tasks,
                "mem_max_bytes": bytes,
                "mem_unshared_bytes": bytes_unshared,
                "state_bytes": state_bytes,
                "plan_hash": report.plans.hash().to_string(),
                "plan_origin": report.plans.origin(),
            }
        });
        return Ok(say(line)?);
    }
    let kib = |bytes: usize| thousands((bytes as u64).div_ceil(1024));
    say(format!("\ntest accuracy {:.2} %", 100.0 * last.test_accuracy))?;
    say(format!(
        "a step: {n_tasks} tasks in {} KiB planned ahead ({} KiB without sharing), beside {} KiB of weights and data",
        kib(bytes),
        kib(bytes_unshared),
        kib(state_bytes)
    ))?;
    say(format!("plan {} ({})", report.plans.hash(), report.plans.origin()))?;
    if args.data == "digits" {
        say("next: dahl train --data FOLDER with the four IDX files of MNIST or Fashion-MNIST")?;
    }
    Ok(())
}

/// A number with its thousands set apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
