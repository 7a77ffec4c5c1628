//! Stretches of time in which everything took longer.

use super::robust::{median, quantile};
use super::variation::WINDOWS;
use super::{Statistics, grouped};

/// A stretch of time in which workers were slower than otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The workers; all of them if it lists as many as there are.
    pub workers: Vec<usize>,
    /// Its beginning, since the beginning of the trace.
    pub start_seconds: f64,
    /// Its end.
    pub end_seconds: f64,
    /// The first step and the last one that were affected.
    pub steps: (u32, u32),
    /// How many times as long the same tasks took in it as outside of such phases.
    pub ratio: f64,
}

/// The least ratio that is worth mentioning.
const LEAST_RATIO: f64 = 1.1;
/// Executions of a worker in a window of which something can be said.
const LEAST: usize = 8;
/// Windows shorter than this say nothing about the machine.
const LEAST_SECONDS: f64 = 1e-3;

impl Statistics<'_> {
    /// The phases in which everything took longer, in order.
    pub fn phases(&self) -> Vec<Phase> {
        let width = self.executions.last().map_or(0.0, |last| last.start) / WINDOWS as f64;
        if width < LEAST_SECONDS {
            return Vec::new();
        }
        // How far each execution is off the median of the same task on the same worker.
        let mut off = vec![f64::NAN; self.executions.len()];
        for group in grouped(&self.executions, |e| (e.task, e.worker)).into_values() {
            let mut logs: Vec<f64> = group.iter().map(|&i| self.executions[i].seconds.ln()).collect();
            let middle = median(&mut logs);
            // A task that ran only a few times in all has no usual time.
            for i in group.iter().copied().filter(|_| logs.len() >= WINDOWS / 2) {
                off[i] = self.executions[i].seconds.ln() - middle;
            }
        }
        let n_workers = self.trace.workers.len();
        let mut windows = vec![vec![None; n_workers]; WINDOWS];
        for ((window, worker), group) in grouped(&self.executions, |e| (self.window(e), e.worker)) {
            let mut values: Vec<f64> =
                group.iter().map(|&i| off[i]).filter(|value| !value.is_nan()).collect();
            if values.len() >= LEAST {
                windows[window][worker] = Some(median(&mut values));
            }
        }
        // What is normal for a worker is how fast it is in its better half.
        let normal: Vec<f64> = (0..n_workers)
            .map(|w| quantile(&mut windows.iter().filter_map(|window| window[w]).collect::<Vec<f64>>(), 0.25))
            .collect();
        let slow_in = |window: &[Option<f64>]| -> Vec<(usize, f64)> {
            let ratio = |w: usize| window[w].map(|value| (w, (value - normal[w]).exp()));
            (0..n_workers).filter_map(ratio).filter(|(_, ratio)| *ratio >= LEAST_RATIO).collect()
        };
        let mut phases: Vec<(Phase, usize, Vec<f64>)> = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            let slow = slow_in(window);
            if slow.is_empty() {
                continue;
            }
            let workers: Vec<usize> = slow.iter().map(|(worker, _)| *worker).collect();
            let ratios = slow.iter().map(|(_, ratio)| *ratio);
            match phases.last_mut() {
                Some((phase, last, all)) if *last + 1 == number && phase.workers == workers => {
                    (phase.end_seconds, *last) = ((number + 1) as f64 * width, number);
                    all.extend(ratios);
                }
                _ => {
                    let (start, end) = (number as f64 * width, (number + 1) as f64 * width);
                    let phase =
                        Phase { workers, start_seconds: start, end_seconds: end, steps: (0, 0), ratio: 1.0 };
                    phases.push((phase, number, ratios.collect()));
                }
            }
        }
        let finish = |(mut phase, _, mut ratios): (Phase, usize, Vec<f64>)| {
            phase.ratio = median(&mut ratios);
            let inside = self
                .executions
                .iter()
                .filter(|e| (phase.start_seconds..phase.end_seconds).contains(&e.start));
            let steps: Vec<u32> = inside.map(|e| e.step).collect();
            phase.steps =
                (steps.iter().copied().min().unwrap_or(0), steps.iter().copied().max().unwrap_or(0));
            phase
        };
        phases.into_iter().map(finish).collect()
    }
}
