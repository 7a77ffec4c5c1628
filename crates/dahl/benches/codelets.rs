//! What each codelet of the `seed` model (conv 8×3×3, ReLU, max pool 2, dense 10 on 28×28 images) takes on
//! one core per tile of one group of samples:
//! `cargo bench -p dahl --bench codelets -- [f64] [avx2] [reference] [names of codelets]`. After them come
//! shapes of `lenet5`, `vggish` and `mlp`, and odd ones.
//!
//! Prints the median time and a quick one (of the fastest twentieth, which other programs on the machine
//! disturbed least), and for the median the rates of arithmetic and of data, each with its fraction of the
//! peak: of fused multiply-adds, and of reading from the nearest cache that holds all arguments; both are
//! measured first. Arguments are warm in the cache, as far as they fit; ReLU and its gradient run in place,
//! as they do in a training step.

use dahl::measure::{Effort, machine};
use dahl::op::CODELETS;
use dahl::op::simd::{Isa, fma_peak};
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::{Draw, Needs};
use dahl_runtime::conformance::{Arg, Prepared, Settings};
use dahl_runtime::machine::Hardware;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let dtype = if arguments.iter().any(|a| a == "f64") { Dtype::F64 } else { Dtype::F32 };
    let name = if arguments.iter().any(|a| a == "reference") { "reference" } else { "lanes" };
    let isa = Isa::available()
        .into_iter()
        .find(|isa| arguments.iter().any(|a| *a == isa.to_string()))
        .unwrap_or_else(Isa::current);
    let only: Vec<&str> =
        CODELETS.iter().map(|c| c.name).filter(|c| arguments.iter().any(|a| a == c)).collect();
    isa.force(|| bench(name, dtype, &only));
}

fn bench(name: &str, dtype: Dtype, only: &[&str]) {
    let peak = fma_peak(dtype);
    let n = if dtype == Dtype::F32 { 16 } else { 8 };
    println!("{name} {dtype} {}, tile of {n} samples, peak {:.1} GFLOP/s", Isa::current(), peak / 1e9);
    let effort = Effort { n_rounds: 3, round: Duration::from_millis(10) };
    let peaks =
        machine(&Hardware::detect(), effort, |_, _, _| {}).expect("the machine can be measured").peaks(1);
    for level in &peaks.levels {
        println!("{:<6} {:7.1} GB/s", level.name, level.bytes_per_second / 1e9);
    }
    println!(
        "{:18} {:>9} {:>9} {:>9} {:>7} {:>9} {:>7}",
        "codelet", "median µs", "quick µs", "GFLOP/s", "peak", "GB/s", "peak"
    );
    let mut total = (0.0, 0.0);
    let n_seed = seed_calls(n).len();
    let calls = seed_calls(n).into_iter().chain(other_calls(n)).chain(convolutions(n));
    for (number, seed) in calls.enumerate() {
        if !only.is_empty() && !only.contains(&seed.codelet) {
            continue;
        }
        let codelet = CODELETS.iter().find(|codelet| codelet.name == seed.codelet).expect("a listed codelet");
        let needs = codelet.implementation(name, dtype).expect("both implementations").needs;
        let mut random = Draw::new(1);
        let mut bytes = 0;
        let mut args = Vec::new();
        for (i, (kind, extent)) in seed.args.iter().enumerate() {
            let layout = match needs {
                Needs::Layouts(layouts) => layouts[i],
                Needs::Nothing => Layout::RowMajor,
            };
            let element = match kind {
                'b' => Dtype::U8,
                'i' => Dtype::U32,
                _ => dtype,
            };
            let mut arg = Arg::whole(element, layout, extent);
            let len: usize = extent.iter().product();
            let value = |i: usize| match kind {
                't' => random.unit(),
                'p' if i % 2 == 1 => 0.0,
                'p' => random.unit(),
                _ => random.below(4) as f64,
            };
            let values: Vec<f64> = (0..len).map(value).collect();
            arg.fill(&values);
            // The data set is not read as a whole, only the images of the tile.
            bytes += if seed.codelet.starts_with("load") && i == 0 { 0 } else { len * element.bytes() };
            args.push(arg);
        }
        let settings =
            Settings { n_inputs: seed.n_inputs, ints: &seed.ints, scalars: &[255.0], accumulate: false };
        let mut prepared = Prepared::new(codelet, name, dtype, args, &settings);
        if seed.codelet.starts_with("relu") {
            prepared.share(seed.n_inputs - 1, seed.n_inputs);
        }
        let (seconds, quick) = measure(|| prepared.run().expect("the kernel runs"));
        let flops = seed.points as f64 * codelet.flops_per_point;
        if number < n_seed {
            total = (total.0 + seconds, total.1 + quick);
        }
        let (rate, level) = (bytes as f64 / seconds, peaks.level(bytes, false));
        let (of, from) =
            level.map_or((f64::INFINITY, ""), |level| (level.bytes_per_second, level.name.as_str()));
        let shapes: Vec<String> = seed.args.iter().map(|(_, shape)| extents(shape)).collect();
        println!(
            "{:18} {:9.2} {:9.2} {:9.1} {:6.0}% {:9.1} {:6.0}% {from:4} {}",
            seed.codelet,
            seconds * 1e6,
            quick * 1e6,
            flops / seconds / 1e9,
            100.0 * flops / seconds / peak,
            rate / 1e9,
            100.0 * rate / of,
            shapes.join(" ")
        );
    }
    if only.is_empty() {
        println!("{:18} {:9.2} {:9.2}", "all of seed", total.0 * 1e6, total.1 * 1e6);
    }
}

/// A shape in a few characters.
fn extents(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// One call: per argument its kind (`t` compute type, `p` the same with every other column zero, as behind a
/// pool, `b` bytes, `i` indices) and shape.
struct Trial {
    codelet: &'static str,
    args: Vec<(char, Vec<usize>)>,
    n_inputs: usize,
    ints: Vec<i64>,
    /// Points of the iteration space.
    points: usize,
}

fn call(
    codelet: &'static str,
    args: &[(char, &[usize])],
    n_inputs: usize,
    ints: &[i64],
    points: usize,
) -> Trial {
    let args = args.iter().map(|(kind, extent)| (*kind, extent.to_vec())).collect();
    Trial { codelet, args, n_inputs, ints: ints.to_vec(), points }
}

fn seed_calls(n: usize) -> Vec<Trial> {
    let (image, conv, pooled) = ([n, 1, 28, 28], [n, 8, 26, 26], [n, 8, 13, 13]);
    let (conv_len, pooled_len) = (n * 8 * 26 * 26, n * 8 * 13 * 13);
    let (x, y) = ([n, 1352], [n, 10]);
    let (w, n_parameters) = ([10, 1352], 8 * 9 + 8 + 13520 + 10);
    vec![
        call("load", &[('b', &[64, 1, 28, 28]), ('i', &[n]), ('t', &image)], 2, &[], n * 784),
        call("load_labels", &[('b', &[64]), ('i', &[n]), ('b', &[n])], 2, &[], n),
        call(
            "conv2d",
            &[('t', &image), ('t', &[8, 1, 3, 3]), ('t', &[8]), ('t', &conv)],
            3,
            &[1, 0],
            conv_len * 9,
        ),
        call("relu", &[('t', &conv), ('t', &conv)], 1, &[], conv_len),
        call("max_pool", &[('t', &conv), ('t', &pooled), ('b', &pooled)], 1, &[2, 0, 2], conv_len),
        call("dense", &[('t', &x), ('t', &w), ('t', &[10]), ('t', &y)], 3, &[], n * 13520),
        call("softmax_ce", &[('t', &y), ('b', &[n]), ('t', &[]), ('t', &[]), ('t', &y)], 2, &[], n * 10),
        call("dense_dx", &[('t', &y), ('t', &w), ('t', &x)], 2, &[], n * 13520),
        call("dense_dw", &[('t', &x), ('t', &y), ('t', &w)], 2, &[], n * 13520),
        call("dense_db", &[('t', &y), ('t', &[10])], 1, &[], n * 10),
        call(
            "max_pool_backward",
            &[('b', &pooled), ('t', &pooled), ('t', &conv)],
            2,
            &[2, 0, 2],
            4 * pooled_len,
        ),
        call("relu_backward", &[('t', &conv), ('t', &conv), ('t', &conv)], 2, &[], conv_len),
        call("conv2d_dw", &[('t', &image), ('t', &conv), ('t', &[8, 1, 3, 3])], 2, &[1, 0], conv_len * 9),
        call("channel_sum", &[('t', &conv), ('t', &[8])], 1, &[], conv_len),
        call("sgd", &[('t', &[n_parameters]), ('t', &[]), ('t', &[n_parameters])], 2, &[], n_parameters),
    ]
}

/// Calls that `seed` does not have: the second convolution of `lenet5`, whose input has a gradient, a strided
/// one, and fully connected layers.
fn other_calls(n: usize) -> Vec<Trial> {
    let second = [n, 6, 14, 14];
    let convolutions = vec![
        call(
            "conv2d",
            &[('t', &second), ('t', &[16, 6, 5, 5]), ('t', &[16]), ('t', &[n, 16, 10, 10])],
            3,
            &[1, 0],
            n * 16 * 100 * 150,
        ),
        call(
            "conv2d_dx",
            &[('t', &[n, 16, 10, 10]), ('t', &[16, 6, 5, 5]), ('t', &second)],
            2,
            &[1, 0],
            n * 16 * 100 * 150,
        ),
        call(
            "conv2d_dx",
            &[('t', &[n, 16, 14, 14]), ('t', &[16, 16, 3, 3]), ('t', &[n, 16, 28, 28])],
            2,
            &[2, 1],
            n * 16 * 196 * 144,
        ),
    ];
    // Fully connected layers of `mlp`, `lenet5` and `vggish`, by one and by more groups of samples.
    let layers = [(784, 512), (512, 512), (400, 120), (2048, 256)];
    let sizes = [1, 2, 4, 8].map(|groups| groups * n);
    let all = sizes.into_iter().flat_map(|n| layers.map(|(inputs, outputs)| dense_calls(n, inputs, outputs)));
    convolutions.into_iter().chain(all.flatten()).collect()
}

/// A fully connected layer, forward and backward.
fn dense_calls(n: usize, inputs: usize, outputs: usize) -> [Trial; 3] {
    let (x, w, y) = ([n, inputs], [outputs, inputs], [n, outputs]);
    let points = n * inputs * outputs;
    [
        call("dense", &[('t', &x), ('t', &w), ('t', &[outputs]), ('t', &y)], 3, &[], points),
        call("dense_dx", &[('t', &y), ('t', &w), ('t', &x)], 2, &[], points),
        call("dense_dw", &[('t', &x), ('t', &y), ('t', &w)], 2, &[], points),
    ]
}

/// Convolutions and their gradients. Multiply-adds beyond the border count, as everywhere.
fn convolutions(n: usize) -> Vec<Trial> {
    // Channels, kernels, image, kernel, stride, padding: `lenet5`, `vggish`, odd ones.
    let shapes = [
        (1, 6, 28, 5, 1, 2),
        (6, 16, 14, 5, 1, 0),
        (3, 32, 32, 3, 1, 1),
        (32, 32, 32, 3, 1, 1),
        (32, 64, 16, 3, 1, 1),
        (64, 64, 16, 3, 1, 1),
        (64, 128, 8, 3, 1, 1),
        (128, 128, 8, 3, 1, 1),
        (16, 32, 16, 3, 2, 1),
        (32, 32, 16, 1, 1, 0),
        (3, 17, 20, 7, 1, 3),
        (17, 3, 5, 3, 1, 1),
        (1, 1, 28, 3, 1, 1),
    ];
    let mut calls = Vec::new();
    for (c, k, side, kernel, stride, pad) in shapes {
        let out = (side + 2 * pad - kernel) / stride + 1;
        let (x, y, w) = ([n, c, side, side], [n, k, out, out], [k, c, kernel, kernel]);
        let (ints, points) = ([stride as i64, pad as i64], n * k * out * out * c * kernel * kernel);
        calls.push(call("conv2d", &[('t', &x), ('t', &w), ('t', &[k]), ('t', &y)], 3, &ints, points));
        calls.push(call("conv2d_dx", &[('t', &y), ('t', &w), ('t', &x)], 2, &ints, points));
        calls.push(call("conv2d_dw", &[('t', &x), ('t', &y), ('t', &w)], 2, &ints, points));
        if stride == 1 && out % 2 == 0 {
            let pooled = [n, k, out / 2, out / 2];
            let args = [('t', &x[..]), ('t', &w), ('t', &w[..1]), ('t', &pooled), ('b', &pooled)];
            calls.push(call("conv2d_relu_max_pool", &args, 3, &[1, ints[1], 2, 2], points));
            let args = [('t', &x[..]), ('t', &pooled), ('b', &pooled), ('t', &w), ('t', &w[..1])];
            calls.push(call("conv2d_relu_max_pool_dw", &args, 3, &[1, ints[1], 2, 2], points));
            calls.push(call("conv2d_dx", &[('p', &y), ('t', &w), ('t', &x)], 2, &ints, points));
        }
    }
    calls
}

/// The median time of a call and that of the fastest twentieth, over batches long enough for the clock.
fn measure(mut f: impl FnMut()) -> (f64, f64) {
    let start = Instant::now();
    let mut n_warm = 0;
    while start.elapsed().as_millis() < 20 {
        f();
        n_warm += 1;
    }
    let per_batch = (n_warm / 100).max(1);
    let mut seconds: Vec<f64> = (0..101)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..per_batch {
                f();
            }
            start.elapsed().as_secs_f64() / per_batch as f64
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[seconds.len() / 2], seconds[seconds.len() / 20])
}
