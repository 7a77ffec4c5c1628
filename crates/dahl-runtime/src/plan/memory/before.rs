//! Which task comes before which within a step.
//!
//! Tasks are put into chains: the fixed tasks of each worker are one, and of all others each goes on with the
//! chain of a task it depends on, if that one is still the last of its chain. What comes before a task is
//! then a number for each chain: how far along it the last such task is. A table of these numbers would have
//! tasks × chains entries (in an open order every tile has chains of its own), but most of them are zero or
//! those of a predecessor. So they are trees that share whatever they have in common: a task costs about as
//! many nodes as it has predecessors that bring something new, times the logarithm of the number of chains,
//! and so does a question.

use super::super::nodes::Nodes;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::TaskId;
use std::collections::HashMap;

/// The order of tasks within a step.
pub(super) struct Before {
    /// The chain of each task, and its place there, counted from 1.
    places: Vec<(u32, u32)>,
    /// For each task, the tree of how far along each chain what comes before it reaches, itself included.
    reached: Vec<u32>,
    trees: Trees,
    /// The place of each task in two sequences that agree with the order: depth first, and depth first the
    /// other way round. Tasks that they order differently do not wait for each other. Between chunks of
    /// samples, that is all there is to know.
    ranks: [Vec<u32>; 2],
}

impl Before {
    /// The order that follows from the edges of a graph and, for a planned run, from what is fixed on each
    /// worker.
    pub fn new(nodes: &Nodes<'_>) -> Result<Self> {
        let Nodes { n, fixed, sequence, .. } = nodes;
        let n = *n;
        let edges = nodes.edges.iter().filter(|edge| edge.distance == 0);
        let pairs: Vec<(TaskId, TaskId)> = edges
            .map(|edge| (edge.from, edge.to))
            .chain(fixed.iter().flat_map(|order| order.windows(2).map(|pair| (pair[0], pair[1]))))
            .collect();
        let predecessors = Lists::new(n, pairs.iter().map(|&(from, to)| (to, from)));
        let successors = Lists::new(n, pairs.iter().copied());
        let (places, n_chains) = chains(fixed, sequence, &predecessors);
        let mut trees = Trees::new(n_chains);
        let mut merged = HashMap::new();
        let mut reached = vec![0; n];
        for &task in sequence {
            let mut root = 0;
            for &before in predecessors.of(task) {
                let (chain, place) = places[before as usize];
                if trees.get(root, chain) < place {
                    let other = reached[before as usize];
                    // Tasks that collect mostly collect from the same tasks as others do.
                    root = match merged.get(&(root, other)) {
                        Some(&known) => known,
                        None => {
                            let union = trees.merge(root, other)?;
                            merged.insert((root, other), union);
                            union
                        }
                    };
                }
            }
            let (chain, place) = places[task as usize];
            reached[task as usize] = trees.with(root, chain, place)?;
        }
        let ranks = [false, true].map(|is_mirrored| depth_first(&predecessors, &successors, is_mirrored));
        Ok(Before { places, reached, trees, ranks })
    }

    /// Whether `a` comes before `b`.
    pub fn is(&self, a: TaskId, b: TaskId) -> bool {
        let ((chain, place), (other, later)) = (self.places[a as usize], self.places[b as usize]);
        if chain == other {
            return place < later;
        }
        self.ranks.iter().all(|rank| rank[a as usize] < rank[b as usize])
            && self.trees.get(self.reached[b as usize], chain) >= place
    }

    /// The places of a task in two sequences; what comes before it stands before it in both.
    pub fn ranks(&self, task: TaskId) -> [u32; 2] {
        [0, 1].map(|i| self.ranks[i][task as usize])
    }
}

/// The chain and the place in it of each task, and the number of chains.
fn chains(fixed: &[Vec<TaskId>], sequence: &[TaskId], predecessors: &Lists) -> (Vec<(u32, u32)>, usize) {
    let mut places = vec![(0, 0); sequence.len()];
    let mut lengths: Vec<u32> = Vec::new();
    for order in fixed {
        for (i, &task) in order.iter().enumerate() {
            places[task as usize] = (lengths.len() as u32, i as u32 + 1);
        }
        lengths.push(order.len() as u32);
    }
    for &task in sequence {
        if places[task as usize].1 > 0 {
            continue;
        }
        let is_last =
            |&(chain, place): &(u32, u32)| chain as usize >= fixed.len() && lengths[chain as usize] == place;
        let mut before = predecessors.of(task).iter().map(|&before| places[before as usize]);
        let (chain, place) = before.find(is_last).unwrap_or((lengths.len() as u32, 0));
        places[task as usize] = (chain, place + 1);
        match lengths.get_mut(chain as usize) {
            Some(length) => *length = place + 1,
            None => lengths.push(1),
        }
    }
    (places, lengths.len())
}

/// The place of each task in a sequence that follows what a task makes possible before it turns to anything
/// else; first things first, or mirrored, last things first.
fn depth_first(predecessors: &Lists, successors: &Lists, is_mirrored: bool) -> Vec<u32> {
    let n = predecessors.len();
    let mut missing: Vec<usize> = (0..n).map(|task| predecessors.of(task as TaskId).len()).collect();
    let mut ready: Vec<TaskId> = (0..n as TaskId).filter(|&task| missing[task as usize] == 0).collect();
    if !is_mirrored {
        ready.reverse();
    }
    let (mut ranks, mut rank) = (vec![0; n], 0);
    while let Some(task) = ready.pop() {
        ranks[task as usize] = rank;
        rank += 1;
        let n_ready = ready.len();
        for &next in successors.of(task) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready.push(next);
            }
        }
        if !is_mirrored {
            ready[n_ready..].reverse();
        }
    }
    ranks
}

/// A list of tasks for each task.
struct Lists {
    starts: Vec<usize>,
    items: Vec<TaskId>,
}

impl Lists {
    fn new(n: usize, pairs: impl Iterator<Item = (TaskId, TaskId)> + Clone) -> Self {
        let mut starts = vec![0; n + 1];
        for (key, _) in pairs.clone() {
            starts[key as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let (mut ends, mut items) = (starts.clone(), vec![0; starts[n]]);
        for (key, item) in pairs {
            let end = &mut ends[key as usize];
            items[*end] = item;
            *end += 1;
        }
        Lists { starts, items }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, key: TaskId) -> &[TaskId] {
        &self.items[self.starts[key as usize]..self.starts[key as usize + 1]]
    }
}

/// Lists of numbers, one for each chain, as binary trees over the chains that are never changed: lists that
/// are made of others share nodes with them. The root 0 is the list of zeros.
struct Trees {
    height: u32,
    /// The two halves of each node: other nodes, or at the lowest level the numbers themselves.
    nodes: Vec<[u32; 2]>,
}

impl Trees {
    fn new(n_chains: usize) -> Self {
        Trees { height: n_chains.next_power_of_two().trailing_zeros().max(1), nodes: vec![[0, 0]] }
    }

    fn get(&self, root: u32, chain: u32) -> u32 {
        let half = |level: u32| (chain >> level & 1) as usize;
        (0..self.height).rev().fold(root, |node, level| self.nodes[node as usize][half(level)])
    }

    /// The list `root` with another number for one chain.
    fn with(&mut self, root: u32, chain: u32, number: u32) -> Result<u32> {
        self.with_below(root, self.height, chain, number)
    }

    fn with_below(&mut self, node: u32, height: u32, chain: u32, number: u32) -> Result<u32> {
        if height == 0 {
            return Ok(number);
        }
        let mut halves = self.nodes[node as usize];
        let half = &mut halves[(chain >> (height - 1) & 1) as usize];
        *half = self.with_below(*half, height - 1, chain, number)?;
        self.push(halves)
    }

    /// The larger number of two lists for each chain.
    fn merge(&mut self, a: u32, b: u32) -> Result<u32> {
        self.merge_below(a, b, self.height)
    }

    fn merge_below(&mut self, a: u32, b: u32, height: u32) -> Result<u32> {
        if a == b || b == 0 {
            return Ok(a);
        }
        if a == 0 {
            return Ok(b);
        }
        if height == 0 {
            return Ok(a.max(b));
        }
        let (own, other) = (self.nodes[a as usize], self.nodes[b as usize]);
        let left = self.merge_below(own[0], other[0], height - 1)?;
        let halves = [left, self.merge_below(own[1], other[1], height - 1)?];
        match halves {
            _ if halves == own => Ok(a),
            _ if halves == other => Ok(b),
            _ => self.push(halves),
        }
    }

    fn push(&mut self, halves: [u32; 2]) -> Result<u32> {
        let id = u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.try_reserve(1).is_ok());
        let id = id.ok_or_else(|| {
            let message = "there is not enough memory to plan a graph of so many tasks: use larger tiles or a smaller batch";
            Error::new(ErrorKind::Memory, message)
        })?;
        self.nodes.push(halves);
        Ok(id)
    }
}
