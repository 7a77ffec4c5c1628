//! The tasks of a graph while a rule is applied to it: in order, by codelet, and by the arrays that they
//! touch.
//!
//! A removed task keeps its number and leaves the order; new tasks have new numbers. So an application costs
//! what it changes, and not what the graph has.

use super::super::{Graph, Recorded, Var};
use crate::codelet::relation::Mode;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tasks by their place in the order.
type Places = BTreeSet<(u64, usize)>;

/// Room between neighbours, for tasks that are put between them; little in tests, so that it runs out.
const GAP: u64 = if cfg!(test) { 3 } else { 1 << 32 };

/// Which tasks there are, and where.
#[derive(Default)]
pub(super) struct Index {
    /// The place of every task that ever was.
    places: Vec<u64>,
    /// The tasks that are there, by their place.
    order: BTreeMap<u64, usize>,
    by_codelet: HashMap<&'static str, Places>,
    /// For each array, the tasks that touch it, and those of them that write it.
    users: HashMap<usize, Places>,
    writers: HashMap<usize, Places>,
}

impl Index {
    /// The tasks of a graph in the order of recording.
    pub fn new(graph: &Graph) -> Self {
        let mut index = Index::default();
        for (task, recorded) in graph.tasks.iter().enumerate() {
            index.insert(task, recorded, (task as u64 + 1) * GAP);
        }
        index
    }

    /// The place of a task in the order.
    pub fn place(&self, task: usize) -> u64 {
        self.places[task]
    }

    /// Whether a task is still there.
    pub fn has(&self, task: usize) -> bool {
        self.order.get(&self.places[task]) == Some(&task)
    }

    /// All tasks of a codelet, in order.
    pub fn of_codelet(&self, name: &str) -> impl Iterator<Item = usize> {
        self.by_codelet.get(name).into_iter().flatten().map(|&(_, task)| task)
    }

    /// The number of tasks that touch an array.
    pub fn n_users(&self, array: usize) -> usize {
        self.users.get(&array).map_or(0, BTreeSet::len)
    }

    /// The tasks that touch an array, in order.
    pub fn users(&self, array: usize) -> impl DoubleEndedIterator<Item = usize> {
        self.users_between(array, 0, u64::MAX)
    }

    /// Those of them behind one place and before another.
    pub fn users_between(&self, array: usize, from: u64, to: u64) -> impl DoubleEndedIterator<Item = usize> {
        between(self.users.get(&array), from, to)
    }

    /// The tasks before a place that write an array, in order.
    pub fn writers_before(&self, array: usize, place: u64) -> impl DoubleEndedIterator<Item = usize> {
        between(self.writers.get(&array), 0, place)
    }

    /// The tasks that are there, in order.
    pub fn into_order(self) -> impl Iterator<Item = usize> {
        self.order.into_values()
    }

    /// So many free places right before a place, if there is room.
    pub fn free_places(&self, n: usize, before: u64) -> Option<Vec<u64>> {
        let last = self.order.range(..before).next_back().map_or(0, |(&place, _)| place);
        let step = (before - last) / (n as u64 + 1);
        (step > 0).then(|| (1..=n as u64).map(|i| last + i * step).collect())
    }

    /// Puts a task with a new number into a free place.
    pub fn insert(&mut self, task: usize, recorded: &Recorded, place: u64) {
        self.places.resize(self.places.len().max(task + 1), 0);
        self.places[task] = place;
        self.order.insert(place, task);
        self.for_lists(recorded, |list| {
            list.insert((place, task));
        });
    }

    /// Takes a task out.
    pub fn remove(&mut self, task: usize, recorded: &Recorded) {
        let place = self.places[task];
        self.order.remove(&place);
        self.for_lists(recorded, |list| {
            list.remove(&(place, task));
        });
    }

    fn for_lists(&mut self, recorded: &Recorded, mut change: impl FnMut(&mut Places)) {
        change(self.by_codelet.entry(recorded.codelet.name).or_default());
        for var in &recorded.args {
            change(self.users.entry(var.array).or_default());
        }
        for var in writes(recorded) {
            change(self.writers.entry(var.array).or_default());
        }
    }
}

fn between(places: Option<&Places>, from: u64, to: u64) -> impl DoubleEndedIterator<Item = usize> {
    let range = (from + 1, 0)..(to.max(from + 1), 0);
    places.into_iter().flat_map(move |places| places.range(range.clone())).map(|&(_, task)| task)
}

/// What a task reads.
pub(super) fn reads(recorded: &Recorded) -> impl Iterator<Item = &Var> {
    let declared = recorded.codelet.relation().args();
    recorded.args.iter().zip(declared).filter(|(_, arg)| arg.mode != Mode::Write).map(|(var, _)| var)
}

/// What a task writes.
pub(super) fn writes(recorded: &Recorded) -> impl Iterator<Item = &Var> {
    let declared = recorded.codelet.relation().args();
    recorded.args.iter().zip(declared).filter(|(_, arg)| arg.mode != Mode::Read).map(|(var, _)| var)
}
