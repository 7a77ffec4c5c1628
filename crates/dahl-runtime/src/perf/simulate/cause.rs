//! Why a simulated execution did not start earlier.
//!
//! This explains a run that has happened, and decides nothing: of what an execution needed, the last to be
//! there is its cause. Who starts later than everything it needed has waited for something else: a worker
//! that came to a floating task, which another one then took. It could go on when it heard of an end, so that
//! end is the cause.

use super::{Execution, Order, Setup};
use crate::graph::EdgeKind;
use crate::schedule::longest_distance;

/// Why an execution did not start earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing came before it.
    Start,
    /// Its worker was busy with the one before it.
    Worker,
    /// It needed data, or had to wait with overwriting them.
    Data,
    /// Its data lie where others lay.
    Memory,
    /// So many steps were under way that its own could not begin.
    Depth,
}

/// No execution.
const NONE: u32 = u32::MAX;

/// What is remembered to find causes.
pub(super) struct Causes {
    /// What each node waits for, one after the other: node, distance, kind.
    incoming: Vec<(u32, u32, EdgeKind)>,
    /// Where the edges of each node begin.
    first: Vec<u32>,
    floating: Vec<bool>,
    depth: usize,
    wait_seconds: f64,
    /// The execution of each node in the newest steps, each step in a row of its own.
    executed: Vec<u32>,
    n_rows: usize,
    /// The last execution of each worker.
    last: Vec<Option<usize>>,
    /// The last execution of each step to end.
    step_lasts: Vec<Option<usize>>,
    /// The end that each idle worker has heard of last.
    heard: Vec<Option<usize>>,
}

impl Causes {
    pub fn new(setup: &Setup<'_>, n_steps: usize) -> Self {
        let n_nodes = setup.order.n_nodes();
        let mut edges: Vec<_> = setup.edges.iter().map(|e| (e.to, e.from, e.distance, e.kind)).collect();
        edges.sort_unstable_by_key(|&(to, ..)| to);
        let before = |node: usize| edges.partition_point(|&(to, ..)| (to as usize) < node) as u32;
        let mut floating = vec![false; n_nodes];
        if let Order::Planned { floating: tasks, .. } = &setup.order {
            tasks.iter().for_each(|&task| floating[task as usize] = true);
        }
        let n_rows = n_steps.min(setup.depth.max(1) + longest_distance(setup.edges) + 1);
        Causes {
            first: (0..=n_nodes).map(before).collect(),
            incoming: edges.into_iter().map(|(_, from, distance, kind)| (from, distance, kind)).collect(),
            floating,
            depth: setup.depth.max(1),
            wait_seconds: setup.costs.wait_seconds,
            executed: vec![NONE; n_rows * n_nodes],
            n_rows,
            last: vec![None; setup.memories.len()],
            step_lasts: vec![None; n_steps],
            heard: vec![None; setup.memories.len()],
        }
    }

    fn cell(&self, step: usize, node: usize) -> usize {
        step % self.n_rows * self.floating.len() + node
    }

    /// The execution of a node in one of the newest steps.
    pub fn execution(&self, step: usize, node: usize) -> Option<usize> {
        let index = self.executed[self.cell(step, node)];
        (index != NONE).then_some(index as usize)
    }

    /// What an execution that starts now waited for last. Being busy goes before waiting, where both end at
    /// once.
    pub fn of(
        &self,
        executions: &[Execution],
        worker: usize,
        node: usize,
        step: usize,
        now: f64,
    ) -> (Option<usize>, Why) {
        // When a worker hears of an end; if it looked earlier by chance, then.
        let heard = |index: usize, why: Why| {
            let Execution { end, worker: by, .. } = executions[index];
            let wait = if by == worker { 0.0 } else { self.wait_seconds };
            (f64::min(end + wait, now), index, why)
        };
        let busy = self.last[worker].map(|last| (executions[last].end, last, Why::Worker));
        let depth = step.checked_sub(self.depth).and_then(|before| self.step_lasts[before]);
        let depth = depth.map(|last| heard(last, Why::Depth));
        let edges = self.first[node] as usize..self.first[node + 1] as usize;
        let needed = self.incoming[edges].iter().filter_map(|&(from, distance, kind)| {
            let index = self.execution(step.checked_sub(distance as usize)?, from as usize)?;
            Some(heard(index, if kind == EdgeKind::Data { Why::Data } else { Why::Memory }))
        });
        // A task that floats may still be under way elsewhere for the step before.
        let before = step.checked_sub(1).filter(|_| self.floating[node]);
        let itself = before.and_then(|before| self.execution(before, node));
        let itself = itself.map(|index| heard(index, Why::Data));
        let mut latest: Option<(f64, usize, Why)> = None;
        for candidate in busy.into_iter().chain(needed).chain(itself).chain(depth) {
            if latest.is_none_or(|latest| candidate.0 > latest.0) {
                latest = Some(candidate);
            }
        }
        let is_late = latest.is_none_or(|(time, ..)| time < now);
        match (latest, self.heard[worker].filter(|_| is_late)) {
            (_, Some(index)) => (Some(index), Why::Data),
            (Some((_, index, why)), None) => (Some(index), why),
            (None, None) => (None, Why::Start),
        }
    }

    /// A worker begins an execution.
    pub fn begin(&mut self, worker: usize, node: usize, step: usize, index: usize) {
        let cell = self.cell(step, node);
        self.executed[cell] = index as u32;
        self.last[worker] = Some(index);
    }

    /// An execution of a step has ended.
    pub fn end(&mut self, step: usize, index: usize) {
        self.step_lasts[step] = Some(index);
    }

    /// A worker without work hears of an end.
    pub fn hear(&mut self, worker: usize, index: usize) {
        self.heard[worker] = Some(index);
    }

    /// A worker has looked around.
    pub fn forget_news(&mut self, worker: usize) {
        self.heard[worker] = None;
    }
}
