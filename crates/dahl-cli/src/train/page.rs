//! `--report`: a run as a page for any browser: curves, timeline, codelets, memory, facts.

use super::setup::Job;
use crate::output::{bytes, count, thousands};
use anyhow::{Context, Result};
use dahl::file;
use dahl::op::simd::Isa;
use dahl::train::{Epoch, Progress, Report};
use dahl_runtime::machine::Hardware;
use dahl_trace::html::{MemoryUse, Page, Plot, Series};
use std::path::Path;

/// What is kept of a run while it goes on. It stays small however long the run is.
pub struct Kept {
    losses: Series,
    n_steps: u64,
}

impl Kept {
    /// For a run that goes on after a step.
    pub fn after(step: u64) -> Kept {
        Kept { losses: Series::new("loss"), n_steps: step }
    }

    /// Keeps the loss of a step.
    pub fn step(&mut self, step: &Progress) {
        self.n_steps += 1;
        self.losses.push(self.n_steps as f64, step.loss);
    }

    /// Writes the page, whole or not at all.
    pub fn write(self, path: &Path, job: &Job, report: &Report) -> Result<()> {
        let planned = job.trainer.plan_step(&job.model, &job.data).context("planning failed")?;
        let page = Page {
            title: format!("{} on {}", job.name, job.data.name),
            figures: figures(report),
            facts: facts(job, report),
            plots: self.plots(&report.epochs),
            memories: MemoryUse::of_plan(&planned, &job.machine),
        };
        file::write(path, |mut out| page.write(&report.trace, &mut out))?;
        Ok(())
    }

    fn plots(self, epochs: &[Epoch]) -> Vec<Plot> {
        let series = |name: &str, value: fn(&Epoch) -> f64| {
            Series::of(name, epochs.iter().map(|epoch| (epoch.epoch as f64, value(epoch))))
        };
        let plot = |title: &str, x: &str, unit: &str, series| Plot {
            title: title.into(),
            x: x.into(),
            unit: unit.into(),
            series,
        };
        let steps = plot("Loss of each step", "step", "", vec![self.losses]);
        // With one epoch, a point each is less than the figures say.
        if epochs.len() < 2 {
            return vec![steps];
        }
        vec![
            steps,
            plot(
                "Loss",
                "epoch",
                "",
                vec![series("training", |epoch| epoch.loss), series("test", |epoch| epoch.test_loss)],
            ),
            plot(
                "Accuracy",
                "epoch",
                "%",
                vec![
                    series("training", |epoch| 100.0 * epoch.accuracy),
                    series("test", |epoch| 100.0 * epoch.test_accuracy),
                ],
            ),
            plot("Throughput", "epoch", "images/s", vec![series("images/s", |epoch| epoch.images_per_s)]),
        ]
    }
}

fn pair(label: &str, text: impl Into<String>) -> (String, String) {
    (label.to_string(), text.into())
}

fn figures(report: &Report) -> Vec<(String, String)> {
    let Some(last) = report.epochs.last() else { return Vec::new() };
    vec![
        pair("test accuracy", format!("{:.2} %", 100.0 * last.test_accuracy)),
        pair("test loss", format!("{:.4}", last.test_loss)),
        pair("images/s", thousands(last.images_per_s as u64)),
    ]
}

fn facts(job: &Job, report: &Report) -> Vec<(String, String)> {
    let Job { args, data, machine, .. } = job;
    let [channels, height, width] = data.shape;
    let weights =
        job.model.n_weights().map_or(String::new(), |n| format!(", {} weights", thousands(n as u64)));
    let stopped = if report.is_stopped { ", then stopped" } else { "" };
    let seconds: f64 = report.epochs.iter().map(|epoch| epoch.seconds).sum();
    let peak = report.epochs.iter().map(|epoch| epoch.peak_bytes).max().filter(|&peak| peak > 0);
    let stall = report.epochs.last().map_or(0.0, |epoch| epoch.usage.stall);
    let hardware = Hardware::detect();
    let isa = Isa::available().iter().map(Isa::to_string).collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        pair("model", format!("{}{weights}", job.name)),
        pair(
            "data",
            format!(
                "{}, {} training and {} test images of {channels}x{height}x{width}",
                data.name,
                thousands(data.train.len() as u64),
                thousands(data.test.len() as u64)
            ),
        ),
        pair("batch", count(args.batch, "image")),
        pair("optimiser", job.optimizer()),
        pair("trained", format!("{}{stopped}", count(report.n_steps as usize, "step"))),
        pair("time", format!("{seconds:.2} s in {}, without tests", count(report.epochs.len(), "epoch"))),
        pair("waiting for images", format!("{:.1} % of the workers’ time in the last epoch", 100.0 * stall)),
        pair("workers", count(machine.units.len(), "worker")),
        pair("a step", count(report.plan.n_tasks, "task")),
        pair("plan", report.plans.hash().to_string()),
        pair("plan’s origin", report.plans.origin()),
    ];
    facts.extend(job.startup.words(report).map(|startup| pair("first step", startup)));
    facts.extend(peak.map(|peak| pair("memory of the process", format!("{} at most", bytes(peak as u64)))));
    facts.extend(hardware.processor.map(|processor| pair("processor", processor)));
    facts.extend([pair("instruction sets", isa), pair("seed", args.seed.to_string())]);
    facts.push(pair("dahl", env!("CARGO_PKG_VERSION")));
    facts.push(pair("timeline", "the newest full training steps of the last epoch"));
    facts
}
