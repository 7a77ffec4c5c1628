//! What a device was given and has not reported, in the order in which it ends.
//!
//! Only the thread that drives the device adds to it and takes from it. What is oldest shows as being
//! executed, to traces and to the watchdog.

use super::{Device, Event};
use crate::error::Result;
use crate::graph::TaskId;
use crate::machine::MemoryId;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock};
use crate::trace::recorder::{MAX_BLOCKS, Recorder};
use crate::trace::ticks;
use std::collections::VecDeque;

/// What a device was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Given {
    /// A task.
    Task(TaskId),
    /// A copy of the plan, by its number among nodes.
    Copy { node: TaskId, block: usize, from: MemoryId },
    /// A copy that a task needs.
    Fetch { block: usize, from: MemoryId },
}

impl Given {
    /// The node that has ended with it.
    pub fn node(self) -> Option<TaskId> {
        match self {
            Given::Task(node) | Given::Copy { node, .. } => Some(node),
            Given::Fetch { .. } => None,
        }
    }

    fn begin(self, recorder: &Recorder, step: u64) {
        match self {
            Given::Task(task) => {
                recorder.begin(task, step);
            }
            Given::Copy { block, from, .. } | Given::Fetch { block, from } if block < MAX_BLOCKS => {
                recorder.begin_transfer(block, from, step);
            }
            _ => {}
        }
    }

    fn is_recorded(self) -> bool {
        match self {
            Given::Task(_) => true,
            Given::Copy { block, .. } | Given::Fetch { block, .. } => block < MAX_BLOCKS,
        }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    given: Given,
    step: u64,
    /// When it was given.
    given_at: u64,
    /// What it ends with; none where it has ended.
    event: Option<Event>,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// When the last one ended: the next one cannot have begun before.
    last_end: u64,
}

/// The work of a device that is under way.
pub(in crate::engine) struct Backlog {
    device: Arc<dyn Device>,
    /// How much may be under way.
    depth: usize,
    /// How much is.
    len: AtomicUsize,
    queue: Mutex<Queue>,
}

impl Backlog {
    /// Nothing is under way, of which there may be so many nodes, each with so many copies.
    pub fn new(device: &Arc<dyn Device>, depth: usize, most_copies: usize) -> Self {
        let entries = VecDeque::with_capacity(depth + most_copies + 1);
        let queue = Mutex::new(Queue { entries, last_end: 0 });
        Backlog { device: Arc::clone(device), depth, len: AtomicUsize::new(0), queue }
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Whether the device can be given one more node.
    pub fn has_room(&self) -> bool {
        self.len.load(Ordering::Relaxed) < self.depth
    }

    /// Whether anything is under way.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Something was given to the device, and ends with this event; without one it has ended.
    pub fn push(&self, recorder: &Recorder, given: Given, step: u64, event: Option<Event>) {
        let mut queue = lock(&self.queue);
        if queue.entries.is_empty() {
            given.begin(recorder, step);
        }
        queue.entries.push_back(Entry { given, step, given_at: ticks(), event });
        self.len.store(queue.entries.len(), Ordering::Relaxed);
    }

    /// Takes the oldest, if it has ended: what it was, its step, and how it ended.
    pub fn take_over(&self, recorder: &Recorder) -> Option<(Given, u64, Result<()>)> {
        if self.is_empty() {
            return None;
        }
        let Entry { given, step, given_at, event } = lock(&self.queue).entries.front().copied()?;
        let (times, outcome) = match event.map(|event| self.device.poll(event)) {
            None => (None, Ok(())),
            Some(Ok(None)) => return None,
            Some(Ok(Some(over))) => (over.times, Ok(())),
            Some(Err(error)) => (None, Err(error)),
        };
        let (start, end) = times.unwrap_or_else(|| (given_at, ticks()));
        let mut queue = lock(&self.queue);
        queue.entries.pop_front();
        if given.is_recorded() {
            let start = start.max(queue.last_end);
            queue.last_end = end.max(start);
            recorder.end_between(start, queue.last_end);
        }
        if let Some(next) = queue.entries.front() {
            next.given.begin(recorder, next.step);
        }
        self.len.store(queue.entries.len(), Ordering::Relaxed);
        Some((given, step, outcome))
    }
}
