//! What is said about cores that other programs use.

use crate::output::warn;
use dahl::train::{Action, Notice};
use serde_json::{Value, json};

/// Lines about it in a run, at most: where programs come and go for hours, more are of no use.
const MAX_LINES: usize = 20;

/// What was noticed and told.
#[derive(Default)]
pub struct Told {
    n_lines: usize,
    /// Since the last epoch.
    newest: Vec<Notice>,
}

impl Told {
    /// Says what was noticed, and keeps it for the line of the epoch.
    pub fn add(&mut self, notice: Notice) {
        self.n_lines += 1;
        if self.n_lines <= MAX_LINES {
            warn(notice);
        }
        if self.n_lines == MAX_LINES {
            warn("more about busy cores is only told by --json");
        }
        self.newest.push(notice);
    }

    /// What was noticed since the last call.
    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.newest)
    }
}

/// Notices as JSON.
pub fn to_json(notices: &[Notice]) -> Value {
    let one = |notice: &Notice| {
        let Notice { worker, core, share, action } = notice;
        let mut line = json!({ "worker": worker, "core": core, "share": share, "action": action.name() });
        if let Action::Moved(other) = action {
            line["to"] = json!(other);
        }
        line
    };
    notices.iter().map(one).collect()
}
