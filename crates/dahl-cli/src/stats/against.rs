//! `dahl stats A --against B` in words and as JSON.

use crate::output::{align, count};
use dahl_runtime::trace::Trace;
use dahl_trace::Statistics;
use dahl_trace::stats::{Against, Change, Match, Only};
use serde_json::{Value, json};
use std::path::Path;

/// What was found about two traces.
pub struct Found {
    names: [String; 2],
    steps: [f64; 2],
    against: Against,
}

/// Kinds that did not change, of which not more are listed.
const MOST_UNCHANGED: usize = 12;

impl Found {
    pub fn new(here: &Path, trace: &Trace, there: &Path, other: &Trace) -> Found {
        Found {
            names: [here, there].map(|path| path.display().to_string()),
            steps: [trace, other].map(|trace| trace.usage().median_step_seconds),
            against: Statistics::of(trace).against(&Statistics::of(other)),
        }
    }

    pub fn words(&self) -> String {
        let Against { common, noise, changes, only_here, only_there } = &self.against;
        let [here, there] = &self.names;
        let mut text = format!("A is {here}, B is {there}\n");
        if self.steps.iter().all(|&step| step > 0.0) {
            let [a, b] = self.steps;
            text.push_str(&format!(
                "a step takes {:.3} ms in A and {:.3} ms in B, {} in the median\n",
                1e3 * a,
                1e3 * b,
                times(a / b)
            ));
        }
        if changes.len() > 1 {
            text.push_str(&format!(
                "a codelet takes {} in A in the median, and tasks differ from that by {:.1} % commonly\n",
                times(*common),
                100.0 * (noise - 1.0)
            ));
        }
        let changed: Vec<&Change> = changes.iter().filter(|change| change.is_changed).collect();
        let unsure = changes.iter().filter(|change| change.interval.is_none()).count();
        text.push('\n');
        match changed.len() {
            0 if changes.is_empty() => {
                text.push_str("nothing in common: no two kinds of tasks are the same\n")
            }
            0 => text.push_str(&format!(
                "no change beyond noise in {} that both have\n",
                count(changes.len(), "kind") + " of tasks"
            )),
            n => text.push_str(&format!(
                "changed beyond noise: {n} of {} of tasks\n",
                count(changes.len(), "kind")
            )),
        }
        sentences(&changed, changes).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        if unsure > 0 {
            text.push_str(&format!("too few executions to say of {} of tasks\n", count(unsure, "kind")));
        }
        for (name, list) in [("A", only_here), ("B", only_there)] {
            if !list.is_empty() {
                text.push_str(&format!("\nonly in {name}\n"));
            }
            list.iter().for_each(|only| text.push_str(&format!("  {}\n", alone(only))));
        }
        if !changes.is_empty() {
            text.push('\n');
            text.push_str(&self.table());
        }
        text
    }

    /// The changed kinds, and the largest of the others.
    fn table(&self) -> String {
        let header = [
            "",
            "codelet",
            "implementation",
            "shape",
            "A µs",
            "B µs",
            "A/B",
            "between",
            "seen from",
            "share",
        ];
        let mut cells = vec![header.map(str::to_string).to_vec()];
        let changes = &self.against.changes;
        let n_changed = changes.iter().filter(|change| change.is_changed).count();
        for change in changes.iter().take(n_changed + MOST_UNCHANGED) {
            let between = change.interval.map(|(low, high)| format!("{low:.2} to {high:.2}"));
            cells.push(vec![
                if change.is_changed { "*" } else { "" }.to_string(),
                change.of.codelet.clone(),
                change.of.implementation.clone(),
                shape(&change.of),
                format!("{:.2}", 1e6 * change.median.0),
                format!("{:.2}", 1e6 * change.median.1),
                format!("{:.3}", change.ratio),
                between.unwrap_or_else(|| "-".to_string()),
                change.visible_from.map_or_else(|| "-".to_string(), |from| format!("{from:.2}")),
                format!("{:.1} %", 100.0 * change.share),
            ]);
        }
        let mut text = align(&cells, 4);
        text.push_str(
            "between: with 95 % for all of them together; seen from: the least factor that would count\n",
        );
        if changes.len() + 1 > cells.len() {
            let rest = changes.len() + 1 - cells.len();
            text.push_str(&format!("and {} of tasks that did not change\n", count(rest, "more kind")));
        }
        text
    }

    pub fn json(&self) -> Value {
        let of = |of: &Match| {
            json!({
                "codelet": of.codelet, "implementation": of.implementation, "unit": of.unit, "dtype": of.dtype,
                "shape": of.footprint, "cold": of.is_cold,
            })
        };
        let change = |it: &Change| {
            json!({
                "of": of(&it.of), "versions": it.versions, "counts": it.n, "median_seconds": it.median,
                "share": it.share, "ratio": it.ratio, "interval": it.interval, "changed": it.is_changed,
                "visible_from": it.visible_from,
            })
        };
        let only = |it: &Only| json!({ "of": of(&it.of), "count": it.n, "share": it.share });
        let Against { common, noise, changes, only_here, only_there } = &self.against;
        json!({
            "files": self.names,
            "median_step_seconds": self.steps,
            "common_ratio": common,
            "common_noise": noise,
            "changed": changes.iter().filter(|change| change.is_changed).count(),
            "changes": changes.iter().map(change).collect::<Vec<_>>(),
            "only_a": only_here.iter().map(only).collect::<Vec<_>>(),
            "only_b": only_there.iter().map(only).collect::<Vec<_>>(),
        })
    }
}

/// A ratio in words.
fn times(ratio: f64) -> String {
    match ratio {
        r if r > 1.005 => format!("{r:.2} times as long"),
        r if r < 0.995 => format!("{r:.2} of the time"),
        _ => "as long".to_string(),
    }
}

fn shape(of: &Match) -> String {
    format!("{} {}", of.footprint, if of.is_cold { "cold" } else { "warm" })
}

/// A sentence for each codelet and implementation some of whose tasks changed.
fn sentences(changed: &[&Change], all: &[Change]) -> Vec<String> {
    let is_same = |a: &Match, b: &Match| {
        (&a.codelet, &a.implementation, &a.unit) == (&b.codelet, &b.implementation, &b.unit)
    };
    let mut sentences = Vec::new();
    for (i, first) in changed.iter().enumerate() {
        if changed[..i].iter().any(|before| is_same(&before.of, &first.of)) {
            continue;
        }
        let group: Vec<&&Change> = changed.iter().filter(|it| is_same(&it.of, &first.of)).collect();
        let n_all = all.iter().filter(|it| is_same(&it.of, &first.of)).count();
        let how = |ratio: f64| match ratio > 1.0 {
            true => format!("{ratio:.2} times slower"),
            false => format!("{:.2} times faster", 1.0 / ratio),
        };
        let ratios = group.iter().map(|it| it.ratio);
        let (low, high) = (ratios.clone().fold(f64::MAX, f64::min), ratios.fold(0.0, f64::max));
        let (low, high) = (how(low), how(high));
        let how = if low == high { low } else { format!("{low} to {high}") };
        let versions = match first.versions {
            (a, b) if a != b => format!(", version {b} became {a}"),
            _ => String::new(),
        };
        let Match { codelet, implementation, .. } = &first.of;
        let of = format!("{} of {}", group.len(), count(n_all, "shape"));
        sentences.push(format!("{codelet} ({implementation}) is {how} in A, in {of}{versions}"));
    }
    sentences
}

fn alone(only: &Only) -> String {
    let Match { codelet, implementation, .. } = &only.of;
    let share = 100.0 * only.share;
    format!(
        "{codelet} ({implementation}) of {}: {}, {share:.1} % of its time",
        shape(&only.of),
        count(only.n, "execution")
    )
}
