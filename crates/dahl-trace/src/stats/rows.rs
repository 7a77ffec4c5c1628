//! The table: count, times and rates of executions that belong together.
//!
//! The fraction of the peak is the least time that measured rates allow (the roofline: [`Peaks::seconds`])
//! over the time taken. Bytes are those that tasks touch by definition. A warm task is compared with the
//! nearest cache that holds them, a cold one with the nearest that is not its worker's own.

use super::robust::{deviation, median};
use super::{Execution, Statistics, grouped};
use dahl_runtime::machine::Peaks;

/// What makes a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Codelet, implementation and kind of unit alone.
    Codelet,
    /// Also shapes, layouts and integer parameters.
    Shape,
    /// Also the worker.
    Worker,
    /// Also the tile.
    Tile,
    /// Also whether data came from outside of the worker's caches.
    Temperature,
}

/// Executions that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// The kind of unit.
    pub unit: String,
    /// What else sets the row apart; empty by codelet.
    pub detail: String,
    /// Number of executions.
    pub n: usize,
    /// Seconds of all of them.
    pub seconds: f64,
    /// Mean seconds.
    pub mean: f64,
    /// Median seconds.
    pub median: f64,
    /// Standard deviation in seconds, estimated from the median distance to the median.
    pub deviation: f64,
    /// Share of the workers' time within steps.
    pub share: f64,
    /// Floating-point operations per second.
    pub flops_per_second: f64,
    /// Bytes per second, of those that its tasks move by definition: all that they read or write, wherever it
    /// was.
    pub bytes_per_second: f64,
    /// The least time that the machine's measured peaks allow, as a share of the time it took.
    pub peak: Option<f64>,
}

/// What executions did per second, and how near to the peaks that is.
pub(super) struct Rates {
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
    pub peak: Option<f64>,
}

impl Statistics<'_> {
    /// The table, largest share first.
    pub fn rows(&self, by: By, peaks: Option<&Peaks>) -> Vec<Row> {
        let classes = self.classes(|task| {
            let shape = matches!(by, By::Shape | By::Tile).then_some(&task.footprint);
            (&task.codelet, &task.implementation, shape, (by == By::Tile).then_some(task.tile))
        });
        let condition = |e: &Execution| match by {
            By::Codelet | By::Shape | By::Tile => 0,
            By::Worker => e.worker,
            By::Temperature => usize::from(e.is_cold),
        };
        let key = |e: &Execution| (classes[e.task], self.unit(e.worker), condition(e));
        let mut rows: Vec<(Row, usize)> = Vec::new();
        for group in grouped(&self.executions, key).into_values() {
            let group: Vec<&Execution> = group.into_iter().map(|i| &self.executions[i]).collect();
            rows.push((self.row(&group, by, peaks), group[0].task));
        }
        rows.sort_by(|(a, a_task), (b, b_task)| {
            b.seconds.total_cmp(&a.seconds).then_with(|| (a_task, &a.detail).cmp(&(b_task, &b.detail)))
        });
        rows.into_iter().map(|(row, _)| row).collect()
    }

    fn row(&self, group: &[&Execution], by: By, peaks: Option<&Peaks>) -> Row {
        let first = group[0];
        let info = self.info(first);
        let detail = match by {
            By::Codelet => String::new(),
            By::Shape => info.footprint.clone(),
            By::Worker => format!("worker {}", first.worker),
            By::Tile => format!("tile {} of {}: {}", info.tile.0 + 1, info.tile.1, info.footprint),
            By::Temperature => if first.is_cold { "cold" } else { "warm" }.to_string(),
        };
        let mut times: Vec<f64> = group.iter().map(|execution| execution.seconds).collect();
        let seconds: f64 = times.iter().sum();
        let middle = median(&mut times);
        let rates = self.rates(group, seconds, peaks);
        Row {
            codelet: info.codelet.clone(),
            implementation: info.implementation.clone(),
            unit: self.unit(first.worker).to_string(),
            detail,
            n: group.len(),
            seconds,
            mean: seconds / group.len() as f64,
            median: middle,
            deviation: deviation(&times, middle),
            share: self.share(seconds),
            flops_per_second: rates.flops_per_second,
            bytes_per_second: rates.bytes_per_second,
            peak: rates.peak,
        }
    }

    /// What executions did per second.
    pub(super) fn rates(&self, group: &[&Execution], seconds: f64, peaks: Option<&Peaks>) -> Rates {
        let sum = |of: &dyn Fn(&Execution) -> f64| group.iter().map(|e| of(e)).sum::<f64>() / seconds;
        let least = |peaks: &Peaks| {
            sum(&|e| {
                let task = self.info(e);
                peaks.seconds(&task.dtype, task.flops, task.bytes, e.is_cold)
            })
        };
        Rates {
            flops_per_second: sum(&|e| self.info(e).flops),
            bytes_per_second: sum(&|e| self.info(e).bytes as f64),
            peak: peaks.map(least),
        }
    }
}
