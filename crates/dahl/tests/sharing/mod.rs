//! A check of memory plans that knows only the definition.

use dahl_runtime::graph::{BufferKind, Lowered};
use dahl_runtime::plan::Plan;

/// No two buffers share memory unless every task of the one comes before every task of the other: by edges,
/// or by the planned order of a worker, in which what floats has no place.
pub fn check_memory(lowered: &Lowered, plan: &Plan) {
    let memory = plan.memory();
    let n = lowered.tasks().len();
    let words = n.div_ceil(64);
    // A bit for every task that comes after each task.
    let mut after = vec![vec![0_u64; words]; n];
    let mut add = |from: u32, to: u32| after[from as usize][to as usize / 64] |= 1 << (to % 64);
    for edge in lowered.edges().iter().filter(|edge| edge.distance == 0) {
        add(edge.from, edge.to);
    }
    if let Some(placement) = plan.placement() {
        for order in &placement.order {
            let fixed: Vec<u32> =
                order.iter().copied().filter(|&task| !placement.is_floating(task)).collect();
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
    let mut users = vec![Vec::new(); lowered.buffers().len()];
    for (id, task) in lowered.tasks().iter().enumerate() {
        task.places.iter().for_each(|place| users[place.buffer].push(id));
    }
    let all_before = |first: &[usize], second: &[usize]| {
        first.iter().all(|&a| second.iter().all(|&b| comes_before(&after, a, b)))
    };
    let temporaries: Vec<(usize, usize, usize)> = (0..lowered.buffers().len())
        .filter(|&b| lowered.buffers()[b].kind == BufferKind::Temporary)
        .map(|b| (b, memory.offsets[b].expect("temporaries have a place"), lowered.buffers()[b].bytes))
        .collect();
    for (i, &(a, a_start, a_len)) in temporaries.iter().enumerate() {
        assert!(a_start + a_len <= memory.bytes);
        for &(b, b_start, b_len) in &temporaries[i + 1..] {
            let overlap = a_start < b_start + b_len && b_start < a_start + a_len;
            let separated = all_before(&users[a], &users[b]) || all_before(&users[b], &users[a]);
            assert!(!overlap || separated, "buffers {a} and {b} share memory");
        }
    }
}
