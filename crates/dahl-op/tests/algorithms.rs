//! Kernels of convolutions choose algorithms by themselves: keys name them, and estimates do not mix them.

use dahl_op as op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::codelet::Codelet;
use dahl_runtime::graph::Cut;
use dahl_runtime::graph::{Graph, Var, lower};
use dahl_runtime::perf::{Basis, Condition, Date, Key, Models, Run, RunId, Summary};

const WARM: Condition = Condition { is_cold: false, workers: 1 };

/// The keys of a convolution's tasks, all samples in one tile: of the codelet from these shapes to the last.
fn keys(codelet: &'static Codelet, dtype: Dtype, shapes: &[&[usize]], ints: &[i64]) -> Vec<Key> {
    let mut graph = Graph::new(1);
    let (output, inputs) = shapes.split_last().expect("an output");
    let inputs: Vec<Var> = inputs.iter().map(|&shape| graph.port("x", dtype, Shape::new(shape))).collect();
    let outputs = [graph.temporary("y", dtype, Shape::new(output))];
    graph.task(codelet, dtype, &inputs, &outputs, ints, &[]).unwrap();
    let options = op::default_cut();
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
    let tasks = lowered.tasks().iter().filter(|task| task.codelet == codelet.name);
    tasks.map(|task| Key::of_task(task, "cpu")).collect()
}

/// The key of a convolution of 3x3 or 5x5 taps with as much padding as keeps the size.
fn conv2d(n: usize, channels: [usize; 2], size: usize, taps: usize) -> Key {
    let [c, k] = channels;
    let shapes: [&[usize]; 4] = [&[n, c, size, size], &[k, c, taps, taps], &[k], &[n, k, size, size]];
    keys(&op::conv2d::CODELET, Dtype::F32, &shapes, &[1, taps as i64 / 2]).swap_remove(0)
}

#[test]
fn keys_name_the_algorithm_that_the_kernel_takes() {
    for (key, word) in [
        (conv2d(16, [3, 8], 16, 3), "direct"),
        (conv2d(16, [32, 32], 16, 3), "winograd3"),
        (conv2d(16, [1, 6], 28, 5), "winograd5"),
        (conv2d(1, [3, 8], 16, 3), "small_batch"),
        (conv2d(16, [1, 2], 28, 17), "reference"),
    ] {
        assert_eq!(key.algorithm, word, "{key}");
        assert!(["lanes", "flat"].contains(&key.implementation.as_str()), "{key}");
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    let of = |codelet, shapes: &[&[usize]]| {
        let keys = keys(codelet, Dtype::F32, shapes, &[1, 2]);
        keys.into_iter().map(|key| key.algorithm).collect::<Vec<_>>()
    };
    let (x, w, y): (&[usize], &[usize], &[usize]) = (&[16, 6, 14, 14], &[16, 6, 5, 5], &[16, 16, 14, 14]);
    assert_eq!(of(&op::conv2d_dw::CODELET, &[x, y, w]), ["winograd5"]);
    assert_eq!(of(&op::conv2d_dx::CODELET, &[y, w, x]), ["winograd5_scattered"]);
    assert_eq!(of(&op::relu_conv2d_dx::CODELET, &[y, w, x, x]), ["winograd5_scattered"]);
    // What has no choice has no word.
    let relu = keys(&op::relu::CODELET, Dtype::F32, &[x, x], &[]).swap_remove(0);
    assert_eq!(relu.algorithm, "");
}

#[test]
fn the_rest_of_a_batch_may_take_another_algorithm() {
    // Lanes for 16 of 17 samples, and the last one by itself, or all of them in one tile.
    let x: &[usize] = &[17, 3, 16, 16];
    let shapes: [&[usize]; 4] = [x, &[8, 3, 3, 3], &[8], &[17, 8, 16, 16]];
    let mut words: Vec<String> = Vec::new();
    for key in keys(&op::conv2d::CODELET, Dtype::F32, &shapes, &[1, 1]) {
        words.extend(key.algorithm.split('+').map(String::from));
    }
    words.sort();
    words.dedup();
    assert_eq!(words, ["direct", "small_batch"]);
}

#[test]
fn estimates_across_shapes_do_not_mix_algorithms() {
    let mut models = Models::new();
    let add = |models: &mut Models, key: Key, flops: f64, seconds: f64| {
        let summary = Summary::of(&[seconds; 100]).expect("a hundred executions");
        let run = Run { id: RunId(1), date: Date(1), summary };
        models.add(key, flops, 4096, WARM, run);
    };
    // The direct convolution takes ten times as long per operation.
    for (channels, flops) in [(8, 1e6), (12, 1.5e6), (16, 2e6)] {
        add(&mut models, conv2d(16, [channels, 32], 16, 3), flops, 1e-9 * flops);
    }
    for (channels, flops) in [(32, 4e6), (48, 6e6), (64, 8e6)] {
        add(&mut models, conv2d(16, [channels, 32], 16, 3), flops, 1e-10 * flops);
    }
    for (channels, seconds) in [(20, 2.5e-3), (40, 5e-4)] {
        let estimate =
            models.estimate(&conv2d(16, [channels, 32], 16, 3), WARM, channels as f64 * 1.25e5, 4096);
        let is_from_three =
            matches!(estimate.basis, Basis::Ratio { n: 3, .. } | Basis::Regression { n: 3, .. });
        assert!(is_from_three && (estimate.seconds / seconds - 1.0).abs() < 0.01, "{channels}: {estimate:?}");
    }
    // An algorithm of which nothing is known is not estimated by the others.
    let unknown = models.estimate(&conv2d(16, [1, 6], 28, 5), WARM, 1e6, 4096);
    assert_eq!(unknown.basis, Basis::Guess);
}
