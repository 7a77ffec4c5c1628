//! What passes between the start of the command and the end of its first training step.

use dahl::train::Report;
use serde_json::{Value, json};
use std::time::Instant;

/// When the command began, and what is known since then, in seconds.
pub struct Startup {
    begun: Instant,
    read: f64,
    /// From the beginning to the end of the first step.
    all: Option<f64>,
}

impl Startup {
    /// Of a command that began then.
    pub fn since(begun: Instant) -> Startup {
        Startup { begun, read: 0.0, all: None }
    }

    /// Does something that reads the data.
    pub fn reading<R>(&mut self, read: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = read();
        self.read += start.elapsed().as_secs_f64();
        result
    }

    /// A step is over.
    pub fn step(&mut self) {
        if self.all.is_none() {
            self.all = Some(self.begun.elapsed().as_secs_f64());
        }
    }

    /// In words, if there was a step.
    pub fn words(&self, report: &Report) -> Option<String> {
        let [all, read, plan, step] = [self.all?, self.read, report.startup.plan, report.startup.first_step]
            .map(|seconds| format!("{:.1} ms", 1e3 * seconds));
        Some(format!("after {all}: {read} to read the data, {plan} to plan, {step} for the step"))
    }

    /// As a JSON object.
    pub fn json(&self, report: &Report) -> Value {
        json!({
            "seconds": self.all,
            "read": self.read,
            "plan": report.startup.plan,
            "first_step": report.startup.first_step,
        })
    }
}
