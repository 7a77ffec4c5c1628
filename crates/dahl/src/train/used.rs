//! What a run planned to take of each memory, and what it took.

use dahl_runtime::engine::{Store, Workspace};
use dahl_runtime::machine::{HOST, MemoryId};

/// Memory that is taken together and given back together: what was planned, and what of it was touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// What it is for.
    pub name: String,
    /// The memory that it is taken from.
    pub memory: MemoryId,
    /// Bytes that were planned.
    pub planned_bytes: usize,
    /// Bytes that were touched, in whole pages; none where the system does not tell.
    pub resident_bytes: Option<usize>,
}

/// The arenas of a run: the store, what `copies` of what training changes take, and the workspace of all
/// steps in every memory.
pub(super) fn arenas(
    store: &Store,
    workspace: &Workspace,
    n_memories: usize,
    copies: (usize, Option<usize>),
) -> Vec<ArenaUse> {
    let arena = |name: &str, memory, (planned_bytes, resident_bytes)| ArenaUse {
        name: name.to_string(),
        memory,
        planned_bytes,
        resident_bytes,
    };
    let state = (store.bytes(), store.resident_bytes());
    let mut found = vec![arena("weights, optimiser and data", HOST, state)];
    found.push(arena("copy of what training changes", HOST, copies));
    for memory in 0..n_memories {
        found.push(arena("steps, in turn", memory, workspace.memory_use(memory)));
        if memory != HOST {
            let bytes = store.replica_bytes(memory);
            found.push(arena("copies of weights, optimiser and data", memory, (bytes, Some(bytes))));
        }
    }
    found
}
