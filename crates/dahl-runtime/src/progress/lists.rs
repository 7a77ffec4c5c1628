//! Lists with waits: what replay walks, made from placement and edges.
//!
//! What a node waits for on other workers is a position that their clocks must pass. Most such waits are
//! dropped here, because an earlier wait of the same worker implies them.

use crate::graph::{Edge, TaskId};

/// A task in a worker's list, or a copy, whose number follows the last task's.
pub(super) struct Entry {
    pub node: TaskId,
    /// Its index among the floating tasks, or [`FIXED`].
    pub float: u32,
    /// Its waits: from here to below there.
    pub waits: (u32, u32),
    /// Whether another worker waits for this task, so that the clock must be shown to it at once.
    pub published: bool,
}

/// The index of a task that does not float.
pub(super) const FIXED: u32 = u32::MAX;

/// What must have happened before a node of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// A worker's clock has passed a position in its list, `distance` steps before.
    Clock { worker: u32, position: u32, distance: u32 },
    /// A floating task is done, `distance` steps before.
    Float { float: u32, distance: u32 },
}

/// A task that any worker of its memory may execute.
pub(super) struct Loose {
    pub node: TaskId,
    /// The worker whose list it is in.
    pub home: usize,
    /// Its waits: from here to below there.
    pub waits: (u32, u32),
}

/// All lists of a plan.
pub(super) struct Lists {
    /// The list of each worker.
    pub lists: Vec<Vec<Entry>>,
    /// The floating tasks in them.
    pub floats: Vec<Loose>,
    /// The waits of all, one after the other.
    pub waits: Vec<Wait>,
    /// The worker and the position of each node.
    pub homes: Vec<(u32, u32)>,
}

impl Lists {
    /// The lists of all workers, and the floating tasks in them, which are given in ascending order.
    pub fn new(order: &[Vec<TaskId>], floating: &[TaskId], edges: &[Edge]) -> Self {
        let n = order.iter().map(Vec::len).sum();
        let mut homes = vec![(0, 0); n];
        for (worker, order) in (0..).zip(order) {
            for (position, &node) in (0..).zip(order) {
                homes[node as usize] = (worker, position);
            }
        }
        let float_of = |node: TaskId| floating.binary_search(&node).ok().map(|float| float as u32);
        let mut incoming: Vec<Vec<Wait>> = vec![Vec::new(); n];
        for &Edge { from, to, distance, .. } in edges {
            let (worker, position) = homes[from as usize];
            match (float_of(from), float_of(to)) {
                (None, None) if worker == homes[to as usize].0 => {}
                (None, _) => incoming[to as usize].push(Wait::Clock { worker, position, distance }),
                (Some(float), _) => incoming[to as usize].push(Wait::Float { float, distance }),
            }
        }
        let lengths: Vec<i64> = order.iter().map(|order| order.len() as i64).collect();
        let mut found = Lists { lists: Vec::new(), floats: Vec::new(), waits: Vec::new(), homes };
        for order in order {
            let fixed = order.iter().filter(|&&node| float_of(node).is_none());
            let mut needed = Needed::new(&lengths, fixed.flat_map(|&node| &incoming[node as usize]));
            let entry = |&node: &TaskId| match float_of(node) {
                // Whoever takes it may not have waited for anything before.
                Some(float) => Entry { node, float, waits: (0, 0), published: false },
                None => {
                    let waits = found.add(needed.reduce(&incoming[node as usize]));
                    Entry { node, float: FIXED, waits, published: false }
                }
            };
            let list = order.iter().map(entry).collect();
            found.lists.push(list);
        }
        for &node in floating {
            let home = found.homes[node as usize].0 as usize;
            let waits = found.add(std::mem::take(&mut incoming[node as usize]));
            found.floats.push(Loose { node, home, waits });
        }
        for wait in &found.waits {
            if let Wait::Clock { worker, position, .. } = *wait {
                found.lists[worker as usize][position as usize].published = true;
            }
        }
        found
    }

    fn add(&mut self, waits: Vec<Wait>) -> (u32, u32) {
        let first = self.waits.len() as u32;
        self.waits.extend(waits);
        (first, self.waits.len() as u32)
    }
}

/// What a worker knows to have happened, so that it need not wait for it again.
struct Needed<'a> {
    lengths: &'a [i64],
    /// The highest level waited for so far, per worker.
    reached: Vec<i64>,
    /// The floating tasks waited for in this step, with the least distance.
    floats: Vec<(u32, u32)>,
}

impl<'a> Needed<'a> {
    /// Before the first task of a step: the whole previous step has been waited for.
    fn new<'w>(lengths: &'a [i64], waits: impl Iterator<Item = &'w Wait>) -> Self {
        let mut needed = Needed { reached: vec![i64::MIN; lengths.len()], floats: Vec::new(), lengths };
        for wait in waits {
            if let Wait::Clock { worker, .. } = *wait {
                let before = needed.level(wait) - lengths[worker as usize];
                needed.reached[worker as usize] = needed.reached[worker as usize].max(before);
            }
        }
        needed
    }

    /// What a wait asks of the other worker's clock, relative to the current step.
    fn level(&self, wait: &Wait) -> i64 {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                i64::from(position) - i64::from(distance) * self.lengths[worker as usize]
            }
            Wait::Float { .. } => 0,
        }
    }

    /// The waits of the next task that earlier ones do not imply.
    fn reduce(&mut self, waits: &[Wait]) -> Vec<Wait> {
        let mut kept = Vec::new();
        for other in 0..self.lengths.len() {
            let of_other =
                |wait: &&Wait| matches!(wait, Wait::Clock { worker, .. } if *worker as usize == other);
            let strongest = waits.iter().filter(of_other).max_by_key(|wait| self.level(wait));
            if let Some(wait) = strongest.filter(|wait| self.level(wait) > self.reached[other]) {
                self.reached[other] = self.level(wait);
                kept.push(*wait);
            }
        }
        for wait in waits {
            let Wait::Float { float, distance } = *wait else { continue };
            if !self.floats.iter().any(|&(known, nearest)| known == float && nearest <= distance) {
                self.floats.push((float, distance));
                kept.push(*wait);
            }
        }
        kept
    }
}
