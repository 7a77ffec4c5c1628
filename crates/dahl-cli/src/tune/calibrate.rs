//! `dahl calibrate`: measures the ways to cut a step on this machine, and chooses.

use super::rounds::{HOPELESS, Timed, rounds};
use super::{Named, What, bar, label};
use crate::exit::Exit;
use crate::measurements::Measurements;
use crate::output::{count, say};
use anyhow::{Result, bail};
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::n_cores;
use dahl_runtime::perf::Models;
use serde_json::json;

/// What to calibrate.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl calibrate                                 how the steps of a plain dahl train are best cut here
  dahl calibrate --model lenet5                  those of lenet5 on 64 images of the shape it was made for (1x28x28)
  dahl calibrate --model seed,lenet5,vggish --batch 16,64,256
  dahl calibrate --data data/cifar --model resnet8
  dahl calibrate --model lenet5 --forget         back to the heuristic

dahl train cuts such steps so from now on, with any optimiser and number of workers: the same network, shape of images, classes,
batch and element type. That changes the bits of results, and stays until this command is given again. Times of tasks are kept too,
for dahl sweep and dahl stats; all this for this machine, in the folder that $DAHL_CACHE names or in the user's cache folder.")]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Take back what was chosen for these steps
    #[arg(long)]
    forget: bool,
    /// Print one JSON object per network and batch
    #[arg(long)]
    json: bool,
}

/// What another cut must gain to be chosen over the heuristic: less than that is noise, and not worth other
/// bits.
const WORTH: f64 = 0.02;

/// Measures and chooses.
pub fn run(args: &Args) -> Result<Exit> {
    let measured = Measurements::open();
    if measured.path().is_none() {
        bail!("there is no folder to keep measurements in: set DAHL_CACHE to one");
    }
    args.what.each(|named| match args.forget {
        true => forget(args, &measured, named),
        false => calibrate(args, &measured, named),
    })?;
    if let (false, Some(path)) = (args.json, measured.path()) {
        say(format!("kept in {}", path.display()))?;
    }
    Ok(Exit::Done)
}

fn forget(args: &Args, measured: &Measurements, named: &Named) -> Result<()> {
    let was_there = measured.forget(&named.subject.key())?;
    let Named { model, about, subject } = named;
    let batch = subject.batch();
    if args.json {
        return Ok(say(json!({ "model": model, "batch": batch, "forgotten": was_there }))?);
    }
    let what = if was_there { "by the heuristic again" } else { "by the heuristic, as before" };
    Ok(say(format!("{about}, batch {batch}: cut {what}"))?)
}

fn calibrate(args: &Args, measured: &Measurements, named: &Named) -> Result<()> {
    let Named { about, subject, .. } = named;
    let cuts = subject.candidates()?;
    let mut workers = vec![1, n_cores()];
    workers.dedup();
    let mut plans = Vec::new();
    for cut in &cuts {
        for &workers in &workers {
            plans.push(Timed::new(subject, cut, workers)?);
        }
    }
    let (mut learned, effort) = (Models::new(), args.what.effort());
    let n_rounds = args.what.rounds;
    let bar = bar(plans.len() * (1 + n_rounds), args.json)
        .with_message(format!("{about}, batch {}", subject.batch()));
    rounds(subject, &mut plans, 1, effort, &mut learned, &bar)?;
    let best = scores(&plans, workers.len()).into_iter().fold(f64::INFINITY, f64::min);
    let hopeful: Vec<bool> =
        scores(&plans, workers.len()).iter().map(|&score| score <= HOPELESS * best).collect();
    let mut at = 0;
    plans.retain(|_| {
        // The heuristic is what all others are compared with.
        let cut = at / workers.len();
        at += 1;
        cut == 0 || hopeful[cut]
    });
    bar.set_length((cuts.len() * workers.len() + plans.len() * n_rounds) as u64);
    rounds(subject, &mut plans, n_rounds, effort, &mut learned, &bar)?;
    bar.finish_and_clear();

    let scores = scores(&plans, workers.len());
    let best = (0..scores.len()).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
    let chosen = if scores[best] < 1.0 - WORTH { best } else { 0 };
    let cut = plans[chosen * workers.len()].cut.clone();
    let gain = 1.0 - scores[chosen];
    let note = format!("{about}, batch {}: {:.1} % faster than the heuristic", subject.batch(), 100.0 * gain);
    report(args, named, &plans, &workers, &cuts, (&cut, gain))?;
    measured.keep(&learned);
    measured.choose(&subject.key(), &cut, &note)
}

/// How long the plans of each cut take compared with the heuristic's: the geometric mean over the numbers of
/// workers. Bits may not depend on the number of workers, so one cut has to serve all.
fn scores(plans: &[Timed], n_workers: usize) -> Vec<f64> {
    let heuristic = &plans[..n_workers];
    let score = |plans: &[Timed]| {
        let logs = plans.iter().zip(heuristic).map(|(plan, heuristic)| plan.ratio_to(heuristic).ln());
        (logs.sum::<f64>() / n_workers as f64).exp()
    };
    plans.chunks(n_workers).map(score).collect()
}

fn report(
    args: &Args,
    named: &Named,
    plans: &[Timed],
    workers: &[usize],
    cuts: &[CutOptions],
    (chosen, gain): (&CutOptions, f64),
) -> Result<()> {
    let Named { model, about, subject } = named;
    let batch = subject.batch();
    if args.json {
        let plan = |plan: &Timed| {
            json!({
                "cut": plan.cut.to_string(), "workers": plan.workers, "tasks": plan.n_tasks(),
                "step_us": 1e6 * plan.step(), "rounds": plan.steps.len(),
            })
        };
        return Ok(say(json!({
            "model": model, "batch": batch, "chosen": chosen.to_string(), "gain": gain, "key": subject.key(),
            "plans": plans.iter().map(plan).collect::<Vec<_>>(),
        }))?);
    }
    let of = count(cuts.len(), "way");
    say(format!(
        "{about}, batch {batch}: {of} to cut a step, the best of them again; microseconds per step"
    ))?;
    let title: Vec<String> = workers.iter().map(|&n| format!("{:>12}", count(n, "worker"))).collect();
    say(format!("  {:<16} {:>6} {}", "tiles", "tasks", title.join(" ")))?;
    for plans in plans.chunks(workers.len()) {
        let times: Vec<String> = plans.iter().map(|plan| format!("{:>12.1}", 1e6 * plan.step())).collect();
        let mark = if plans[0].cut == *chosen { "  chosen" } else { "" };
        say(format!("  {:<16} {:>6} {}{mark}", label(&plans[0].cut), plans[0].n_tasks(), times.join(" ")))?;
    }
    let gain = match *chosen == cuts[0] {
        true => "the heuristic's cut stays: no other is more than 2 % faster".to_string(),
        false => format!("{:.1} % faster than the heuristic, {}", 100.0 * gain, label(&cuts[0])),
    };
    Ok(say(format!("  {gain}\n"))?)
}
