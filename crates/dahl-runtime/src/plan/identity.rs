//! By what a plan knows the graph that it was made for: hashes of recorded and of lowered graphs.

use crate::graph::{BufferKind, Graph, Lowered, Role};
use crate::hash::Fingerprint;
use crate::words::escaped;
use std::fmt;

impl Fingerprint {
    /// The hash of a recorded graph: everything about it that a plan depends on.
    pub fn of_graph(graph: &Graph) -> Self {
        Fingerprint::of(Recorded(graph))
    }

    /// The hash of a lowered graph: its buffers, its tasks, what they touch and their scratch, from which
    /// everything else follows.
    pub fn of_lowered(lowered: &Lowered) -> Self {
        let mut hash = Fingerprint::start();
        let mut add = |number: usize| hash.add(number);
        add(lowered.depth());
        add(lowered.buffers().len());
        for buffer in lowered.buffers() {
            add(buffer.bytes);
            add(buffer.versions);
            // A plan keeps no room for state, and a place for each version of everything else.
            match buffer.kind {
                BufferKind::Temporary => add(0),
                BufferKind::Ring => add(1),
                BufferKind::State(id) => [2, id.0].into_iter().for_each(&mut add),
            }
        }
        for task in lowered.tasks() {
            add(task.scratch_bytes);
            add(task.accesses.len());
            for access in &task.accesses {
                let mode = usize::from(access.reads) + 2 * usize::from(access.writes);
                let numbers = [access.buffer, access.age, access.range.start, access.range.end, mode];
                numbers.into_iter().for_each(&mut add);
            }
            for place in &task.places {
                add(place.buffer.wrapping_shl(32) ^ place.offset);
                add(place.age);
            }
        }
        hash
    }
}

/// A recorded graph, written out.
struct Recorded<'a>(&'a Graph);

impl fmt::Display for Recorded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "depth {}", self.0.depth())?;
        for array in self.0.arrays() {
            let (name, role) = (escaped(&array.name), role(array.role));
            writeln!(f, "array {name} {}{} {role}", array.dtype, array.shape)?;
            if array.versions > 1 {
                writeln!(f, "versions {}", array.versions)?;
            }
        }
        for task in self.0.tasks() {
            writeln!(f, "task {} {} {}", escaped(task.codelet.name), escaped(task.codelet.line), task.dtype)?;
            for var in &task.args {
                writeln!(f, "arg {} {} {}{}", var.array, var.offset, var.dtype, var.shape)?;
                if var.age > 0 {
                    writeln!(f, "age {}", var.age)?;
                }
            }
            task.ints.iter().try_for_each(|int| writeln!(f, "int {int}"))?;
            // Bits, because numbers that differ must not look alike.
            task.scalars.iter().try_for_each(|scalar| writeln!(f, "scalar {:016x}", scalar.to_bits()))?;
        }
        Ok(())
    }
}

/// What an array is for, in a word.
pub(super) fn role(role: Role) -> String {
    match role {
        Role::Temporary => "temporary".into(),
        Role::Port => "port".into(),
        Role::Output => "output".into(),
        Role::State(id) => format!("state:{}", id.0),
    }
}
