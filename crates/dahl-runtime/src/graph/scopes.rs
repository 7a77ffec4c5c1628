//! What tasks are recorded for: scopes, which are names that the program gives, such as those of layers.
//!
//! A recorded task belongs to the scope that was set when it was recorded, or to none; a fused task to those
//! of all tasks that it stands for; a tile to those of its recorded task. What lowering inserts belongs to
//! whom it serves: a copy to the task that reads it (the first, if several do), a sum to the tasks whose
//! partial results it adds.
//!
//! Scopes are for people: traces and reports tell them. Plans, fingerprints, keys of measurements and bits do
//! not depend on them.

use std::collections::{BTreeSet, HashMap};

/// Index of a scope in [`Graph::scopes`](super::Graph::scopes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeId(pub usize);

/// The scopes of a graph, numbered in the order in which they were first named.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    names: Vec<String>,
    numbers: HashMap<String, ScopeId>,
}

impl Scopes {
    /// The number of the scope of this name, which is a new one if it is not known.
    pub fn number(&mut self, name: &str) -> ScopeId {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        let new = ScopeId(self.names.len());
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), new);
        new
    }

    /// The names, in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// All of these scopes, each once, in order.
pub(super) fn union<'a>(lists: impl IntoIterator<Item = &'a [ScopeId]>) -> Vec<ScopeId> {
    lists.into_iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect()
}
