//! What the parts of a step cost: a row for each layer, or whatever else tasks were recorded for.
//!
//! A task that is for several (fused ones, and sums of gradients) counts for all of them together, in a row
//! of its own: how much of its time each of them took, nobody knows. So the rows add up to the whole.

use super::{Execution, Statistics, grouped};
use dahl_runtime::machine::Peaks;
use dahl_runtime::trace::Scene;

/// Executions of tasks that are for the same.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeRow {
    /// What they are for, in the order of [`Scene::scopes`]; empty if nobody said.
    pub scopes: Vec<String>,
    /// The kind of unit.
    pub unit: String,
    /// Their codelets, in the order of tasks.
    pub codelets: Vec<String>,
    /// Number of executions.
    pub n: usize,
    /// Seconds of all of them.
    pub seconds: f64,
    /// Share of the workers' time within steps.
    pub share: f64,
    /// Floating-point operations per second.
    pub flops_per_second: f64,
    /// Bytes per second, of those that its tasks move by definition.
    pub bytes_per_second: f64,
    /// The least time that the machine's measured peaks allow, as a share of the time it took.
    pub peak: Option<f64>,
}

impl ScopeRow {
    /// What they are for, as `conv1+relu1`; of long lists the first and the last, and how many there are.
    pub fn name(&self) -> String {
        let name = self.scopes.join("+");
        match self.scopes.as_slice() {
            [first, _, .., last] if name.chars().count() > LONGEST_NAME => {
                format!("{first}+…+{last} ({})", self.scopes.len())
            }
            _ => name,
        }
    }
}

/// Characters of a name that are shown.
const LONGEST_NAME: usize = 40;

impl Statistics<'_> {
    /// A row for each layer, or whatever else tasks were recorded for, largest share first.
    pub fn scope_rows(&self, peaks: Option<&Peaks>) -> Vec<ScopeRow> {
        let classes = self.classes(|task| &task.scopes);
        let key = |e: &Execution| (classes[e.task], self.unit(e.worker));
        let groups = grouped(&self.executions, key).into_values();
        // Classes are in the order of tasks, and sorting keeps it.
        let mut rows: Vec<ScopeRow> = groups.map(|group| self.scope_row(&group, peaks)).collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        rows
    }

    fn scope_row(&self, group: &[usize], peaks: Option<&Peaks>) -> ScopeRow {
        let group: Vec<&Execution> = group.iter().map(|&i| &self.executions[i]).collect();
        let scene: &Scene = &self.trace.scene;
        let mut tasks: Vec<usize> = group.iter().map(|e| e.task).collect();
        tasks.sort_unstable();
        let mut codelets: Vec<String> = Vec::new();
        for codelet in tasks.into_iter().map(|task| &scene.tasks[task].codelet) {
            if !codelets.contains(codelet) {
                codelets.push(codelet.clone());
            }
        }
        let seconds = group.iter().map(|e| e.seconds).sum();
        let rates = self.rates(&group, seconds, peaks);
        ScopeRow {
            scopes: scene.scopes_of(self.info(group[0])).map(str::to_string).collect(),
            unit: self.unit(group[0].worker).to_string(),
            codelets,
            n: group.len(),
            seconds,
            share: self.share(seconds),
            flops_per_second: rates.flops_per_second,
            bytes_per_second: rates.bytes_per_second,
            peak: rates.peak,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::By;
    use dahl_runtime::graph::ScopeId;
    use dahl_runtime::trace::{Event, TaskInfo, Trace, WorkerInfo};

    /// Tasks with these codelets and scopes on two workers of different kinds, ten executions of each.
    fn trace(tasks: &[(&str, &[usize])]) -> Trace {
        let worker = |kind: &str| WorkerInfo { kind: kind.into(), ..WorkerInfo::default() };
        let task = |(codelet, scopes): &(&str, &[usize])| TaskInfo {
            codelet: codelet.to_string(),
            implementation: "lanes".into(),
            dtype: "f32".into(),
            tile: (0, 1),
            bytes: 400,
            flops: 1000.0 * scopes.len() as f64,
            scopes: scopes.iter().map(|&scope| ScopeId(scope)).collect(),
            ..TaskInfo::default()
        };
        let scene = Scene {
            workers: vec![worker("cpu"), worker("test")],
            scopes: ["load", "conv1", "relu1"].map(String::from).to_vec(),
            tasks: tasks.iter().map(task).collect(),
            ..Scene::default()
        };
        let mut workers = vec![Vec::new(); 2];
        for step in 0..10 {
            for task in 0..tasks.len() as u32 {
                let start = 10_000 * u64::from(step) + 1000 * u64::from(task);
                let end = start + 100 * (u64::from(task) + 1);
                workers[(step % 2) as usize].push(Event { task, step, start, end });
            }
        }
        Trace { scene: scene.into(), workers, ticks_per_second: 1e9, ..Trace::default() }
    }

    #[test]
    fn rows_by_layer_add_up_to_those_by_codelet() {
        let trace = trace(&[
            ("load", &[0]),
            ("conv2d_relu", &[1, 2]),
            ("other", &[]),
            ("conv2d_dw", &[1]),
            ("reduce", &[1]),
            ("relu_backward", &[2]),
            ("conv2d_relu_dw", &[1, 2]),
        ]);
        let statistics = Statistics::of(&trace);
        let peaks = Peaks::nominal();
        let rows = statistics.scope_rows(Some(&peaks));
        let found: Vec<(String, &str, String, usize)> =
            rows.iter().map(|row| (row.name(), row.unit.as_str(), row.codelets.join(" "), row.n)).collect();
        let of = |name: &str, unit, codelets: &str, n| (name.to_string(), unit, codelets.to_string(), n);
        let expected: Vec<_> = [
            ("conv1+relu1", "conv2d_relu conv2d_relu_dw", 10),
            ("conv1", "conv2d_dw reduce", 10),
            ("relu1", "relu_backward", 5),
            ("", "other", 5),
            ("load", "load", 5),
        ]
        .into_iter()
        .flat_map(|(name, codelets, n)| ["cpu", "test"].map(|unit| of(name, unit, codelets, n)))
        .collect();
        assert_eq!(found, expected);

        let by_codelet = statistics.rows(By::Codelet, Some(&peaks));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs();
        let total = |of: &dyn Fn(&ScopeRow) -> f64| rows.iter().map(of).sum::<f64>();
        let expected = |of: &dyn Fn(&crate::stats::Row) -> f64| by_codelet.iter().map(of).sum::<f64>();
        assert_eq!(rows.iter().map(|row| row.n).sum::<usize>(), statistics.n_executions());
        assert!(near(total(&|row| row.seconds), statistics.kernel_seconds()));
        assert!(near(total(&|row| row.share), expected(&|row| row.share)));
        let flops = total(&|row| row.flops_per_second * row.seconds);
        assert!(near(flops, expected(&|row| row.flops_per_second * row.seconds)));
        let bytes = total(&|row| row.bytes_per_second * row.seconds);
        assert!(near(bytes, expected(&|row| row.bytes_per_second * row.seconds)));
        let least = total(&|row| row.peak.expect("peaks are known") * row.seconds);
        assert!(near(least, expected(&|row| row.peak.expect("peaks are known") * row.seconds)));
    }

    #[test]
    fn names_of_many_layers_are_shortened() {
        let mut row = Statistics::of(&trace(&[("sum", &[0, 1, 2])])).scope_rows(None).remove(0);
        assert_eq!(row.name(), "load+conv1+relu1");
        row.scopes = (1..=9).map(|i| format!("block{i}.conv")).collect();
        assert_eq!(row.name(), "block1.conv+…+block9.conv (9)");
        row.scopes = vec!["a name of a layer".repeat(3), "another one".into()];
        assert_eq!(row.name(), row.scopes.join("+"));
    }
}
