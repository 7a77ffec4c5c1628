//! A check of memory plans that knows only the definition.

use dahl_runtime::graph::{BufferKind, Lowered};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;

/// No two buffers share memory unless everything that touches the one comes before everything that touches
/// the other: by edges, or by the planned order of a worker, in which what floats has no place.
pub fn check_memory(lowered: &Lowered, plan: &Plan, machine: &Machine) {
    let n_tasks = lowered.tasks().len();
    let n = n_tasks + plan.copies().len();
    let words = n.div_ceil(64);
    // A bit for every task that comes after each task.
    let mut after = vec![vec![0_u64; words]; n];
    let mut add = |from: u32, to: u32| after[from as usize][to as usize / 64] |= 1 << (to % 64);
    for edge in plan.edges(lowered).iter().filter(|edge| edge.distance == 0) {
        add(edge.from, edge.to);
    }
    if let Some(placement) = plan.placement() {
        for order in &placement.order {
            let mut fixed: Vec<u32> = Vec::new();
            for &task in order {
                let is_its = |(_, copy): &(usize, &dahl_runtime::plan::Copy)| copy.before == task;
                let copies = plan.copies().iter().enumerate().filter(is_its);
                fixed.extend(copies.map(|(copy, _)| (n_tasks + copy) as u32));
                fixed.extend(Some(task).filter(|&task| !placement.is_floating(task)));
            }
            fixed.windows(2).for_each(|pair| add(pair[0], pair[1]));
        }
    }
    let comes_before = |after: &[Vec<u64>], a: usize, b: usize| after[a][b / 64] >> (b % 64) & 1 == 1;
    for k in 0..n {
        let after_k = after[k].clone();
        for task in 0..n {
            if comes_before(&after, task, k) {
                after[task].iter_mut().zip(&after_k).for_each(|(word, through_k)| *word |= through_k);
            }
        }
    }
    let workers = plan.placement().map(|placement| placement.workers());
    let blocks = lowered.blocks().blocks;
    let all_before = |first: &[usize], second: &[usize]| {
        first.iter().all(|&a| second.iter().all(|&b| comes_before(&after, a, b)))
    };
    for (id, memory) in plan.memories().iter().enumerate() {
        let is_there =
            |task: usize| workers.as_ref().is_none_or(|workers| machine.units[workers[task]].memory == id);
        let mut users = vec![Vec::new(); lowered.buffers().len()];
        for (task, info) in lowered.tasks().iter().enumerate().filter(|(task, _)| is_there(*task)) {
            info.places.iter().for_each(|place| users[place.buffer].push(task));
        }
        for (copy, info) in plan.copies().iter().enumerate() {
            if info.from == id || info.to == id {
                users[blocks[info.block].buffer].push(n_tasks + copy);
            }
        }
        for (buffer, users) in users.iter().enumerate() {
            let is_state = matches!(lowered.buffers()[buffer].kind, BufferKind::State(_));
            assert!(users.is_empty() || is_state || memory.offsets[buffer].is_some(), "it has no place");
        }
        let temporaries: Vec<(usize, usize, usize)> = (0..lowered.buffers().len())
            .filter(|&b| lowered.buffers()[b].kind == BufferKind::Temporary)
            .filter_map(|b| Some((b, memory.offsets[b]?, lowered.buffers()[b].bytes * lowered.versions(b))))
            .collect();
        for (i, &(a, a_start, a_len)) in temporaries.iter().enumerate() {
            assert!(a_start + a_len <= memory.bytes);
            for &(b, b_start, b_len) in &temporaries[i + 1..] {
                let overlap = a_start < b_start + b_len && b_start < a_start + a_len;
                let separated = all_before(&users[a], &users[b]) || all_before(&users[b], &users[a]);
                // What has several versions is in use from step to step.
                let separated = separated && [a, b].iter().all(|&b| lowered.versions(b) == 1);
                assert!(!overlap || separated, "buffers {a} and {b} share memory {id}");
            }
        }
    }
}
