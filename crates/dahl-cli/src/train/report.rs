//! What is said after an epoch and at the end, in words or as JSON lines.

use super::Args;
use crate::output::{bytes, say, thousands};
use anyhow::{Result, bail};
use dahl::train::{Epoch, PlanSummary, Report};
use serde_json::json;

/// The line of an epoch.
pub fn epoch(args: &Args, epoch: &Epoch) -> String {
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

/// The lines after the last epoch.
pub fn summary(args: &Args, report: &Report) -> Result<()> {
    let Some(last) = report.epochs.last() else { bail!("no epoch was trained") };
    let PlanSummary { n_tasks, bytes: planned, bytes_unshared, state_bytes } = report.plan;
    if args.json {
        let line = json!({
            "summary": {
                "test_accuracy": last.test_accuracy,
                "test_loss": last.test_loss,
                "tasks_per_step": n_tasks,
                "mem_max_bytes": planned,
                "mem_unshared_bytes": bytes_unshared,
                "state_bytes": state_bytes,
                "plan_hash": report.plans.hash().to_string(),
                "plan_origin": report.plans.origin(),
            }
        });
        return Ok(say(line)?);
    }
    say(format!("\ntest accuracy {:.2} %", 100.0 * last.test_accuracy))?;
    say(format!(
        "a step: {n_tasks} tasks in {} planned ahead ({} without sharing), beside {} of weights and data",
        bytes(planned as u64),
        bytes(bytes_unshared as u64),
        bytes(state_bytes as u64)
    ))?;
    say(format!("plan {} ({})", report.plans.hash(), report.plans.origin()))?;
    if args.data == "digits" {
        say("next: dahl train --data FOLDER with the four IDX files of MNIST or Fashion-MNIST")?;
    }
    Ok(())
}
