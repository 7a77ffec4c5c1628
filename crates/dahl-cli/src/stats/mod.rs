//! `dahl stats`.

mod against;
mod known;
mod layers;
mod peaks;
mod table;
mod why;

use crate::exit::Exit;
use crate::measurements::Measurements;
use crate::output::say;
use crate::parse::path;
use anyhow::Result;
use clap::ValueEnum;
use dahl_runtime::machine::Peaks;
use dahl_trace::Statistics;
use dahl_trace::stats::By;
use std::path::PathBuf;

/// What to say about a saved trace, or about this machine.
#[derive(clap::Args)]
#[command(after_help = "\
Times are those of kernels, the deviation is estimated from the median distance to the median, and shares are of the
workers' time within steps. GB/s counts the bytes that tasks read and write by definition, wherever they come from.
The fraction of peak is the least time that the machine's measured peaks allow, by arithmetic or by data, over the
time taken; the peaks are those of `dahl machine --measure`.

Examples:
  dahl train --trace run.json                 saves a trace in dahl's own format
  dahl stats                                  which codelets took most of the time here, in all runs so far
  dahl stats --all                            the same for every shape and circumstance
  dahl stats run.json                         what each codelet cost, and why it varied
  dahl stats run.json --by layer              what each layer of the network cost
  dahl stats run.json --by shape              a row for each shape of tile
  dahl stats new.json --against old.json      what changed beyond noise
  dahl stats run.json --json                  the same for programs")]
pub struct Args {
    /// A trace in dahl's own format (.json); without it, what all runs on this machine have measured
    #[arg(value_parser = path())]
    file: Option<PathBuf>,
    /// What makes a row of its own, beside codelet, implementation and kind of unit; or a row for each layer
    #[arg(long, value_enum, default_value_t = ByArg::Codelet, requires = "file")]
    by: ByArg,
    /// Another trace to compare with: what changed from it to this one
    #[arg(long, value_name = "FILE", value_parser = path(), conflicts_with = "by", requires = "file")]
    against: Option<PathBuf>,
    /// The machine file with the measured peaks [default: what `dahl machine --measure` left]
    #[arg(long, value_name = "FILE", value_parser = path(), conflicts_with = "against", requires = "file")]
    machine: Option<PathBuf>,
    /// Without a trace: a row for everything that was measured, and not only the codelets that took most of
    /// the time
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Print one JSON object; without a trace it has everything
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ByArg {
    /// Nothing else
    Codelet,
    /// The layer of the network, whatever its codelets; what several layers share has a row of its own
    Layer,
    /// Shapes, layouts and parameters
    Shape,
    /// Who executed it
    Worker,
    /// Which tile of which array
    Tile,
    /// Whether its data was in the worker's caches, by the plan
    Temperature,
}

impl ByArg {
    fn rows(self, statistics: &Statistics<'_>, peaks: Option<&Peaks>) -> table::Rows {
        let by = match self {
            ByArg::Layer => return table::Rows::OfLayers(statistics.scope_rows(peaks)),
            ByArg::Codelet => By::Codelet,
            ByArg::Shape => By::Shape,
            ByArg::Worker => By::Worker,
            ByArg::Tile => By::Tile,
            ByArg::Temperature => By::Temperature,
        };
        table::Rows::OfCodelets(statistics.rows(by, peaks))
    }
}

/// Describes a trace, or compares two.
pub fn run(args: &Args) -> Result<Exit> {
    let Some(file) = &args.file else {
        let measured = Measurements::open();
        match args.json {
            true => say(known::json(&measured))?,
            false => say(known::words(&measured, args.all))?,
        }
        return Ok(Exit::Done);
    };
    let trace = dahl_trace::load(file)?;
    if let Some(path) = &args.against {
        let other = dahl_trace::load(path)?;
        let found = against::Found::new(file, &trace, path, &other);
        match args.json {
            true => say(found.json())?,
            false => say(found.words().trim_end())?,
        }
        return Ok(Exit::Done);
    }
    let statistics = Statistics::of(&trace);
    let peaks = peaks::find(args.machine.as_deref(), statistics.n_workers())?;
    let rows = args.by.rows(&statistics, peaks.known());
    let why = why::Why::new(&statistics, &peaks);
    if args.json {
        let mut json = table::json(&trace, &statistics, &rows);
        json["peaks"] = peaks.json();
        json["why"] = why.json();
        say(json)?;
    } else {
        let table = table::words(&trace, &statistics, &rows);
        say(format!("{}\n{}\n{}", table, peaks.words(), why.words()).trim_end())?;
    }
    Ok(Exit::Done)
}
