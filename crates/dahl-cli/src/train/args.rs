//! The arguments of `dahl train`, each checked by itself as it is parsed.

use clap::ValueEnum;
use dahl::train::Schedule;
use dahl_runtime::array::Dtype;
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
    pub model: String,
    /// The data: `digits`, or a folder with MNIST-like IDX files
    #[arg(long, default_value = "digits")]
    pub data: String,
    /// Use only the first N training images
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub limit: Option<usize>,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    pub batch: usize,
    /// Passes over the training images [default: 60 for the digits, 1 otherwise]
    #[arg(long, value_parser = at_least_one)]
    pub epochs: Option<usize>,
    /// Learning rate [default: 0.5 for the digits, 0.1 otherwise]
    #[arg(long, allow_negative_numbers = true, value_parser = not_negative)]
    pub lr: Option<f64>,
    /// Element type to compute in
    #[arg(long, value_enum, default_value_t = DtypeArg::F32)]
    pub dtype: DtypeArg,
    /// Worker threads [default: one per core]
    #[arg(long, value_parser = workers)]
    pub workers: Option<usize>,
    /// What initial weights and the order of images are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Who decides which worker executes what; the result does not depend on it
    #[arg(long, value_enum, default_value_t = ScheduleArg::Replay)]
    pub schedule: ScheduleArg,
    /// Execute the plan in FILE; it must be for this model, data, batch and number of workers
    #[arg(long, value_name = "FILE", conflicts_with = "schedule")]
    pub plan: Option<PathBuf>,
    /// Write the plan to FILE before training begins
    #[arg(long, value_name = "FILE")]
    pub save_plan: Option<PathBuf>,
    /// Give the last worker a memory of its own, as a device has; the result does not depend on it
    #[arg(long)]
    pub test_unit: bool,
    /// Save who did what when in the newest full training steps; the ending decides: .perfetto or .pftrace (Perfetto), .paje or .trace
    /// (Paje), .dot (the task graph), .json (dahl's own, for `dahl trace`)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// End with an error that says what is stuck when no task has finished for this long
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub watchdog: Option<Duration>,
    /// Print one JSON object per epoch and one at the end
    #[arg(long)]
    pub json: bool,
}

/// Element types that can be computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DtypeArg {
    /// 32 bits
    F32,
    /// 64 bits
    F64,
}

impl From<DtypeArg> for Dtype {
    fn from(dtype: DtypeArg) -> Dtype {
        match dtype {
            DtypeArg::F32 => Dtype::F32,
            DtypeArg::F64 => Dtype::F64,
        }
    }
}

/// Ways of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleArg {
    /// A plan made before the run; a worker that waits may take over some tasks
    Replay,
    /// The same, every task exactly where and when the plan says
    Fixed,
    /// Whoever is free takes the most urgent task that is ready
    Eager,
    /// Every worker keeps what it made ready, and takes from others when it has nothing
    Steal,
}

impl From<ScheduleArg> for Schedule {
    fn from(schedule: ScheduleArg) -> Schedule {
        match schedule {
            ScheduleArg::Replay => Schedule::Replay,
            ScheduleArg::Fixed => Schedule::Fixed,
            ScheduleArg::Eager => Schedule::Eager,
            ScheduleArg::Steal => Schedule::Steal,
        }
    }
}

/// More threads than any machine has cores for.
const MAX_WORKERS: usize = 4096;

/// A number of things that cannot be missing.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 up is needed".into()),
        Ok(number) => Ok(number),
    }
}

/// A number of workers.
pub fn workers(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Ok(number) if number > MAX_WORKERS => Err(format!("at most {MAX_WORKERS} workers are possible")),
        other => other,
    }
}

/// A rate.
pub fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("a number from 0 up is needed".into()),
    }
}

/// A stretch of time that makes sense as a limit.
fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| "a number of seconds above 0 is needed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for text in ["0", "-1", "1.5", "", "many", "99999999999999999999"] {
            assert!(at_least_one(text).is_err(), "{text}");
        }
        for text in ["-0.1", "nan", "inf", "-inf", "", "fast"] {
            assert!(not_negative(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "nan", "inf", "1e300", "1e-300", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(workers("4097").is_err());
    }

    #[test]
    fn others_are_taken() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert_eq!(not_negative("0"), Ok(0.0));
        assert_eq!(not_negative("1e-3"), Ok(0.001));
        assert_eq!(workers("4096"), Ok(4096));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    }
}
