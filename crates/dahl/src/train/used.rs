//! What a run planned to take of each memory, and what it took.

use super::run::Prepared;
use dahl_runtime::engine::{MemoryUse, Store};
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

/// The arenas of a run: the store, ports and temporaries of every step, and `copies` of what training changes.
pub(super) fn arenas<'a>(
    store: &Store,
    steps: impl Iterator<Item = (&'static str, &'a Prepared)>,
    copies: (usize, Option<usize>),
) -> Vec<ArenaUse> {
    let arena = |name: &str, memory, planned_bytes, resident_bytes| ArenaUse {
        name: name.to_string(),
        memory,
        planned_bytes,
        resident_bytes,
    };
    let mut found = vec![arena("weights, optimiser and data", HOST, store.bytes(), store.resident_bytes())];
    found.push(arena("copy of what training changes", HOST, copies.0, copies.1));
    for (what, step) in steps {
        let what = format!("{what} step of {}", step.n);
        for MemoryUse {
            memory,
            planned_bytes,
            resident_bytes,
            ring_bytes,
            ring_resident_bytes,
            copy_bytes,
        } in step.session.memory_use()
        {
            let temporary = planned_bytes.saturating_sub(ring_bytes + copy_bytes);
            let resident =
                resident_bytes.zip(ring_resident_bytes).map(|(all, rings)| all.saturating_sub(rings));
            found.push(arena(&format!("{what}: ports and outputs"), memory, ring_bytes, ring_resident_bytes));
            let rest = if copy_bytes > 0 { "temporaries and copies of state" } else { "temporaries" };
            found.push(arena(&format!("{what}: {rest}"), memory, temporary + copy_bytes, resident));
        }
    }
    found
}
