//! Every layer and loss against the numbers: the gradients of its input and of all its parameters, through
//! the recorded graph of a whole chain, against central differences in `f64` (`dahl::check`).

use dahl::check::{self, Inputs, Net};
use dahl::layer::{
    AvgPool, Backward, BatchNorm, Chain, Conv2d, Dense, Dropout, Flatten, Forward, GlobalAvgPool, MaxPool,
    Mode, Parameter, Relu, Residual, Softmax, Tape, Weights,
};
use dahl::loss::{CrossEntropy, SoftmaxCrossEntropy};
use dahl::op;
use dahl::random::Stream;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::graph::{Graph, Var};
use std::slice::from_ref;

const T: Dtype = Dtype::F64;
fn views(flat: Var, parameters: &[Parameter]) -> Vec<Var> {
    let mut offset = 0;
    let view = |parameter: &Parameter| {
        let start = offset;
        offset += parameter.shape.len();
        flat.part(start, parameter.shape).unwrap()
    };
    parameters.iter().map(view).collect()
}

fn total(parameters: &[Parameter]) -> usize {
    parameters.iter().map(|parameter| parameter.shape.len()).sum()
}

/// Numbers from -1 to 1.
fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let stream = Stream::new(seed, len as u64);
    (0..len as u64).map(|i| 2.0 * stream.uniform(i) - 1.0).collect()
}

/// Compares all gradients of a chain with central differences.
fn check_batches(what: &str, chain: &Chain, input: &[usize], smallest: usize) {
    check::gradients(chain, input, smallest).unwrap_or_else(|error| panic!("{what}: {error:#}"));
}

#[test]
fn losses() {
    for classes in [2, 10] {
        check::loss(&SoftmaxCrossEntropy, classes).unwrap();
        check::loss(&CrossEntropy, classes).unwrap();
    }
}

fn chain() -> Chain {
    Chain::new()
}

#[test]
fn convolution() {
    let image = &[2, 5, 4];
    check_batches("plain", &chain().layer(Conv2d::new(3, 3)), image, 1);
    check_batches("strided", &chain().layer(Conv2d::new(3, 2).stride(2)), image, 1);
    check_batches("padded", &chain().layer(Conv2d::new(2, 3).padding(1)), image, 1);
    check_batches("strided and padded", &chain().layer(Conv2d::new(2, 3).stride(2).padding(2)), image, 1);
    check_batches("without bias", &chain().layer(Conv2d::new(3, 1).bias(false)), image, 1);
    let two = chain().layer(Conv2d::new(3, 3).padding(1)).layer(Conv2d::new(2, 2).stride(2).bias(false));
    check_batches("after another", &two, image, 1);
}

#[test]
fn dense_and_flatten() {
    check_batches("dense", &chain().layer(Dense::new(3)), &[7], 1);
    check_batches("without bias", &chain().layer(Dense::new(2).bias(false)), &[5], 1);
    let two = chain().layer(Flatten).layer(Dense::new(6)).layer(Dense::new(3));
    check_batches("after a flatten", &two, &[2, 3, 2], 1);
}

#[test]
fn pooling() {
    let image = &[2, 6, 5];
    check_batches("max", &chain().layer(MaxPool::new(2)), image, 1);
    check_batches("max, overlapping", &chain().layer(MaxPool::new(3).stride(2).padding(1)), image, 1);
    check_batches("average", &chain().layer(AvgPool::new(2)), image, 1);
    check_batches("average, overlapping", &chain().layer(AvgPool::new(3).stride(1).padding(1)), image, 1);
    check_batches("global, square", &chain().layer(GlobalAvgPool), &[3, 4, 4], 1);
    check_batches("global, not square", &chain().layer(GlobalAvgPool).layer(Dense::new(2)), &[3, 4, 5], 1);
    let moved = chain().layer(Conv2d::new(2, 2)).layer(Relu).layer(MaxPool::new(2)).layer(Conv2d::new(2, 2));
    check_batches("maximum before a rectifier", &moved, image, 1);
    let moved = chain().layer(Relu).layer(Relu).layer(MaxPool::new(3).stride(1).padding(1)).layer(Flatten);
    check_batches("maximum before two rectifiers", &moved, &[1, 4, 4], 1);
}

#[test]
fn rectifier_softmax_and_dropout_in_any_order() {
    let vector = &[6];
    check_batches("relu", &chain().layer(Relu), vector, 1);
    check_batches("relu relu", &chain().layer(Relu).layer(Relu), vector, 1);
    check_batches("softmax", &chain().layer(Softmax), vector, 1);
    check_batches("relu softmax", &chain().layer(Relu).layer(Softmax), vector, 1);
    check_batches("softmax relu", &chain().layer(Softmax).layer(Relu), vector, 1);
    check_batches("softmax softmax", &chain().layer(Dense::new(4)).layer(Softmax).layer(Softmax), vector, 1);
    let hidden = chain().layer(Dense::new(6)).layer(Relu).layer(Dropout::new(0.4)).layer(Dense::new(3));
    check_batches("relu dropout", &hidden, vector, 1);
    let twice =
        chain().layer(Dropout::new(0.3)).layer(Dropout::new(0.3)).layer(Softmax).layer(Dropout::new(0.0));
    check_batches("dropout dropout softmax dropout", &twice, vector, 1);
    check_batches("dropout of images", &chain().layer(Dropout::new(0.5)).layer(Relu), &[2, 3, 3], 1);
}

#[test]
fn batch_normalisation() {
    check_batches("images", &chain().layer(BatchNorm::new()), &[2, 3, 2], 1);
    check_batches("vectors", &chain().layer(BatchNorm::new().eps(1e-2)), &[4], 3);
    let chain =
        chain().layer(Conv2d::new(3, 2).bias(false)).layer(BatchNorm::new()).layer(Relu).layer(Flatten);
    let chain = chain.layer(Dense::new(3).bias(false)).layer(BatchNorm::new().eps(0.1)).layer(Relu);
    check_batches("after others", &chain, &[2, 4, 3], 3);
}

#[test]
fn residual_blocks() {
    let image = &[2, 4, 3];
    let conv = |filters| Conv2d::new(filters, 3).padding(1).bias(false);
    let body =
        || chain().layer(conv(2)).layer(BatchNorm::new()).layer(Relu).layer(conv(2)).layer(BatchNorm::new());
    check_batches("identity", &chain().layer(Residual::new(body())).layer(Relu), image, 1);
    let strided = chain().layer(conv(3).stride(2)).layer(BatchNorm::new()).layer(Relu).layer(conv(3));
    let shortcut = chain().layer(Conv2d::new(3, 1).stride(2).bias(false)).layer(BatchNorm::new());
    let block = chain().layer(Relu).layer(Residual::new(strided).shortcut(shortcut)).layer(Relu);
    check_batches("with a shortcut", &block, image, 1);
    let nested =
        Residual::new(chain().layer(Residual::new(body())).layer(Relu)).shortcut(chain().layer(conv(2)));
    check_batches("nested", &chain().layer(conv(2)).layer(nested), image, 1);
    let twice = chain().layer(Residual::new(body())).layer(Relu).layer(Residual::new(chain().layer(conv(2))));
    check_batches("one after the other", &twice.layer(GlobalAvgPool).layer(Dense::new(2)), image, 1);
}

#[test]
fn residual_blocks_of_layers_that_work_in_place() {
    let vector = &[6];
    let relu = || chain().layer(Relu);
    let drop = || chain().layer(Dropout::new(0.4));
    let block = |body, shortcut| Residual::new(body).shortcut(shortcut);
    let cases = [
        ("nothing and nothing", block(chain(), chain())),
        ("relu and nothing", block(relu(), chain())),
        ("nothing and relu", block(chain(), relu())),
        ("relu and relu", block(relu(), relu())),
        ("dropout and dropout", block(drop(), drop())),
        ("softmax and relu", block(chain().layer(Softmax), relu())),
        ("flatten relu and flatten", block(chain().layer(Flatten).layer(Relu), chain().layer(Flatten))),
        ("dropout and flatten", block(drop(), chain().layer(Flatten))),
        ("relu dense and relu dense", block(relu().layer(Dense::new(6)), relu().layer(Dense::new(6)))),
        ("dense relu and nothing", block(chain().layer(Dense::new(6)).layer(Relu), chain())),
        ("a block of nothing", block(chain().layer(Residual::new(chain())), relu())),
        ("nothing and a block", block(drop(), chain().layer(Residual::new(relu())).layer(Relu))),
    ];
    for (what, block) in cases {
        check_batches(what, &chain().layer(block.clone()), vector, 1);
        // Between layers whose backward passes need what the block must not overwrite.
        let between = chain().layer(Dense::new(6)).layer(Relu).layer(block).layer(Relu).layer(Dense::new(6));
        check_batches(&format!("{what}, between others"), &between.layer(Softmax), vector, 1);
    }
}

#[test]
fn a_block_without_parameters_at_the_front_needs_no_gradient_of_the_input() {
    // The gradient of the input is not wanted: nothing below the first layer with parameters may be recorded.
    let chain =
        chain().layer(Residual::new(chain().layer(Relu))).layer(Relu).layer(Dense::new(2)).layer(Relu);
    let parameters = chain.parameters(Shape::new(&[3])).unwrap();
    let mut graph = Graph::new(1);
    let (x, weights) = (graph.temporary("x", T, [2, 3]), graph.temporary("weights", T, [8]));
    let (dy, gradients) = (graph.temporary("dy", T, [2, 2]), graph.temporary("gradients", T, [8]));
    let mut tape = Tape::new(&mut graph, T, Mode::Train);
    let weights = &views(weights, &parameters)[..];
    let recording = chain.forward(&mut tape, &Weights { parameters: weights, buffers: &[] }, x).unwrap();
    let n_forward = tape.graph().tasks().len();
    let (forward, gradients) = (&Forward::new(x, recording.output), &views(gradients, &parameters)[..]);
    let pass = Backward { forward, parameters: weights, gradients, dy, wants_dx: false };
    assert_eq!(chain.backward(&mut tape, &pass, &recording).unwrap(), None);
    let layers: Vec<&str> = (n_forward..n_forward + 3).map(|task| tape.layer_of(task)).collect();
    assert_eq!(layers, ["relu2", "fc1", "fc1"]);
    let names: Vec<&str> = graph.tasks()[n_forward..].iter().map(|task| task.codelet.name).collect();
    assert_eq!(names, ["relu_backward", "dense_dw", "dense_db"]);
}

#[test]
fn running_statistics_move_in_training_and_are_used_in_evaluation() {
    let chain = chain().layer(BatchNorm::new());
    let (n, input) = (5, [2, 3, 2]);
    let options = op::default_cut();
    let mut net = Net::new(&chain, &input, n, Mode::Train, &options).unwrap();
    let x = numbers(3, n * 12);
    let given = Inputs { x: x.clone(), parameters: vec![0.5, 2.0, 0.1, -0.2] };
    net.run(&[given.clone(), given.clone()], &numbers(4, n * 12)).unwrap();
    let found = net.statistics().to_vec();
    for c in 0..2 {
        let values: Vec<f64> = (0..n).flat_map(|i| x[i * 12 + c * 6..][..6].to_vec()).collect();
        let mean = values.iter().sum::<f64>() / 30.0;
        let var = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 29.0;
        // Two steps of a tenth: 1 - 0.9² of the way.
        assert!((found[c] - 0.19 * mean).abs() < 1e-14, "{} {mean}", found[c]);
        assert!((found[2 + c] - (0.81 + 0.19 * var)).abs() < 1e-14, "{} {var}", found[2 + c]);
    }
    let mut used = Net::new(&chain, &input, n, Mode::Evaluate, &options).unwrap();
    used.statistics().copy_from_slice(&found);
    let y = used.run(&[given], &numbers(4, n * 12)).unwrap().remove(0).y;
    for (i, (y, x)) in y.iter().zip(&x).enumerate() {
        let c = i / 6 % 2;
        let expected = (x - found[c]) / (found[2 + c] + 1e-5).sqrt() * [0.5, 2.0][c] + [0.1, -0.2][c];
        assert!((y - expected).abs() < 1e-14, "{y} {expected}");
    }
    assert_eq!(used.statistics(), found, "evaluation changes nothing");
}

#[test]
fn dropout_tosses_the_coins_of_its_number_and_rests_in_evaluation() {
    let chain = chain().layer(Dropout::new(0.25)).layer(Relu).layer(Dropout::new(0.5));
    let (n, len) = (11, 7);
    let given = Inputs { x: vec![1.0; n * len], parameters: Vec::new() };
    let dy = vec![1.0; n * len];
    let options = op::default_cut();
    let mut net = Net::new(&chain, &[len], n, Mode::Train, &options).unwrap();
    let y = net.run(from_ref(&given), &dy).unwrap().remove(0).y;
    let stays = |layer: u64, i: usize, p: f64| {
        Stream::new(layer, Net::COUNTER.into()).bits(i as u64) >> 40 >= (p * f64::from(1 << 24)) as u64
    };
    for (i, y) in y.iter().enumerate() {
        let expected = if stays(0, i, 0.25) && stays(1, i, 0.5) { 1.0 / 0.75 * 2.0 } else { 0.0 };
        assert_eq!(*y, expected, "{i}");
    }
    let mut net = Net::new(&chain, &[len], n, Mode::Evaluate, &options).unwrap();
    assert!(!net.is_random());
    assert_eq!(net.run(from_ref(&given), &dy).unwrap().remove(0).y, given.x);
}

#[test]
fn arrays_and_tasks_know_their_layer() {
    let conv = || Conv2d::new(2, 1).bias(false);
    let block = Residual::new(chain().layer(conv()).layer(Relu)).shortcut(chain().layer(conv()));
    let chain = chain().layer(conv()).layer(block).layer(Flatten).layer(Dense::new(2));
    let parameters = chain.parameters(Shape::new(&[1, 2, 2])).unwrap();
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let expected =
        ["conv1.weight", "block1.conv1.weight", "block1.shortcut.conv1.weight", "fc1.weight", "fc1.bias"];
    assert_eq!(names, expected);
    let mut graph = Graph::new(1);
    let x = graph.temporary("x", T, [3, 1, 2, 2]);
    let weights = graph.temporary("weights", T, [total(&parameters)]);
    let mut tape = Tape::new(&mut graph, T, Mode::Train);
    let weights = views(weights, &parameters);
    chain.forward(&mut tape, &Weights { parameters: &weights, buffers: &[] }, x).unwrap();
    let n_tasks = tape.graph().tasks().len();
    let layers: Vec<&str> = (0..n_tasks).map(|task| tape.layer_of(task)).collect();
    // A convolution without bias is two tasks.
    let expected = ["conv1", "conv1", "block1.conv1", "block1.conv1", "block1.relu1"];
    assert_eq!(layers[..5], expected);
    assert_eq!(layers[5..], ["block1.shortcut.conv1", "block1.shortcut.conv1", "block1", "fc1"]);
    let names: Vec<&str> = graph.arrays()[2..].iter().map(|array| array.name.as_str()).collect();
    for name in ["conv1.y", "block1.conv1.y", "block1.shortcut.conv1.y", "block1.y", "fc1.y"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
}
