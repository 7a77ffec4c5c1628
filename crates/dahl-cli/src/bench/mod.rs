//! `dahl bench`: how fast networks are trained here, beside what the machine allows and beside PyTorch.
//!
//! What is measured is what a user gets: whole training steps, the batch gathered and normalised included,
//! and their ratio to PyTorch's. Shared machines have phases, so all programs take turns round by round
//! (`contest.rs`), every other round in reverse, and ratios are those of one round. Each process
//! (`contestant.rs`) keeps to the first cores, as many as there are workers; between turns there is a pause
//! in which the threads of whoever had the last turn go to sleep. The learning rate is 0 everywhere: the same
//! work, and neither infinities nor denormal numbers after thousands of steps.

mod contest;
mod contestant;
mod floor;
mod serve;
mod settings;
mod tell;
mod torch;

use crate::exit::{Exit, Misuse};
use crate::machine;
use crate::measurements::Measurements;
use crate::open;
use crate::output::{count, say};
use crate::parse::{DtypeArg, at_least_one, batch, model, seconds, workers};
use crate::tune::bar;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use contest::{Case, Effort, Found, rounds};
use contestant::{Contestant, Started};
use dahl::model::Sequential;
use dahl::op::simd::Isa;
use dahl::tune::Subject;
use dahl_runtime::machine::{Hardware, n_cores};
use floor::Floor;
use settings::Settings;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use torch::{Device, Mode, Rival, rivals};

/// What to measure, and beside whom.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl bench                                     seed and lenet5 (batches of 64 and 256), vggish (64), mlp (128)
  dahl bench --model lenet5 --batch 64,256,1024 --workers 1,2,4,8,16
  dahl bench --against torch --python env/bin/python
                                                 the same beside PyTorch, in turn with each of its modes
  dahl bench --model seed --dtype f32,f64 --against torch --modes eager,channels-last
  dahl bench --model seed --against torch --torch-device cpu,cuda --json

A step is what training takes for a batch: images gathered from memory and normalised, forward, loss, backward, plain SGD. Images are
made up, in the shape that the network was made for. Every program is a process of its own and gets as many cores as there are
workers, the same ones; they take turns, round by round. Of a round the median step counts, and of all rounds the median. Rounds in
which somebody took half as long again as usual, or was interrupted, are measured again; where that is of no use, the figures are
marked as disturbed: others use the cores. Peaks and
floors are those of dahl machine --measure: arithmetic is that of convolutions and matrix products, bytes are those of the images and
the weights. Memory is the most that the process had, without the data set, and what training added to code and data.
PyTorch's modes run a second time (+malloc) with a malloc that keeps its memory, which saves it page faults.")]
pub struct Args {
    /// Networks: names that `dahl model` lists, or model files [default: seed, lenet5, vggish and mlp]
    #[arg(long, value_name = "NAMES", value_parser = model, value_delimiter = ',')]
    model: Vec<String>,
    /// Images per step [default: 64, and without --model what is usual for each]
    #[arg(long, value_name = "SIZES", value_parser = batch, value_delimiter = ',')]
    batch: Vec<usize>,
    /// Numbers of workers [default: 1 and one per core]
    #[arg(long, value_name = "NUMBERS", value_parser = workers, value_delimiter = ',')]
    workers: Vec<usize>,
    /// Element types to compute in
    #[arg(long, value_enum, value_name = "TYPES", value_delimiter = ',', default_value = "f32")]
    dtype: Vec<DtypeArg>,
    /// How long a turn takes
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    seconds: Duration,
    /// How many turns each has
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = at_least_one)]
    rounds: usize,
    /// Somebody to compare with
    #[arg(long, value_enum, value_name = "WHOM")]
    against: Option<Whom>,
    /// A Python interpreter with torch and numpy
    #[arg(long, value_name = "PATH", default_value = "python3", requires = "against")]
    python: PathBuf,
    /// What PyTorch does [default: all of them, cuda-graph on a GPU only]
    #[arg(long, value_enum, value_name = "MODES", value_delimiter = ',', requires = "against")]
    modes: Vec<Mode>,
    /// Where PyTorch computes
    #[arg(
        long,
        value_enum,
        value_name = "DEVICES",
        value_delimiter = ',',
        default_value = "cpu",
        requires = "against"
    )]
    torch_device: Vec<Device>,
    /// How long PyTorch may take to get ready in one mode, compiling included
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    patience: Duration,
    /// Print one JSON object per case
    #[arg(long)]
    json: bool,
    /// Trains for another dahl that measures
    #[arg(long, hide = true)]
    serve: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whom {
    /// PyTorch, its best of several modes
    Torch,
}

/// What is measured if nothing else is asked for.
const USUAL: [(&str, &[usize]); 4] =
    [("seed", &[64, 256]), ("lenet5", &[64, 256]), ("vggish", &[64]), ("mlp", &[128])];

impl Args {
    /// Networks and batches.
    fn steps(&self) -> Vec<(String, usize)> {
        if self.model.is_empty() && self.batch.is_empty() {
            let steps =
                USUAL.iter().flat_map(|&(name, sizes)| sizes.iter().map(move |&n| (name.to_string(), n)));
            return steps.collect();
        }
        let usual = USUAL.map(|(name, _)| name.to_string());
        let models = if self.model.is_empty() { &usual[..] } else { &self.model[..] };
        let batches = if self.batch.is_empty() { &[64][..] } else { &self.batch[..] };
        models.iter().flat_map(|model| batches.iter().map(|&batch| (model.clone(), batch))).collect()
    }

    /// Numbers of workers, of which each must have a core: whoever waits for one says nothing about speed.
    fn counts(&self) -> Result<Vec<usize>> {
        let n_cores = n_cores();
        let mut counts = if self.workers.is_empty() { vec![1, n_cores] } else { self.workers.clone() };
        counts.dedup();
        if let Some(&n) = counts.iter().find(|&&n| n > n_cores) {
            let message = format!(
                "{} cannot be measured on {}: ask for at most {n_cores} by --workers",
                count(n, "worker"),
                count(n_cores, "core")
            );
            return Err(Misuse(message).into());
        }
        Ok(counts)
    }

    /// The processes of PyTorch.
    fn rivals(&self) -> Vec<Rival> {
        let modes = if self.modes.is_empty() { Mode::value_variants() } else { &self.modes[..] };
        let devices = self.torch_device.iter().filter(|_| self.against == Some(Whom::Torch));
        devices.flat_map(|&device| rivals(modes, device)).collect()
    }
}

/// Measures and compares.
pub fn run(args: &Args) -> Result<Exit> {
    if args.serve {
        return serve::run();
    }
    let (counts, rivals) = (args.counts()?, args.rivals());
    if args.against.is_some() {
        check_rivals(args, &rivals)?;
    }
    let measured = Measurements::open();
    let peaks = machine::measured::known(&Hardware::detect());
    let mut cases = Vec::new();
    for (model, batch) in args.steps() {
        for &dtype in &args.dtype {
            for &workers in &counts {
                let (settings, origin, least) = settings(&model, batch, dtype, workers, &measured)?;
                let floor = peaks.as_ref().map(|measured| {
                    Floor::new(&least, &measured.peaks(workers), &settings.dtype.to_string(), workers)
                });
                let Found { dahl, rivals, n_disturbed } = measure(args, &settings, &rivals)?;
                let case = Case { settings, origin, least, floor, dahl, rivals, n_disturbed };
                say(if args.json { tell::json(&case).to_string() } else { tell::words(&case) })?;
                cases.push(case);
            }
        }
    }
    if !args.json {
        say(tell::table(&cases).trim_end())?;
        say(
            "GFLOP/s are effective: those of plain convolutions, also where Winograd's method multiplies less",
        )?;
        if peaks.is_none() {
            say("floors: nothing was measured on this machine yet; do so by dahl machine --measure")?;
        }
    }
    Ok(Exit::Done)
}

/// Whether there is anybody to compare with, before anything takes its time.
fn check_rivals(args: &Args, rivals: &[Rival]) -> Result<()> {
    if rivals.is_empty() {
        let message = "cuda-graph is a mode of a GPU: add --torch-device cuda, or other --modes";
        return Err(Misuse(message.to_string()).into());
    }
    let is_known = |name: &String| Sequential::BUILTIN.iter().any(|model| model.name == name);
    if let Some(name) = args.model.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = Sequential::BUILTIN.iter().map(|model| model.name).collect();
        bail!("PyTorch knows no network {name}: compare {}", known.join(", "));
    }
    let program = Command::new(&args.python).args(["-c", "import torch, numpy"]).output();
    let python = args.python.display();
    let program =
        program.with_context(|| format!("{python} cannot be started: name an interpreter by --python"))?;
    if !program.status.success() {
        let errors = String::from_utf8_lossy(&program.stderr);
        let error = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        bail!(
            "{python} has no PyTorch ({}): name an interpreter with torch and numpy by --python",
            error.trim()
        );
    }
    Ok(())
}

/// What is trained, where its cut comes from, and the least that it takes.
fn settings(
    model: &str,
    batch: usize,
    dtype: DtypeArg,
    workers: usize,
    measured: &Measurements,
) -> Result<(Settings, String, dahl::tune::Least)> {
    let network = open::model(model, None, CLASSES)?;
    let subject = Subject::new(&network, batch, dtype.into())?;
    let chosen = measured.choice(&subject.key());
    let (cut, origin) = chosen.unwrap_or_else(|| (dahl::op::default_cut(), "heuristic".to_string()));
    let least = subject.least().context("planning failed")?;
    let settings = Settings {
        model: model.to_string(),
        shape: subject.shape(),
        classes: subject.classes(),
        images: subject.n_images(),
        batch,
        workers,
        dtype: dtype.into(),
        cut: cut.to_string(),
    };
    Ok((settings, origin, least))
}

/// Classes of networks that do not say how many they tell apart.
const CLASSES: usize = 10;

/// Starts everybody and lets them take turns.
fn measure(args: &Args, settings: &Settings, rivals: &[Rival]) -> Result<Found> {
    let bar = bar((rivals.len() + 1) * args.rounds, args.json);
    let about =
        format!("{}, batch {}, {}", settings.about(), settings.batch, count(settings.workers, "worker"));
    let dahl = dahl(settings, args.patience).context("dahl itself cannot be measured")?;
    // All of them load PyTorch at the same time; whatever they measure to get ready, they measure alone.
    let started = |rival: &Rival| (*rival, rival.start(&args.python, settings.workers, args.patience));
    let started: Vec<_> = rivals.iter().map(started).collect();
    let ready = started.into_iter().map(|(rival, started)| {
        bar.set_message(format!("{about}: {rival} gets ready"));
        (rival, started.and_then(|started| rival.ready(started, settings)))
    });
    let ready: Vec<(Rival, Result<Contestant>)> = ready.collect();
    bar.set_message(about.clone());
    let found = rounds(dahl, ready, Effort { rounds: args.rounds, time: args.seconds }, &bar);
    bar.finish_and_clear();
    let found = found?;
    let rivals = &found.rivals;
    if !rivals.is_empty() && rivals.iter().all(|(_, score)| score.is_err()) {
        let (rival, error) =
            rivals.iter().find_map(|(rival, score)| Some((rival, score.as_ref().err()?))).unzip();
        let (rival, error) = (rival.map(|rival| rival.to_string()), error.cloned().unwrap_or_default());
        bail!("PyTorch could not be measured in any mode; {}: {error}", rival.unwrap_or_default());
    }
    Ok(found)
}

/// Starts dahl as one of those that take turns.
fn dahl(settings: &Settings, patience: Duration) -> Result<Contestant> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let isa = Isa::current().to_string();
    let mut command = Command::new(program);
    command.args(["bench", "--serve", "--isa", &isa]);
    Started::new(&mut command, &[], patience)?.ready(&settings.to_json())
}
