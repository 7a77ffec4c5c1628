//! What a rule of fusion says, and how it is written.

use super::Found;
use crate::codelet::Codelet;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// A rule: tasks that are looked for, and tasks that take their place. A `static` beside the fused codelet.
pub struct Fusion {
    /// What it is called in messages.
    pub name: &'static str,
    /// Tasks that must be there and stay.
    pub given: &'static [TaskPattern],
    /// Tasks that are removed.
    pub replaces: &'static [TaskPattern],
    /// Tasks that are put where the last of these stood; fewer than were removed.
    pub with: &'static [TaskPattern],
    /// Whether to do it, for shapes and parameters that were found and codes that the cut asks for: what the
    /// fused codelet cannot compute, or computes more slowly than the others together, stays as it is.
    pub when: fn(&Found) -> bool,
}

/// A task in a rule: a codelet, and names for its arguments and integer parameters.
///
/// Arguments are written in call order, as in `x w b -> y`. The same name is the same view of the same array
/// with the same contents, wherever it stands in a rule. Integer parameters are names too, or numbers, which
/// must be what is found. Tasks with floating-point parameters are not looked for.
pub struct TaskPattern {
    /// The operation.
    pub codelet: &'static Codelet,
    args: &'static str,
    ints: &'static str,
}

impl TaskPattern {
    /// A task of this codelet with these names.
    pub const fn new(codelet: &'static Codelet, args: &'static str, ints: &'static str) -> Self {
        TaskPattern { codelet, args, ints }
    }

    /// The names of inputs and outputs.
    pub(super) fn slots(&self) -> Result<(Vec<&'static str>, Vec<&'static str>)> {
        let Some((inputs, outputs)) = self.args.split_once("->") else {
            return Err(self.refuse("there is no '->' between inputs and outputs"));
        };
        let split = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
        Ok((split(inputs), split(outputs)))
    }

    /// The names of the integer parameters.
    pub(super) fn ints(&self) -> impl Iterator<Item = &'static str> {
        self.ints.split_whitespace()
    }

    fn refuse(&self, what: &str) -> Error {
        let (name, args, ints) = (self.codelet.name, self.args, self.ints);
        let message = format!("the pattern '{args}' with the parameters '{ints}' is none of {name}: {what}");
        Error::new(ErrorKind::Usage, message)
    }

    fn check(&self) -> Result<()> {
        let relation = self.codelet.relation();
        let (inputs, outputs) = self.slots()?;
        let n_outputs = relation.args().len() - relation.n_inputs();
        if (inputs.len(), outputs.len()) != (relation.n_inputs(), n_outputs) {
            return Err(
                self.refuse(&format!("it has {} inputs and {n_outputs} outputs", relation.n_inputs()))
            );
        }
        if self.ints().count() != relation.params().len() {
            return Err(self.refuse(&format!("it has the parameters {:?}", relation.params())));
        }
        Ok(())
    }
}

impl Fusion {
    /// Refuses a rule that is not well formed: a mistake in the program, which a test finds for every listed
    /// rule.
    pub fn check(&self) -> Result<()> {
        let fail = |what: String| Err(Error::new(ErrorKind::Usage, format!("fusion {}: {what}", self.name)));
        let found = self.given.iter().chain(self.replaces);
        found.clone().chain(self.with).try_for_each(TaskPattern::check)?;
        if self.with.len() >= self.replaces.len() {
            return fail("it must leave fewer tasks than it finds".to_string());
        }
        let (mut known, mut written, mut ints) = (Vec::new(), Vec::new(), Vec::new());
        for pattern in found {
            let (inputs, outputs) = pattern.slots()?;
            known.extend([&inputs[..], &outputs[..]].concat());
            ints.extend(pattern.ints());
        }
        for pattern in self.replaces {
            written.extend(pattern.slots()?.1);
        }
        for pattern in self.with {
            let (inputs, outputs) = pattern.slots()?;
            if let Some(slot) = inputs.iter().find(|slot| !known.contains(slot)) {
                return fail(format!("nothing that is found is called {slot}"));
            }
            if let Some(slot) = outputs.iter().find(|slot| !written.contains(slot)) {
                return fail(format!("no task that is removed writes {slot}"));
            }
            if let Some(int) = pattern.ints().find(|int| !ints.contains(int) && int.parse::<i64>().is_err()) {
                return fail(format!("no parameter that is found is called {int}"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Fusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |patterns: &[TaskPattern]| {
            patterns.iter().map(|pattern| pattern.codelet.name).collect::<Vec<_>>().join(" + ")
        };
        write!(f, "{}: {} => {}", self.name, names(self.replaces), names(self.with))
    }
}
