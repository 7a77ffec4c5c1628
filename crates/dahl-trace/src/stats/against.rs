//! Two runs beside each other: what changed beyond noise.
//!
//! Executions are matched by what they do. Each side's executions of a kind are divided into stretches of
//! time, and how much the medians of the stretches differ within a run says how far two runs may differ by
//! chance: machines have phases that last longer than any task, so neighbouring executions know little more
//! than one. Many kinds are looked at, so each must be the surer. And what two runs of the same program
//! differ by shows in all kinds: where memory lies, what the neighbours do. The common factor is taken out
//! and said separately, and a kind has changed only if it is further off than other codelets' tasks of about
//! the same length commonly are.
//!
//! So a change must be beyond three things: the medians of ten stretches of time within each run (Welch's
//! test, at 95 % for all kinds together); four times what tasks of other codelets of about the same length
//! differ by; and most of the distance between the kind's own fast and slow executions, of which there are
//! often two sorts. Codelets count once for what is common, because the one that changed may be most of a
//! run. For each kind the result also says how large a change would have been seen.

use super::robust::{DISTANCE_TO_DEVIATION, critical, median, quantile};
use super::{Statistics, grouped};
use dahl_runtime::trace::TaskInfo;
use std::collections::BTreeMap;

/// What executions are matched by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// The kind of unit.
    pub unit: String,
    /// The element type.
    pub dtype: String,
    /// Shapes, layouts and parameters.
    pub footprint: String,
    /// Whether data came from outside of the worker's caches.
    pub is_cold: bool,
}

/// What happened to one kind of task.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which kind.
    pub of: Match,
    /// Versions of the implementation, here and there.
    pub versions: (u32, u32),
    /// Numbers of executions, here and there.
    pub n: (usize, usize),
    /// Median seconds, here and there.
    pub median: (f64, f64),
    /// Its share of the time in kernels there.
    pub share: f64,
    /// How many times as long it takes here.
    pub ratio: f64,
    /// Between what the ratio lies, at 95 % for all kinds together; none if there are too few executions to
    /// say.
    pub interval: Option<(f64, f64)>,
    /// Whether that is beyond noise.
    pub is_changed: bool,
    /// The least factor, either way, that would have been beyond noise; none if there are too few executions
    /// to say.
    pub visible_from: Option<f64>,
}

/// A kind that only one of the runs has.
#[derive(Clone, Debug, PartialEq)]
pub struct Only {
    /// Which kind.
    pub of: Match,
    /// Number of executions.
    pub n: usize,
    /// Its share of the time in kernels.
    pub share: f64,
}

/// Two runs beside each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Against {
    /// How many times as long codelets take here, in the median: the machine's mood, or a change in
    /// everything.
    pub common: f64,
    /// How far kinds are commonly off that, as a factor, in the median.
    pub noise: f64,
    /// What both have: changed kinds first, by their share.
    pub changes: Vec<Change>,
    /// What only this run has.
    pub only_here: Vec<Only>,
    /// What only the other one has.
    pub only_there: Vec<Only>,
}

/// Stretches of time that a side is divided into, and the executions that each needs at least.
const STRETCHES: usize = 10;
const LEAST_STRETCHES: usize = 4;
const LEAST: usize = 3;
/// Changes below this are not called changes: memory that lies elsewhere does as much.
const LEAST_CHANGE: f64 = 0.05;
/// How sure to be about all kinds together.
const ERROR: f64 = 0.05;
/// Codelets that are needed to say what is common, and how many neighbours a kind is compared with.
const LEAST_CODELETS: usize = 5;
const NEIGHBOURS: usize = 12;
/// How many times as far off as its neighbours a kind must be.
const FAR: f64 = 4.0;
/// How much of the distance between its own fast and slow executions a kind must be off.
const OF_WIDTH: f64 = 0.75;
/// A cache miss or two: shorter differences say nothing, however long the task.
const LEAST_SECONDS: f64 = 0.2e-6;

/// One side's executions of a kind.
struct Side {
    version: u32,
    n: usize,
    seconds: f64,
    /// Median logarithm of seconds.
    middle: f64,
    /// Those of stretches of time.
    stretches: Vec<f64>,
    /// From the tenth of the executions that are fastest to the tenth that are slowest.
    width: f64,
}

impl Statistics<'_> {
    /// This run against another.
    pub fn against(&self, other: &Statistics<'_>) -> Against {
        let (here, mut there) = (self.sides(), other.sides());
        let seconds = |sides: &BTreeMap<Match, Side>| sides.values().map(|side| side.seconds).sum::<f64>();
        let (all_here, all_there) = (seconds(&here), seconds(&there));
        let only = |of: Match, side: &Side, all: f64| Only { of, n: side.n, share: side.seconds / all };
        let (mut pairs, mut only_here) = (Vec::new(), Vec::new());
        for (of, side) in here {
            match there.remove(&of) {
                Some(other) => pairs.push((of, side, other)),
                None => only_here.push(only(of, &side, all_here)),
            }
        }
        let mut only_there: Vec<Only> =
            there.into_iter().map(|(of, side)| only(of, &side, all_there)).collect();

        let common = common(&pairs);
        let n_tests = pairs.len().max(1) as f64;
        let noises: Vec<f64> = (0..pairs.len()).map(|i| noise(&pairs, i, common)).collect();
        let mut changes = Vec::new();
        for ((of, here, there), noise) in pairs.into_iter().zip(&noises) {
            changes.push(change(of, &here, &there, n_tests, (common, *noise), all_there));
        }
        changes.sort_by(|a, b| {
            let rank = |change: &Change| (!change.is_changed, -change.share);
            let (a_rank, b_rank) = (rank(a), rank(b));
            a_rank.0.cmp(&b_rank.0).then(a_rank.1.total_cmp(&b_rank.1)).then_with(|| a.of.cmp(&b.of))
        });
        let by_share = |a: &Only, b: &Only| b.share.total_cmp(&a.share).then_with(|| a.of.cmp(&b.of));
        only_here.sort_by(by_share);
        only_there.sort_by(by_share);
        Against {
            common: common.exp(),
            noise: median(&mut noises.clone()).exp(),
            changes,
            only_here,
            only_there,
        }
    }

    fn sides(&self) -> BTreeMap<Match, Side> {
        let groups = grouped(&self.executions, |e| (e.kind, self.unit(e.worker)));
        let mut sides = BTreeMap::new();
        for ((_, unit), group) in groups {
            let TaskInfo { codelet, implementation, version, dtype, footprint, .. } =
                self.info(&self.executions[group[0]]);
            let of = Match {
                codelet: codelet.clone(),
                implementation: implementation.clone(),
                unit: unit.to_string(),
                dtype: dtype.clone(),
                footprint: footprint.clone(),
                is_cold: self.executions[group[0]].is_cold,
            };
            // Executions are in order of their start, so a stretch of the list is a stretch of time.
            let logs: Vec<f64> = group.iter().map(|&i| self.executions[i].seconds.ln()).collect();
            let n_stretches = (logs.len() / LEAST).min(STRETCHES);
            let stretch = |i: usize| {
                let range = i * logs.len() / n_stretches..(i + 1) * logs.len() / n_stretches;
                median(&mut logs[range].to_vec())
            };
            let side = Side {
                version: *version,
                n: logs.len(),
                seconds: group.iter().map(|&i| self.executions[i].seconds).sum(),
                middle: median(&mut logs.clone()),
                stretches: (0..n_stretches).map(stretch).collect(),
                width: quantile(&mut logs.clone(), 0.9) - quantile(&mut logs.clone(), 0.1),
            };
            sides.insert(of, side);
        }
        sides
    }
}

/// What most codelets have in common. Each counts once, however much of the time is its own: one that changed
/// may be most of a run.
fn common(pairs: &[(Match, Side, Side)]) -> f64 {
    let mut codelets: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (of, here, there) in pairs {
        codelets.entry(&of.codelet).or_default().push(here.middle - there.middle);
    }
    if codelets.len() < LEAST_CODELETS {
        return 0.0;
    }
    median(&mut codelets.into_values().map(|mut kinds| median(&mut kinds)).collect::<Vec<f64>>())
}

/// How far tasks of other codelets that are about as long as this one are off what is common.
fn noise(pairs: &[(Match, Side, Side)], this: usize, common: f64) -> f64 {
    let (of, _, there) = &pairs[this];
    let others = pairs.iter().filter(|(other, _, _)| other.codelet != of.codelet);
    let mut off: Vec<(f64, f64)> = others
        .map(|(_, a, b)| ((b.middle - there.middle).abs(), (a.middle - b.middle - common).abs()))
        .collect();
    if off.len() + 1 < LEAST_CODELETS {
        return 0.0;
    }
    off.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    off.truncate(NEIGHBOURS);
    DISTANCE_TO_DEVIATION * median(&mut off.iter().map(|(_, off)| *off).collect::<Vec<f64>>())
}

fn change(
    of: Match,
    here: &Side,
    there: &Side,
    n_tests: f64,
    (common, noise): (f64, f64),
    all: f64,
) -> Change {
    let difference = here.middle - there.middle;
    let is_enough = here.stretches.len().min(there.stretches.len()) >= LEAST_STRETCHES;
    let margin = is_enough.then(|| {
        // Welch's test on the medians of the stretches.
        let error = |side: &Side| {
            let n = side.stretches.len() as f64;
            let mean = side.stretches.iter().sum::<f64>() / n;
            let squares = side.stretches.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            (squares / (n - 1.0) / n, n - 1.0)
        };
        let ((a, a_free), (b, b_free)) = (error(here), error(there));
        let sum = a + b;
        let freedom = if sum > 0.0 { sum * sum / (a * a / a_free + b * b / b_free) } else { a_free + b_free };
        critical(ERROR / 2.0 / n_tests, freedom) * sum.sqrt()
    });
    // Where executions of one run are of two sorts, as if data is sometimes here and sometimes there, the
    // median goes from one sort to the other for little reason.
    let floor = LEAST_CHANGE.max(FAR * noise).max(OF_WIDTH * here.width.max(there.width));
    let is_changed = margin.is_some_and(|margin| {
        difference.abs() > margin.max(LEAST_CHANGE)
            && (difference - common).abs() > margin.max(floor)
            && (here.middle.exp() - there.middle.exp()).abs() > LEAST_SECONDS
    });
    Change {
        of,
        versions: (here.version, there.version),
        n: (here.n, there.n),
        median: (here.middle.exp(), there.middle.exp()),
        share: there.seconds / all,
        ratio: difference.exp(),
        interval: margin.map(|margin| ((difference - margin).exp(), (difference + margin).exp())),
        is_changed,
        visible_from: margin.map(|margin| {
            let short = (LEAST_SECONDS / there.middle.exp()).ln_1p();
            margin.max(floor).max(short).exp()
        }),
    }
}
