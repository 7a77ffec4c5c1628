//! What stands out in a trace, and why times vary, in sentences.

use super::peaks::Found;
use crate::output::count;
use dahl_trace::Statistics;
use dahl_trace::stats::{Cause, Factor, Phase, SlowImplementation, SlowReason, SlowWorker, Variation};
use serde_json::{Value, json};

/// Everything there is to say beside the table.
pub struct Why {
    /// The numbers of the workers that executed something.
    busy: Vec<usize>,
    workers: Vec<SlowWorker>,
    phases: Vec<Phase>,
    slow: Vec<SlowImplementation>,
    variations: Vec<Variation>,
}

/// Codelets with less of the step than this are not explained in words.
const LEAST_SHARE: f64 = 0.01;

/// Phases of which not more are told.
const MOST_PHASES: usize = 3;

impl Why {
    pub fn new(statistics: &Statistics<'_>, peaks: &Found) -> Why {
        Why {
            busy: statistics.busy_workers(),
            workers: statistics.slow_workers(),
            phases: statistics.phases(),
            slow: statistics.slow_implementations(peaks.known_or_nominal(), dahl::op::CODELETS),
            variations: statistics.variations(),
        }
    }

    pub fn words(&self) -> String {
        let mut text = String::new();
        let found: Vec<String> =
            self.workers().into_iter().chain(self.phases()).chain(self.slow.iter().map(slow)).collect();
        if !found.is_empty() {
            text.push_str("\nwhat stands out\n");
        }
        found.iter().for_each(|sentence| text.push_str(&format!("  {sentence}\n")));
        let mut variations = self.variations.iter().filter(|it| it.share >= LEAST_SHARE).peekable();
        if variations.peek().is_some() {
            text.push_str("\nwhy times vary\n");
        }
        variations.for_each(|it| text.push_str(&format!("  {}\n", variation(it))));
        text
    }

    /// A sentence for each worker, or one for all of them where nobody is left to compare with.
    fn workers(&self) -> Vec<String> {
        let is_any_slower = self.workers.iter().any(SlowWorker::is_slower);
        if is_any_slower || self.busy.len() < 2 || self.workers.len() < self.busy.len() {
            return self.workers.iter().map(|worker| self.worker(worker)).collect();
        }
        let lost = self.workers.iter().map(|worker| 100.0 * worker.lost);
        let (low, high) = (lost.clone().fold(f64::MAX, f64::min), lost.fold(0.0, f64::max));
        vec![format!(
            "all workers lose {low:.0} to {high:.0} % of their time in executions of more than twice their usual length: their \
             cores are shared with something else"
        )]
    }

    fn worker(&self, worker: &SlowWorker) -> String {
        let SlowWorker { worker: number, ratio, n_codelets, n_slower, lost, lost_by_others } = worker;
        let others: Vec<&usize> = self.busy.iter().filter(|busy| *busy != number).collect();
        let others = match others.as_slice() {
            [other] => format!("worker {other}"),
            _ => "the other workers".to_string(),
        };
        let codelets = match n_slower == n_codelets {
            true => "all codelets".to_string(),
            false => format!("{n_slower} of {n_codelets} codelets"),
        };
        let interrupted = format!(
            "loses {:.0} % of its time in executions of more than twice their usual length",
            100.0 * lost
        );
        match (worker.is_slower(), self.busy.len()) {
            (true, _) => format!(
                "worker {number} is {ratio:.2} times slower than {others} in {codelets}: a noisy or slower core"
            ),
            (false, 1) => {
                format!("worker {number} {interrupted}: its core is shared with something else")
            }
            (false, _) => format!(
                "worker {number} {interrupted}, {others} {:.0} %: its core is shared with something else",
                100.0 * lost_by_others
            ),
        }
    }

    /// The phases that cost most, and how many others there are.
    fn phases(&self) -> Vec<String> {
        let cost = |phase: &Phase| (phase.ratio - 1.0) * (phase.end_seconds - phase.start_seconds);
        let mut phases: Vec<&Phase> = self.phases.iter().collect();
        phases.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        let mut sentences: Vec<String> =
            phases.iter().take(MOST_PHASES).map(|phase| self.phase(phase)).collect();
        if let Some(n) = phases.len().checked_sub(MOST_PHASES).filter(|&n| n > 0) {
            sentences.push(format!("and {}", count(n, "shorter or milder phase")));
        }
        sentences
    }

    fn phase(&self, phase: &Phase) -> String {
        let who = match phase.workers.as_slice() {
            all if all.len() == self.busy.len() => "everything".to_string(),
            [one] => format!("everything on worker {one}"),
            some => {
                let numbers: Vec<String> = some.iter().map(usize::to_string).collect();
                format!("everything on workers {}", numbers.join(", "))
            }
        };
        format!(
            "from {:.2} to {:.2} s (steps {} to {}) {who} took {:.2} times as long as otherwise: a phase of the machine",
            phase.start_seconds, phase.end_seconds, phase.steps.0, phase.steps.1, phase.ratio
        )
    }

    pub fn json(&self) -> Value {
        let worker = |it: &SlowWorker| {
            json!({
                "worker": it.worker, "ratio": it.ratio, "codelets": it.n_codelets, "slower_codelets": it.n_slower,
                "lost": it.lost, "lost_by_others": it.lost_by_others, "is_slower": it.is_slower(),
            })
        };
        let phase = |it: &Phase| {
            json!({
                "workers": it.workers, "start_seconds": it.start_seconds, "end_seconds": it.end_seconds,
                "first_step": it.steps.0, "last_step": it.steps.1, "ratio": it.ratio,
            })
        };
        let slow = |it: &SlowImplementation| {
            let mut json =
                json!({ "codelet": it.codelet, "implementation": it.implementation, "share": it.share });
            match &it.reason {
                SlowReason::Beside { other, ratio } => {
                    json["beside"] = json!({ "implementation": other, "ratio": ratio })
                }
                SlowReason::Reference { others } => json["faster"] = json!(others),
                SlowReason::FarFromPeak { times } => json["times_further_from_peak"] = json!(times),
            }
            json
        };
        let cause = |it: &Cause| {
            json!({
                "factor": it.factor.name(), "share": it.share, "ratio": it.ratio, "slowest": it.slowest,
                "fastest": it.fastest,
            })
        };
        let variation = |it: &Variation| {
            json!({
                "codelet": it.codelet, "implementation": it.implementation, "unit": it.unit, "count": it.n,
                "share": it.share, "spread": it.spread, "unexplained": it.unexplained,
                "causes": it.causes.iter().map(cause).collect::<Vec<_>>(),
            })
        };
        json!({
            "slow_workers": self.workers.iter().map(worker).collect::<Vec<_>>(),
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "slow_implementations": self.slow.iter().map(slow).collect::<Vec<_>>(),
            "variations": self.variations.iter().map(variation).collect::<Vec<_>>(),
        })
    }
}

fn slow(slow: &SlowImplementation) -> String {
    let SlowImplementation { codelet, implementation, share, reason } = slow;
    let share = 100.0 * share;
    let why = match reason {
        SlowReason::Beside { other, ratio } => {
            format!("takes {ratio:.1} times as long as implementation '{other}' for the same work")
        }
        SlowReason::Reference { others } => {
            format!("is the scalar reference, where there is '{}'", others.join("', '"))
        }
        SlowReason::FarFromPeak { times } => {
            format!("is {times:.0} times further from what the machine can do than the other codelets")
        }
    };
    format!("slow implementation: '{implementation}' of {codelet}, {share:.1} % of the step, {why}")
}

fn variation(variation: &Variation) -> String {
    let Variation { codelet, implementation, spread, causes, unexplained, .. } = variation;
    let mut parts: Vec<String> = causes.iter().map(cause).collect();
    if *unexplained >= 0.05 || causes.is_empty() {
        parts.push(format!("{:.0} % unexplained", 100.0 * unexplained));
    }
    format!("{codelet} ({implementation}), typically {spread:.2} times off its median: {}", parts.join("; "))
}

fn cause(cause: &Cause) -> String {
    let Cause { factor, share, ratio, slowest, fastest } = cause;
    let what = match factor {
        Factor::Shape => format!("by shape, {slowest} takes {ratio:.2} times as long as {fastest}"),
        Factor::Temperature => {
            format!("by caches, {slowest} tiles take {ratio:.2} times as long as {fastest} ones")
        }
        Factor::Worker => format!("by worker, {slowest} is {ratio:.2} times slower than {fastest}"),
        Factor::Tile => format!("by tile, {slowest} takes {ratio:.2} times as long as {fastest}"),
        Factor::Time => format!("by time, from {slowest} it was {ratio:.2} times slower than from {fastest}"),
        Factor::Interruption => {
            format!("by interruptions, {slowest} took {ratio:.1} times as long as {fastest}")
        }
    };
    format!("{:.0} % {what}", 100.0 * share)
}
