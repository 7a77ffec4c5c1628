//! What a trace tells about each key.
//!
//! - *Warm-up*: the first tenth of the steps does not count, but at least one step and at most
//!   [`MAX_WARM_UP`]. A trace of one step is all warm-up.
//! - *Conditions*: a task that floated to another worker than planned found its inputs in that worker's
//!   caches, and was cold.
//! - *Typical times add up*: outliers are left out key by key, but on a machine that others use too, hardly
//!   any step is without some. So all typical times are multiplied by one factor, after which the times of a
//!   step add up to what the kernels of the median step took. On a quiet machine it is one.
//!
//! Tasks add up to steps, so what is kept is what an execution *adds to the median step*, and not its own
//! mean.

use super::key::{Condition, Key};
use super::summary::Summary;
use crate::robust::median;
use crate::trace::{Dispatch, TaskInfo, Trace};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Steps of a trace that do not count, at most.
pub const MAX_WARM_UP: usize = 20;

/// Everything that a trace tells about one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Floating-point operations of an execution.
    pub flops: f64,
    /// Bytes that an execution moves.
    pub bytes: usize,
    /// The executions under each condition.
    pub summaries: BTreeMap<Condition, Summary>,
}

/// One execution that counts.
struct Seen {
    /// The number of its key, and whether it was cold.
    what: (usize, bool),
    step: u32,
    start: u64,
    seconds: f64,
}

/// The executions of a trace by key and condition. Traces of submitted tasks tell nothing: what they found in
/// caches is not known.
pub fn observe(trace: &Trace) -> BTreeMap<Key, Observed> {
    let scene = &*trace.scene;
    let has_clock = trace.ticks_per_second.is_finite() && trace.ticks_per_second > 0.0;
    if scene.dispatch == Dispatch::Submitted || !has_clock {
        return BTreeMap::new();
    }
    let (keys, number_of) = numbered(trace);
    let Some(seen) = seen(trace, &number_of) else { return BTreeMap::new() };
    let mut times: BTreeMap<(usize, bool), Vec<f64>> = BTreeMap::new();
    for one in &seen {
        times.entry(one.what).or_default().push(one.seconds);
    }
    let mut summaries: BTreeMap<(usize, bool), Summary> =
        times.iter().filter_map(|(what, times)| Some((*what, Summary::of(times)?))).collect();
    let factor = factor(&seen, &summaries, scene.tasks.len());
    summaries.values_mut().for_each(|summary| summary.typical *= factor);

    let workers = scene.workers.len() as u32;
    let mut observed: BTreeMap<Key, Observed> = BTreeMap::new();
    for ((number, is_cold), summary) in summaries {
        let (key, flops, bytes) = &keys[number];
        let entry = observed.entry(key.clone()).or_default();
        (entry.flops, entry.bytes) = (*flops, *bytes);
        entry.summaries.insert(Condition { is_cold, workers }, summary);
    }
    observed
}

/// A key, its operations and its bytes.
type SizedKey = (Key, f64, usize);

/// The keys, and for each worker the numbers of the tasks' keys there, which workers of one kind share.
fn numbered(trace: &Trace) -> (Vec<SizedKey>, Vec<Rc<[usize]>>) {
    let scene = &*trace.scene;
    let mut numbers: BTreeMap<Key, usize> = BTreeMap::new();
    let mut keys: Vec<SizedKey> = Vec::new();
    let mut number = |unit: &str, info: &TaskInfo| {
        let key = Key::of_info(info, unit);
        let number = *numbers.entry(key).or_insert_with_key(|key| {
            keys.push((key.clone(), 0.0, 0));
            keys.len() - 1
        });
        let (_, flops, bytes) = &mut keys[number];
        *flops = if info.flops.is_finite() { flops.max(info.flops) } else { *flops };
        *bytes = info.bytes.max(*bytes);
        number
    };
    let mut of_kind: BTreeMap<&str, Rc<[usize]>> = BTreeMap::new();
    let of_worker = |worker: usize| {
        let unit = scene.workers.get(worker).map_or("", |worker| worker.kind.as_str());
        let numbers = || scene.tasks.iter().map(|info| number(unit, info)).collect();
        Rc::clone(of_kind.entry(unit).or_insert_with(numbers))
    };
    let number_of = (0..trace.workers.len()).map(of_worker).collect();
    (keys, number_of)
}

/// The executions after the warm-up, in the order in which they began; nothing if there is no step after it.
fn seen(trace: &Trace, number_of: &[Rc<[usize]>]) -> Option<Vec<Seen>> {
    let mut steps: Vec<u32> = trace.workers.iter().flatten().map(|event| event.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let n_warm_up = (steps.len() / 10).clamp(1, MAX_WARM_UP);
    let first = *steps.get(n_warm_up)?;
    let mut seen = Vec::new();
    for (worker, events) in trace.workers.iter().enumerate() {
        for event in events.iter().filter(|event| event.step >= first) {
            let Some(info) = trace.scene.tasks.get(event.task as usize) else { continue };
            let is_away = info.worker.is_some_and(|planned| planned != worker);
            seen.push(Seen {
                what: (number_of[worker][event.task as usize], info.is_cold || is_away),
                step: event.step,
                start: event.start,
                // What a clock cannot tell from nothing takes a tick.
                seconds: event.end.saturating_sub(event.start).max(1) as f64 / trace.ticks_per_second,
            });
        }
    }
    seen.sort_by_key(|one| one.start);
    Some(seen)
}

/// What the kernels of the median step took, relative to the sum of the typical times of a step.
fn factor(seen: &[Seen], summaries: &BTreeMap<(usize, bool), Summary>, n_tasks: usize) -> f64 {
    /// Executions, seconds, and what they would typically have taken.
    type Sum = (usize, f64, f64);
    let mut steps: BTreeMap<u32, Sum> = BTreeMap::new();
    for one in seen {
        let (n, seconds, typical) = steps.entry(one.step).or_default();
        *n += 1;
        *seconds += one.seconds;
        *typical += summaries.get(&one.what).map_or(0.0, |summary| summary.typical);
    }
    // The first and the last may have lost something.
    let whole: Vec<Sum> = steps.into_values().filter(|(n, ..)| *n == n_tasks).collect();
    let middle = |of: &dyn Fn(&Sum) -> f64| median(&mut whole.iter().map(of).collect::<Vec<f64>>());
    let factor = middle(&|(_, seconds, _)| *seconds) / middle(&|(_, _, typical)| *typical);
    if factor.is_finite() && factor > 0.0 { factor } else { 1.0 }
}
