//! `dahl sweep`: every size of task, for every batch and number of workers, measured and drawn.

use super::rounds::{self, Timed, median, predicted_rounds};
use super::{Named, What, bar, label, plot};
use crate::exit::Exit;
use crate::machine;
use crate::measurements::Measurements;
use crate::open;
use crate::output::{count, say, thousands};
use crate::parse::{path, tiles, workers};
use anyhow::Result;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::{Hardware, n_cores};
use dahl_runtime::perf::{Costs, Models};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What to measure.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl sweep --model lenet5                          which size of task is right for batches of 64
  dahl sweep --model lenet5 --batch 16,64,256 --workers 1,2 --plot lenet5.svg
  dahl sweep --tiles n=16 --tiles n=32               only these sizes
  dahl sweep --model seed,lenet5,vggish --batch 16,64,256 --workers 1,2 --default
                                                     the default plans: what models predict, and what is measured")]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Numbers of workers [default: 1 and one per core]
    #[arg(long, value_name = "NUMBERS", value_parser = workers, value_delimiter = ',')]
    workers: Vec<usize>,
    /// Only these tiles, beside those of the default plan; may be given several times [default: all that make
    /// sense]
    #[arg(long, value_name = "TILES", value_parser = tiles)]
    tiles: Vec<String>,
    /// Only the default plan: what was calibrated, or else the heuristic's
    #[arg(long = "default", conflicts_with = "tiles")]
    is_default: bool,
    /// Draw images per second over samples per task (.svg)
    #[arg(long, value_name = "FILE", value_parser = path())]
    plot: Option<PathBuf>,
    /// Print one JSON object per network, batch and number of workers
    #[arg(long)]
    json: bool,
}

/// The plans of one network, batch and number of workers; the default one first.
pub struct Case {
    pub model: String,
    /// The same with the shape of images.
    about: String,
    pub batch: usize,
    pub workers: usize,
    pub origin: String,
    pub plans: Vec<Timed>,
    /// The plan that took the least time, and how much longer the default plan takes than it.
    best: (usize, f64),
}

impl Case {
    fn measure(
        args: &Args,
        named: &Named,
        cuts: &[CutOptions],
        workers: usize,
        origin: &str,
        (measured, costs): (&Measurements, Costs),
        learned: &mut Models,
    ) -> Result<Case> {
        let Named { model, about, subject } = named;
        let plans = cuts.iter().map(|cut| Timed::new(subject, cut, workers));
        let mut plans: Vec<Timed> = plans.collect::<Result<_>>()?;
        let bar = bar(plans.len() * args.what.rounds, args.json);
        bar.set_message(format!("{about}, batch {}, {}", subject.batch(), count(workers, "worker")));
        let (n_rounds, effort) = (args.what.rounds, args.what.effort());
        let known = (measured.models(), costs);
        predicted_rounds(subject, &mut plans, n_rounds, effort, known, learned, &bar)?;
        // Of many plans that are equally fast, one was lucky: the two that are compared run once more, by
        // themselves.
        let fastest = fastest(&plans);
        let mut ratio = 1.0;
        if fastest > 0 {
            let mut again =
                [Timed::new(subject, &cuts[0], workers)?, Timed::new(subject, &cuts[fastest], workers)?];
            rounds::rounds(subject, &mut again, n_rounds, effort, learned, &bar)?;
            ratio = again[0].ratio_to(&again[1]);
        }
        let best = if ratio > 1.0 { (fastest, ratio) } else { (0, 1.0) };
        bar.finish_and_clear();
        let (model, about, origin) = (model.clone(), about.clone(), origin.to_string());
        Ok(Case { model, about, batch: subject.batch(), workers, origin, plans, best })
    }

    /// The plan that took the least time.
    fn best(&self) -> &Timed {
        &self.plans[self.best.0]
    }

    /// How long the default plan takes compared with the best.
    fn ratio(&self) -> f64 {
        self.best.1
    }
}

/// The plan that takes the least time compared with the first.
fn fastest(plans: &[Timed]) -> usize {
    let ratio = |i: &usize| plans[*i].ratio_to(&plans[0]);
    (0..plans.len()).min_by(|a, b| ratio(a).total_cmp(&ratio(b))).unwrap_or(0)
}

/// Measures and draws.
pub fn run(args: &Args) -> Result<Exit> {
    let measured = Measurements::open();
    let mut counts = if args.workers.is_empty() { vec![1, n_cores()] } else { args.workers.clone() };
    counts.dedup();
    if let Some(path) = &args.plot {
        open::writable(path)?;
    }
    let costs =
        machine::measured::known(&Hardware::detect()).map_or_else(Costs::default, |known| Costs::of(&known));
    let (mut cases, mut learned) = (Vec::new(), Models::new());
    args.what.each(|named| {
        let (default, origin) = measured
            .choice(&named.subject.key())
            .unwrap_or_else(|| (dahl::op::default_cut(), "heuristic".to_string()));
        let mut cuts = vec![default];
        for cut in others(args, named)? {
            if !cuts.contains(&cut) {
                cuts.push(cut);
            }
        }
        // One number of workers after the other, so that the plans that are compared run close to each other.
        for &workers in &counts {
            let case = Case::measure(args, named, &cuts, workers, &origin, (&measured, costs), &mut learned)?;
            if args.json {
                say(to_json(&case))?
            } else {
                tell(&case)?
            }
            cases.push(case);
        }
        Ok(())
    })?;
    if !args.json {
        summary(&cases)?;
    }
    if let Some(path) = &args.plot {
        dahl::file::write(path, |out| out.write_all(plot::svg(&cases).as_bytes()))?;
    }
    measured.keep(&learned);
    Ok(Exit::Done)
}

/// The cuts to compare with the default.
fn others(args: &Args, named: &Named) -> Result<Vec<CutOptions>> {
    if args.is_default {
        return Ok(Vec::new());
    }
    if args.tiles.is_empty() {
        return Ok(named.subject.candidates()?);
    }
    let cut = |text: &String| {
        let mut cut = dahl::op::default_cut();
        cut.set_tiles(text).map(|()| cut)
    };
    Ok(args.tiles.iter().map(cut).collect::<dahl_runtime::Result<_>>()?)
}

/// The widest bar.
const WIDTH: f64 = 32.0;

/// A line per plan, with a bar.
fn tell(case: &Case) -> Result<()> {
    say(format!("{}, batch {}, {}", case.about, case.batch, count(case.workers, "worker")))?;
    let best = case.best().step();
    for (i, plan) in case.plans.iter().enumerate() {
        let rate = case.batch as f64 / plan.step();
        let width = (WIDTH * (best / plan.step()).min(1.0)).round() as usize;
        let overhead = 100.0 * median(plan.overheads.clone());
        let mark = if i == 0 { format!("  default ({})", case.origin) } else { String::new() };
        say(format!(
            "  {:<14} {:>5} tasks {:>10.1} us {:>9} images/s  overhead {overhead:>4.1} %  {}{mark}",
            label(&plan.cut),
            plan.n_tasks(),
            1e6 * plan.step(),
            thousands(rate as u64),
            "█".repeat(width.max(1)),
        ))?;
    }
    Ok(())
}

/// What it comes to: the default plan against the best, and predictions against what was measured.
fn summary(cases: &[Case]) -> Result<()> {
    say(
        "\ndefault plans: what the models said of the next round, what it took, and the best plan, run again beside it",
    )?;
    say(format!(
        "  {:<10} {:>5} {:>7} {:>12} {:>12} {:>8}   {:<14} {:>9}",
        "network", "batch", "workers", "predicted", "measured", "error", "best", "default"
    ))?;
    let (mut n_close, mut n_predicted) = (0, 0);
    for case in cases {
        let plan = &case.plans[0];
        let (predicted, error) = match plan.predicted() {
            Some((seconds, error)) => {
                (n_close, n_predicted) = (n_close + usize::from(error.abs() <= CLOSE), n_predicted + 1);
                (format!("{:.1} us", 1e6 * seconds), format!("{:+.1} %", 100.0 * error))
            }
            None => ("-".to_string(), "-".to_string()),
        };
        say(format!(
            "  {:<10} {:>5} {:>7} {predicted:>12} {:>9.1} us {error:>8}   {:<14} {:>6.1} % slower",
            case.model,
            case.batch,
            case.workers,
            1e6 * plan.step(),
            label(&case.best().cut),
            100.0 * (case.ratio() - 1.0),
        ))?;
    }
    match n_predicted {
        0 => say("nothing was predicted: that takes two rounds, one to learn from")?,
        n => say(format!("predictions within 10 %: {n_close} of {n}"))?,
    }
    say(
        "\nthe first rounds, by earlier runs alone: where the times of how many tasks came from, and how far off the step was",
    )?;
    for case in cases {
        if let Some((error, sources)) = case.plans[0].predicted_at_first() {
            let Case { model, batch, workers, .. } = case;
            say(format!("  {model:<10} {batch:>5} {workers:>7} {:>+10.1} %   {sources}", 100.0 * error))?;
        }
    }
    Ok(())
}

/// A prediction this near is a good one.
const CLOSE: f64 = 0.1;

fn to_json(case: &Case) -> Value {
    let plan = |plan: &Timed| {
        let us = |seconds: &[f64]| seconds.iter().map(|seconds| 1e6 * seconds).collect::<Vec<_>>();
        let bases = plan.bases;
        json!({
            "cut": plan.cut.to_string(),
            "tasks": plan.n_tasks(),
            "step_us": 1e6 * plan.step(),
            "images_per_s": case.batch as f64 / plan.step(),
            "overhead": median(plan.overheads.clone()),
            "rounds_us": us(&plan.steps),
            "predicted_us": us(&plan.predictions),
            "prediction_error": plan.predicted().map(|(_, error)| error),
            "predicted_from": {
                "history": bases.history, "scaled": bases.scaled, "regression": bases.regression, "guess": bases.guess,
            },
        })
    };
    json!({
        "model": case.model, "batch": case.batch, "workers": case.workers, "origin": case.origin,
        "plans": case.plans.iter().map(plan).collect::<Vec<_>>(),
        "best": case.best().cut.to_string(), "default_to_best": case.ratio(),
    })
}
