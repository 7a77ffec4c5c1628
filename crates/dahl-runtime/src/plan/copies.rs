//! The copies between memories that a planned order needs.
//!
//! Who computes what is known, so where each block is valid after each task follows from the order, and with
//! it what must be copied where, just as the memory edges follow from offsets. A copy is made by the unit of
//! the first task that needs it, right before that task, and waits for whatever that task waits for. Others
//! in the same memory wait for the copy.
//!
//! Copies are the same in every step. So they are found for a step in the middle of a run, by going through
//! the order again and again until what is valid at the end of a step does not change. A run begins with all
//! state, and whatever earlier steps would have left, in every memory that reads it; what the first step
//! copies beyond that is what is there already.

use super::Placement;
use crate::graph::{Blocks, Edge, EdgeKind, Lowered, Role, TaskId, Use};
use crate::machine::{HOST, Machine, MemoryId};

/// A copy of a block from one memory to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// What is copied: a number among the [blocks](Lowered::blocks) of the graph.
    pub block: usize,
    /// Which version: that of the step so many steps before.
    pub age: usize,
    /// Where it is read.
    pub from: MemoryId,
    /// Where it is written.
    pub to: MemoryId,
    /// The task right before which it is made, by the same unit.
    pub before: TaskId,
}

/// The copies of a planned order. Beside tasks, edges have copies at their ends: the number of a copy follows
/// the last task's.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// What copies and `valid` speak of.
    pub blocks: Blocks,
    pub copies: Vec<Copy>,
    /// What waits for copies, and what copies wait for.
    pub edges: Vec<Edge>,
    /// For each block and age, the memories in which it is valid at the end of a step, as bits.
    pub valid: Vec<Vec<u32>>,
}

/// Where a version of a block is valid, and what made it so.
#[derive(Clone, Default)]
struct Valid {
    memories: u32,
    /// Of those memories that a copy brought it to, the copy and the pass in which it was made.
    copied: Vec<(MemoryId, usize, usize)>,
}

impl Valid {
    fn only(memories: u32) -> Valid {
        Valid { memories, copied: Vec::new() }
    }

    fn is_in(&self, memory: MemoryId) -> bool {
        self.memories >> memory & 1 == 1
    }
}

/// Finds the copies of a placement.
pub(super) fn find(lowered: &Lowered, placement: &Placement, machine: &Machine) -> Copies {
    if machine.memories.len() == 1 {
        return Copies::default();
    }
    let blocks = lowered.blocks();
    let workers = placement.workers();
    let memory_of = |task: TaskId| machine.units[workers[task as usize]].memory;
    let mut uses: Vec<Vec<(usize, TaskId, Use)>> = vec![Vec::new(); blocks.blocks.len()];
    for (place, &task) in placement.sequence.iter().enumerate() {
        for &used in &blocks.uses[task as usize] {
            uses[used.block].push((place, task, used));
        }
    }
    let is_port = ports(lowered);
    let mut found = Copies { valid: Vec::with_capacity(uses.len()), ..Copies::default() };
    // Copies of all blocks, each with the place in the sequence of the task that it is made for, the number
    // that it has in its block, and the edges from it: to what, and how many steps later.
    let mut drafts: Vec<Draft> = Vec::new();
    for (block, uses) in uses.iter().enumerate() {
        let buffer = blocks.blocks[block].buffer;
        let is_read_in =
            |memory: MemoryId| uses.iter().any(|(_, task, used)| used.reads && memory_of(*task) == memory);
        let readers = (0..machine.memories.len()).filter(|&memory| is_read_in(memory));
        let begin = readers.fold(1 << HOST, |memories, memory| memories | 1 << memory);
        let is_written = uses.iter().any(|(.., used)| used.writes);
        let versions = lowered.buffers[buffer].versions;
        let mut walk = Walk {
            machine,
            block,
            // What no task writes is the same for all steps.
            advances: versions > 1 && (is_written || is_port[buffer]),
            is_port: is_port[buffer],
            valid: vec![Valid::only(begin); versions],
            drafts: Vec::new(),
        };
        // As many steps as versions settle what is valid where; in as many more, all copies that anybody
        // refers to are those of such a step.
        (0..2 * versions + 3).for_each(|pass| walk.step(pass, uses, memory_of));
        found.valid.push(walk.valid.iter().map(|valid| valid.memories).collect());
        let first = drafts.len();
        drafts.extend(walk.drafts.into_iter().map(|mut draft| {
            draft.edges.iter_mut().for_each(|edge| edge.shift(first));
            draft
        }));
    }
    number(lowered, drafts, &mut found);
    found.blocks = blocks;
    found
}

/// For each buffer, whether the program fills it.
fn ports(lowered: &Lowered) -> Vec<bool> {
    let mut ports = vec![false; lowered.buffers.len()];
    lowered
        .rings
        .iter()
        .flatten()
        .filter(|(_, role)| *role == Role::Port)
        .for_each(|(buffer, _)| ports[*buffer] = true);
    ports
}

/// A copy that was found, and who waits for it.
struct Draft {
    place: usize,
    copy: Copy,
    edges: Vec<To>,
}

/// Who waits for a copy, so many steps later.
#[derive(Clone, Copy)]
enum To {
    Task(TaskId, usize),
    Copy(usize, usize),
}

impl To {
    /// Numbers among the copies of a block become numbers among all.
    fn shift(&mut self, first: usize) {
        if let To::Copy(copy, _) = self {
            *copy += first;
        }
    }
}

/// One block on its way through the steps of a run.
struct Walk<'a> {
    machine: &'a Machine,
    block: usize,
    /// Whether every step has a version of its own.
    advances: bool,
    is_port: bool,
    /// By age.
    valid: Vec<Valid>,
    /// The copies of the last step that was gone through.
    drafts: Vec<Draft>,
}

impl Walk<'_> {
    fn step(&mut self, pass: usize, uses: &[(usize, TaskId, Use)], memory_of: impl Fn(TaskId) -> MemoryId) {
        self.drafts.clear();
        if self.advances {
            self.valid.rotate_right(1);
            self.valid[0] = Valid::only(1 << HOST);
        } else if self.is_port {
            self.valid[0] = Valid::only(1 << HOST);
        }
        for &(place, task, used) in uses {
            let memory = memory_of(task);
            // What no task writes has one value, whatever its age.
            let age = if self.advances { used.age } else { 0 };
            if used.reads {
                self.read(pass, place, task, (used.age, age), memory);
            }
            if used.writes {
                self.valid[age] = Valid::only(1 << memory);
            }
        }
    }

    /// Makes a version valid in a memory for a task.
    fn read(
        &mut self,
        pass: usize,
        place: usize,
        task: TaskId,
        (age, slot): (usize, usize),
        memory: MemoryId,
    ) {
        if !self.valid[slot].is_in(memory) {
            let is_source = |&from: &MemoryId| self.valid[slot].is_in(from);
            let mut sources = (0..self.machine.memories.len()).filter(is_source);
            match sources.clone().find(|&from| self.machine.link(from, memory).is_some()) {
                Some(from) => self.copy(pass, place, task, (age, slot), from, memory),
                // Every memory is linked to the host's.
                None => {
                    let from = sources.next().unwrap_or(HOST);
                    self.copy(pass, place, task, (age, slot), from, HOST);
                    self.copy(pass, place, task, (age, slot), HOST, memory);
                }
            }
        }
        self.wait(pass, slot, memory, To::Task(task, 0));
    }

    fn copy(
        &mut self,
        pass: usize,
        place: usize,
        before: TaskId,
        (age, slot): (usize, usize),
        from: MemoryId,
        to: MemoryId,
    ) {
        let number = self.drafts.len();
        self.wait(pass, slot, from, To::Copy(number, 0));
        let copy = Copy { block: self.block, age, from, to, before };
        self.drafts.push(Draft { place, copy, edges: Vec::new() });
        let valid = &mut self.valid[slot];
        valid.memories |= 1 << to;
        valid.copied.push((to, number, pass));
    }

    /// Notes that somebody needs what a copy brought to a memory, if one did. Copies are the same in every
    /// step, so one of an earlier pass has the number that it has in this one.
    fn wait(&mut self, pass: usize, slot: usize, memory: MemoryId, who: To) {
        let copied = self.valid[slot].copied.iter().find(|(to, ..)| *to == memory);
        let Some(&(_, number, made)) = copied else { return };
        let later = pass - made;
        let edge = match who {
            To::Task(task, _) => To::Task(task, later),
            To::Copy(copy, _) => To::Copy(copy, later),
        };
        // In the first passes there are fewer copies; the last one is what counts.
        if let Some(draft) = self.drafts.get_mut(number) {
            draft.edges.push(edge);
        }
    }
}

/// Gives copies their numbers, in the order in which they are made, and collects their edges.
fn number(lowered: &Lowered, mut drafts: Vec<Draft>, found: &mut Copies) {
    let n_tasks = lowered.tasks.len() as TaskId;
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|&draft| drafts[draft].place);
    let mut number_of = vec![0; drafts.len()];
    for (number, &draft) in order.iter().enumerate() {
        number_of[draft] = n_tasks + number as TaskId;
    }
    for &draft in &order {
        let (from, edges) = (number_of[draft], std::mem::take(&mut drafts[draft].edges));
        for to in edges {
            let (to, distance) = match to {
                To::Task(task, later) => (task, later),
                To::Copy(copy, later) => (number_of[copy], later),
            };
            found.edges.push(Edge { from, to, distance: distance as u32, kind: EdgeKind::Data });
        }
        found.copies.push(drafts[draft].copy.clone());
    }
    // A copy waits for what its task waits for.
    let mut copies_of: Vec<Vec<TaskId>> = vec![Vec::new(); n_tasks as usize];
    for (number, copy) in (n_tasks..).zip(&found.copies) {
        copies_of[copy.before as usize].push(number);
    }
    for edge in &lowered.edges {
        found.edges.extend(copies_of[edge.to as usize].iter().map(|&to| Edge { to, ..*edge }));
    }
    found.edges.sort_unstable();
    found.edges.dedup();
}
