//! Why workers idled, found out from what happened.
//!
//! A gap of a worker ends with a task (and the copies made for it). What the task waited for is known: the
//! release of its step, and every task that an edge leads from. If the step was released within the gap, the
//! worker waited for the program until then. If one of the predecessors ended within the gap, the one that
//! ended last is what the worker waited for until then. What remains of a gap is the runtime's own: choosing,
//! waking up, recording, or a core that the system gave to somebody else; unless another worker was copying
//! into the same memory.

use super::{Dispatch, Trace, Transfer};
use crate::graph::{Edge, EdgeKind, TaskId};
use std::collections::HashMap;

/// Why a worker idled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its next task, as planned, needed the result of another task.
    Dependency,
    /// No task was ready (in schedules where workers take what is ready).
    NothingReady,
    /// Its next task needed memory that another task was still using for something else.
    Memory,
    /// Data was copied between memories.
    Transfer,
    /// The program had not let the step begin.
    NotReleased,
    /// Nothing kept the task from starting: the runtime took this long, or the system was busy elsewhere.
    Overhead,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 6] = [
        Reason::Dependency,
        Reason::NothingReady,
        Reason::Memory,
        Reason::Transfer,
        Reason::NotReleased,
        Reason::Overhead,
    ];

    /// The reason in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Dependency => "dependency",
            Reason::NothingReady => "nothing ready",
            Reason::Memory => "memory edge",
            Reason::Transfer => "transfer",
            Reason::NotReleased => "not released",
            Reason::Overhead => "overhead",
        }
    }
}

/// A stretch of time in which a worker executed no kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Start in clock ticks.
    pub start: u64,
    /// End in clock ticks.
    pub end: u64,
    /// Why.
    pub reason: Reason,
    /// The task that the worker executed next, and its step.
    pub before: (TaskId, u32),
    /// The task that was waited for, and its step.
    pub awaited: Option<(TaskId, u32)>,
    /// What was copied, where that is the reason and this worker did it.
    pub transfer: Option<Transfer>,
}

/// When what ended, and what leads where.
struct Known<'a> {
    trace: &'a Trace,
    ends: HashMap<(TaskId, u32), u64>,
    incoming: Vec<Vec<&'a Edge>>,
}

impl Trace {
    /// Why each worker idled, in order. Time before a worker's first event is not explained: what came before
    /// is not in the trace.
    pub fn idle(&self) -> Vec<Vec<Idle>> {
        let events = self.workers.iter().flatten();
        let mut incoming = vec![Vec::new(); self.scene.tasks.len()];
        for edge in &self.scene.edges {
            incoming[edge.to as usize].push(edge);
        }
        let ends = match self.scene.edges.is_empty() {
            true => HashMap::new(),
            false => events.map(|event| ((event.task, event.step), event.end)).collect(),
        };
        let known = Known { trace: self, ends, incoming };
        (0..self.workers.len()).map(|worker| known.of_worker(worker)).collect()
    }
}

impl Known<'_> {
    fn of_worker(&self, worker: usize) -> Vec<Idle> {
        let no_transfers = Vec::new();
        let transfers = self.trace.transfers.get(worker).unwrap_or(&no_transfers);
        let mut transfers = transfers.iter().peekable();
        let mut gaps = Vec::new();
        let mut free: Option<u64> = None;
        for event in &self.trace.workers[worker] {
            let gap = |start, end, reason| Idle {
                start,
                end,
                reason,
                before: (event.task, event.step),
                awaited: None,
                transfer: None,
            };
            let mut waited = false;
            while let Some(transfer) = transfers.next_if(|transfer| transfer.start < event.start) {
                match free {
                    Some(free) if waited => {
                        self.rest(gap(free, transfer.start, Reason::Overhead), worker, &mut gaps)
                    }
                    Some(free) => {
                        self.explain(gap(free, transfer.start, Reason::Overhead), worker, &mut gaps)
                    }
                    None => {}
                }
                let copy = gap(transfer.start, transfer.end, Reason::Transfer);
                gaps.push(Idle { transfer: Some(*transfer), ..copy });
                free = Some(transfer.end);
                waited = true;
            }
            if let Some(free) = free {
                let gap = gap(free, event.start, Reason::Overhead);
                if waited { self.rest(gap, worker, &mut gaps) } else { self.explain(gap, worker, &mut gaps) }
            }
            free = Some(event.end);
        }
        gaps
    }

    /// Divides a gap by what was waited for.
    fn explain(&self, gap: Idle, worker: usize, gaps: &mut Vec<Idle>) {
        let mut from = gap.start;
        let mut push = |until: u64, reason: Reason, awaited| {
            let end = until.min(gap.end);
            if end > from {
                gaps.push(Idle { start: from, end, reason, awaited, ..gap });
                from = end;
            }
        };
        let (task, step) = gap.before;
        let releases = &self.trace.releases;
        let release = releases.get(releases.partition_point(|release| release.steps <= u64::from(step)));
        // A release after the task began is another one: the one that let it begin is no longer remembered.
        if let Some(release) = release.filter(|release| release.ticks <= gap.end) {
            push(release.ticks, Reason::NotReleased, None);
        }
        if let Some((edge, end)) = self.last_predecessor(task, step) {
            let is_data = |other: &&Edge| {
                (other.from, other.distance, other.kind) == (edge.from, edge.distance, EdgeKind::Data)
            };
            let needs_result = self.incoming[task as usize].iter().any(is_data);
            let reason = match (needs_result, self.trace.scene.dispatch) {
                (false, _) => Reason::Memory,
                (true, Dispatch::Planned) => Reason::Dependency,
                (true, _) => Reason::NothingReady,
            };
            push(end, reason, Some((edge.from, step.wrapping_sub(edge.distance))));
        }
        if self.trace.scene.dispatch == Dispatch::Submitted {
            // Whether it was submitted late or had to wait for others is not known.
            push(gap.end, Reason::NothingReady, None);
        }
        self.rest(Idle { start: from, ..gap }, worker, gaps);
    }

    /// The predecessor that ended last, if its end is in the trace.
    fn last_predecessor(&self, task: TaskId, step: u32) -> Option<(&Edge, u64)> {
        let end = |edge: &&Edge| {
            let before = step.checked_sub(edge.distance)?;
            self.ends.get(&(edge.from, before)).copied()
        };
        let ended = self.incoming.get(task as usize)?.iter().filter_map(|edge| Some((*edge, end(edge)?)));
        ended.max_by_key(|(_, end)| *end)
    }

    /// What is left of a gap: another worker's copies into this worker's memory, and the runtime itself.
    fn rest(&self, gap: Idle, worker: usize, gaps: &mut Vec<Idle>) {
        let scene = &self.trace.scene;
        let memory = scene.workers.get(worker).map(|worker| worker.memory);
        let mut from = gap.start;
        let others = self.trace.transfers.iter().enumerate().filter(|(other, _)| *other != worker);
        let mut copies: Vec<(u64, u64)> = others
            .flat_map(|(_, transfers)| {
                let first = transfers.partition_point(|transfer| transfer.end <= gap.start);
                transfers[first..].iter().take_while(|transfer| transfer.start < gap.end)
            })
            .filter(|transfer| Some(transfer.to) == memory)
            .map(|transfer| (transfer.start.max(gap.start), transfer.end.min(gap.end)))
            .collect();
        copies.sort_unstable();
        for (start, end) in copies {
            if start > from {
                gaps.push(Idle { start: from, end: start, ..gap });
            }
            if end > from {
                gaps.push(Idle { start: start.max(from), end, reason: Reason::Transfer, ..gap });
                from = end;
            }
        }
        if gap.end > from {
            gaps.push(Idle { start: from, ..gap });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Release, Scene, TaskInfo, WorkerInfo};
    use std::sync::Arc;

    fn edge(from: TaskId, to: TaskId, distance: u32, kind: EdgeKind) -> Edge {
        Edge { from, to, distance, kind }
    }

    /// Tasks 0 and 2 on worker 0, task 1 on worker 1; 2 needs 1, and 1 in the next step reuses memory of 2.
    fn trace(dispatch: Dispatch) -> Trace {
        let scene = Scene {
            dispatch,
            workers: vec![WorkerInfo::default(), WorkerInfo { memory: 1, ..WorkerInfo::default() }],
            memories: vec!["host".into(), "memory 1".into()],
            tasks: vec![TaskInfo::default(); 3],
            edges: vec![edge(1, 2, 0, EdgeKind::Data), edge(2, 1, 1, EdgeKind::Memory)],
            ..Scene::default()
        };
        let event = |task, step, start, end| Event { task, step, start, end };
        Trace {
            scene: Arc::new(scene),
            workers: vec![
                vec![event(0, 0, 0, 10), event(2, 0, 31, 40), event(0, 1, 60, 70)],
                vec![event(1, 0, 0, 30), event(1, 1, 45, 50)],
            ],
            transfers: vec![Vec::new(); 3],
            releases: vec![Release { steps: 1, ticks: 0 }, Release { steps: 2, ticks: 35 }],
            ticks_per_second: 1.0,
            ..Trace::default()
        }
    }

    fn reasons(gaps: &[Idle]) -> Vec<(u64, u64, Reason)> {
        gaps.iter().map(|gap| (gap.start, gap.end, gap.reason)).collect()
    }

    #[test]
    fn the_predecessor_that_ended_last_is_the_reason() {
        let idle = trace(Dispatch::Planned).idle();
        assert_eq!(
            reasons(&idle[0]),
            [(10, 30, Reason::Dependency), (30, 31, Reason::Overhead), (40, 60, Reason::Overhead)]
        );
        assert_eq!((idle[0][0].before, idle[0][0].awaited), ((2, 0), Some((1, 0))));
        // First the program, then task 2, whose memory task 1 takes over, then the runtime.
        let expected = [(30, 35, Reason::NotReleased), (35, 40, Reason::Memory), (40, 45, Reason::Overhead)];
        assert_eq!(reasons(&idle[1]), expected);
        assert_eq!(idle[1][1].awaited, Some((2, 0)));
    }

    #[test]
    fn where_workers_take_what_is_ready_nothing_was_ready() {
        let idle = trace(Dispatch::Open).idle();
        assert_eq!(reasons(&idle[0])[0], (10, 30, Reason::NothingReady));
        assert_eq!(reasons(&idle[1])[1], (35, 40, Reason::Memory));
    }

    #[test]
    fn an_edge_for_data_and_memory_is_one_for_data() {
        let mut trace = trace(Dispatch::Planned);
        let scene = Arc::make_mut(&mut trace.scene);
        scene.edges.push(edge(2, 1, 1, EdgeKind::Data));
        assert_eq!(reasons(&trace.idle()[1])[1], (35, 40, Reason::Dependency));
    }

    #[test]
    fn copies_are_reasons_of_their_own_and_others_wait_for_them() {
        let mut trace = trace(Dispatch::Planned);
        let copy = |to, start, end| Transfer { to, start, end, ..Transfer::default() };
        trace.transfers[1] = vec![copy(1, 41, 44)];
        trace.transfers[2] = vec![copy(0, 50, 55)];
        let idle = trace.idle();
        let expected = [
            (30, 35, Reason::NotReleased),
            (35, 40, Reason::Memory),
            (40, 41, Reason::Overhead),
            (41, 44, Reason::Transfer),
            (44, 45, Reason::Overhead),
        ];
        assert_eq!(reasons(&idle[1]), expected);
        assert!(idle[1][3].transfer.is_some());
        // The program copied into the host's memory meanwhile.
        let last = [(40, 50, Reason::Overhead), (50, 55, Reason::Transfer), (55, 60, Reason::Overhead)];
        assert_eq!(reasons(&idle[0])[2..], last);
    }

    #[test]
    fn every_tick_between_the_first_and_the_last_event_is_explained_once() {
        let trace = trace(Dispatch::Planned);
        for (events, gaps) in trace.workers.iter().zip(trace.idle()) {
            let mut at = events[0].end;
            let mut gaps = gaps.iter().peekable();
            for event in &events[1..] {
                while let Some(gap) = gaps.next_if(|gap| gap.before == (event.task, event.step)) {
                    assert_eq!(gap.start, at);
                    at = gap.end;
                }
                assert_eq!(event.start, at);
                at = event.end;
            }
        }
    }
}
