//! Fused tasks: the bits of the separate ones, only where nobody looks in between, and remembered by plans
//! and checkpoints.

use dahl::dataset::{self, Dataset};
use dahl::layer::{Conv2d, MaxPool};
use dahl::model::Sequential;
use dahl::op;
use dahl::optim::Sgd;
use dahl::train::{Checkpoint, Schedule};
use dahl::{Result, Trainer};
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::graph::{Graph, Role, Var, fuse};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::PlanFile;
use std::fs;
use std::path::Path;

fn digits() -> Dataset {
    let mut data = dataset::digits();
    // Full batches, and a smaller last one whose last group of samples is ragged.
    data.train.truncate(150);
    data.test.truncate(60);
    data
}

fn seed() -> Sequential {
    Sequential::seed([1, 8, 8], 10)
}

/// The bits of losses and weights after two epochs, and the plan.
fn fit(trainer: &Trainer, model: &Sequential) -> Result<(Vec<u64>, PlanFile)> {
    let mut model = model.clone();
    let report = trainer.clone().epochs(2).fit(&mut model, &digits())?;
    let losses = report.epochs.iter().flat_map(|epoch| [epoch.loss, epoch.test_loss]);
    let weights = model.weights().expect("trained").iter().copied();
    Ok((losses.chain(weights).map(f64::to_bits).collect(), report.plans))
}

fn trainer(n_workers: usize) -> Trainer {
    Trainer::new(&Machine::with_workers(n_workers)).sgd(0.3)
}

/// The fused lines of the first step of a plan.
fn fused(plans: &PlanFile) -> Vec<String> {
    let text = plans.to_string();
    let first = text.split("\nstep ").nth(1).expect("a step");
    first.lines().filter_map(|line| line.strip_prefix("fused ").map(String::from)).collect()
}

#[test]
fn every_rule_is_well_formed() {
    for rule in op::FUSIONS {
        rule.check().unwrap();
    }
}

#[test]
fn the_bits_are_those_of_the_separate_tasks() {
    let end = |model: Sequential| model.flatten().dense(10);
    let conv =
        |filters, kernel, stride, padding| Conv2d::new(filters, kernel).stride(stride).padding(padding);
    let new = || Sequential::new([1, 8, 8]);
    let models = [
        seed(),
        // Two of them, so that there is a gradient of the input; odd channels and extents; padding.
        end(new().layer(conv(7, 3, 1, 1)).relu().max_pool(2).layer(conv(5, 2, 1, 0)).relu().max_pool(2)),
        // Windows that leave pixels over, or out.
        end(new().layer(conv(3, 4, 1, 2)).relu().layer(MaxPool::new(2).stride(3))),
        end(new().layer(conv(3, 5, 1, 3)).relu().max_pool(2).layer(conv(6, 5, 1, 3)).relu().max_pool(2)),
        end(new().layer(conv(4, 5, 1, 2)).relu().max_pool(2)),
        end(new().layer(conv(2, 1, 1, 0)).relu().max_pool(3)),
        // A stride, and no bias.
        end(new().layer(conv(9, 3, 2, 1).bias(false)).relu().max_pool(2)),
    ];
    for (i, model) in models.iter().enumerate() {
        for dtype in [Dtype::F32, Dtype::F64] {
            let separate = trainer(2).dtype(dtype).fusion(false);
            let (expected, plans) = fit(&separate, model).unwrap();
            assert_eq!(fused(&plans), [""; 0]);
            for (n_workers, schedule) in [(1, Schedule::Replay), (2, Schedule::Replay), (3, Schedule::Eager)]
            {
                let (bits, plans) = fit(&trainer(n_workers).dtype(dtype).schedule(schedule), model).unwrap();
                assert!(bits == expected, "model {i}, {dtype}, {n_workers} workers");
                let is_fused = |line: &String| line.ends_with("conv2d max_pool relu");
                assert!(fused(&plans).iter().any(is_fused), "model {i}");
            }
        }
    }
}

/// Where the input of a convolution has a gradient too, that of its output stays, but only for it.
#[test]
fn inner_weights_get_their_gradients_from_the_pooled_one() {
    let conv = |filters, kernel, padding| Conv2d::new(filters, kernel).padding(padding);
    // Odd numbers of channels; windows that leave a row and a column over; five windows by five, and fewer,
    // which does not pay.
    for (first, second, is_fused) in [
        (conv(3, 3, 2), conv(5, 3, 1), true),
        (conv(2, 2, 2), conv(4, 5, 2), true),
        // By fewer multiplications.
        (conv(3, 2, 2), conv(9, 5, 2), true),
        (conv(3, 3, 1), conv(5, 3, 1), false),
        (conv(3, 3, 2), conv(5, 2, 1), false),
    ] {
        let model = Sequential::new([1, 8, 8]).layer(first).relu().layer(second).relu().max_pool(2);
        let model = model.flatten().dense(10);
        for dtype in [Dtype::F32, Dtype::F64] {
            let (expected, _) = fit(&trainer(2).dtype(dtype).fusion(false), &model).unwrap();
            for n_workers in [1, 2] {
                let (bits, plans) = fit(&trainer(n_workers).dtype(dtype), &model).unwrap();
                assert!(bits == expected, "{dtype}, {n_workers} workers");
                let is_inner = |line: &String| line.ends_with("conv2d_dw channel_sum");
                assert_eq!(fused(&plans).iter().any(is_inner), is_fused);
            }
        }
    }
}

/// Very many weights, whose separate gradient is summed over the whole batch at once.
#[test]
fn gradients_that_are_not_added_up_from_parts_stay_separate() {
    let conv = |kernel, padding| Conv2d::new(32, kernel).padding(padding);
    let model = Sequential::new([1, 8, 8]).layer(conv(3, 2)).relu().layer(conv(5, 2)).relu().max_pool(2);
    let model = model.flatten().dense(10);
    let mut cut = op::default_cut();
    cut.set_tiles("n=1").unwrap();
    let mut data = digits();
    data.train.truncate(16);
    data.test.truncate(1);
    let weights = |fusion: bool| {
        let (mut model, cut) = (model.clone(), CutOptions { fusion, ..cut.clone() });
        trainer(2).batch(16).cut(cut).fit(&mut model, &data).unwrap();
        model.weights().unwrap().iter().map(|weight| weight.to_bits()).collect::<Vec<u64>>()
    };
    assert!(weights(true) == weights(false));
}

/// Few samples are computed one at a time, in lanes or not, fused or not: a first layer, an inner one that
/// has an odd number of rows, and a batch that leaves one over.
#[test]
fn few_samples_have_the_same_bits() {
    let conv = |filters, kernel, padding| Conv2d::new(filters, kernel).padding(padding);
    let model = Sequential::new([1, 8, 8]).layer(conv(7, 3, 2)).relu().max_pool(2);
    let inner =
        Sequential::new([1, 8, 8]).layer(conv(3, 3, 3)).relu().layer(conv(5, 5, 2)).relu().max_pool(2);
    let mut data = digits();
    data.train.truncate(33);
    data.test.truncate(1);
    for model in [model.flatten().dense(10), inner.flatten().dense(10)] {
        for (tiles, batch) in [("n=1", 17), ("n=2", 17), ("n=16", 17), ("n=16to64", 3)] {
            for dtype in [Dtype::F32, Dtype::F64] {
                let weights = |fusion: bool| {
                    let mut cut = CutOptions { fusion, ..op::default_cut() };
                    cut.set_tiles(tiles).unwrap();
                    let mut model = model.clone();
                    let report =
                        trainer(2).dtype(dtype).batch(batch).cut(cut).fit(&mut model, &data).unwrap();
                    assert_eq!(!fused(&report.plans).is_empty(), fusion);
                    model.weights().unwrap().iter().map(|weight| weight.to_bits()).collect::<Vec<u64>>()
                };
                assert!(weights(true) == weights(false), "{tiles}, {dtype}");
            }
        }
    }
}

#[test]
fn rectifiers_between_convolutions_are_fused_both_ways() {
    let conv =
        |filters, kernel, stride, padding| Conv2d::new(filters, kernel).stride(stride).padding(padding);
    let ends_with =
        |plans: &PlanFile, end: &str| fused(plans).iter().filter(|line| line.ends_with(end)).count();
    // Odd channels and extents; then one whose stride leaves pixels out, whose gradient is not fused.
    for (second, n_backward) in [(conv(9, 3, 1, 1), 1), (conv(4, 5, 1, 2), 1), (conv(3, 1, 2, 0), 0)] {
        let model = Sequential::new([1, 8, 8]).layer(conv(7, 3, 1, 1)).relu().layer(second).relu();
        let model = model.flatten().dense(10);
        for dtype in [Dtype::F32, Dtype::F64] {
            let (expected, plans) = fit(&trainer(2).dtype(dtype).fusion(false), &model).unwrap();
            assert_eq!(fused(&plans), [""; 0]);
            for n_workers in [1, 2] {
                let (bits, plans) = fit(&trainer(n_workers).dtype(dtype), &model).unwrap();
                assert!(bits == expected, "{n_backward} backward, {dtype}, {n_workers} workers");
                assert_eq!(ends_with(&plans, "conv2d relu"), 2);
                assert_eq!(ends_with(&plans, "conv2d_dx relu_backward"), n_backward);
            }
        }
    }
}

#[test]
fn windows_that_overlap_or_have_padding_are_not_fused() {
    for pool in [MaxPool::new(3).stride(2), MaxPool::new(2).padding(1)] {
        let model = Sequential::new([1, 8, 8]).conv2d(3, 3).relu().layer(pool).flatten().dense(10);
        let (expected, _) = fit(&trainer(2).fusion(false), &model).unwrap();
        let (bits, plans) = fit(&trainer(2), &model).unwrap();
        assert_eq!(fused(&plans), [""; 0]);
        assert!(bits == expected);
    }
}

/// A graph of convolution, pool and ReLU in place, and views of what they write.
fn chain(role: Role) -> (Graph, [Var; 3]) {
    let mut graph = Graph::new(1);
    let dtype = Dtype::F32;
    let x = graph.port("x", dtype, [4, 1, 6, 6]);
    let w = graph.port("w", dtype, [2, 1, 3, 3]);
    let b = graph.port("b", dtype, [2]);
    let c = graph.array("c", dtype, [4, 2, 4, 4], role);
    let y = graph.temporary("y", dtype, [4, 2, 2, 2]);
    let arg = graph.temporary("arg", Dtype::U8, [4, 2, 2, 2]);
    graph.task(&op::conv2d::CODELET, dtype, &[x, w, b], &[c], &[1, 0], &[]).unwrap();
    graph.task(&op::max_pool::CODELET, dtype, &[c], &[y, arg], &[2, 0, 2], &[]).unwrap();
    graph.task(&op::relu::CODELET, dtype, &[y], &[y], &[], &[]).unwrap();
    (graph, [c, y, arg])
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.tasks().iter().map(|task| task.codelet.name).collect()
}

#[test]
fn nothing_is_fused_that_somebody_else_looks_at() {
    let dtype = Dtype::F32;
    let (mut graph, [c, y, _]) = chain(Role::Temporary);
    let out = graph.output("out", dtype, [4, 2, 2, 2]);
    graph.task(&op::copy::CODELET, dtype, &[y], &[out], &[], &[]).unwrap();
    let fused = fuse(graph, op::FUSIONS, &op::default_cut().prospect()).unwrap();
    assert_eq!(names(&fused.graph), ["conv2d_relu_max_pool", "copy"]);
    assert_eq!(fused.var(c), None);
    assert_eq!(fused.var(out).map(|var| fused.graph.arrays()[var.array()].name.as_str()), Some("out"));
    assert_eq!(fused.graph.tasks()[0].fused, ["conv2d", "max_pool", "relu"]);

    // The convolution's output is read, or is an output itself.
    let (mut graph, [c, ..]) = chain(Role::Temporary);
    let out = graph.output("out", dtype, [4, 2, 4, 4]);
    graph.task(&op::copy::CODELET, dtype, &[c], &[out], &[], &[]).unwrap();
    assert_eq!(
        names(&fuse(graph, op::FUSIONS, &op::default_cut().prospect()).unwrap().graph),
        ["conv2d", "max_pool", "relu", "copy"]
    );
    let (graph, _) = chain(Role::Output);
    assert_eq!(
        names(&fuse(graph, op::FUSIONS, &op::default_cut().prospect()).unwrap().graph),
        ["conv2d", "max_pool", "relu"]
    );
}

#[test]
fn an_input_that_changes_in_between_is_not_fused_over() {
    let dtype = Dtype::F32;
    let mut graph = Graph::new(1);
    let x = graph.temporary("x", dtype, [4, 1, 6, 6]);
    let (w, b) = (graph.port("w", dtype, [2, 1, 3, 3]), graph.port("b", dtype, [2]));
    let c = graph.temporary("c", dtype, [4, 2, 4, 4]);
    let y = graph.output("y", dtype, [4, 2, 2, 2]);
    let m = graph.temporary("m", dtype, [4, 2, 2, 2]);
    let arg = graph.temporary("arg", Dtype::U8, [4, 2, 2, 2]);
    graph.task(&op::fill::CODELET, dtype, &[], &[x], &[], &[1.0]).unwrap();
    graph.task(&op::conv2d::CODELET, dtype, &[x, w, b], &[c], &[1, 0], &[]).unwrap();
    graph.task(&op::max_pool::CODELET, dtype, &[c], &[m, arg], &[2, 0, 2], &[]).unwrap();
    graph.task(&op::fill::CODELET, dtype, &[], &[x], &[], &[2.0]).unwrap();
    graph.task(&op::relu::CODELET, dtype, &[m], &[y], &[], &[]).unwrap();
    assert_eq!(
        names(&fuse(graph, op::FUSIONS, &op::default_cut().prospect()).unwrap().graph),
        ["fill", "conv2d", "max_pool", "fill", "relu"]
    );
}

#[test]
fn a_plan_says_whether_to_fuse() {
    for fusion in [false, true] {
        let plans = trainer(2).fusion(fusion).make_plans(&seed(), &digits()).unwrap();
        assert_eq!(plans.fuses("train.64"), Some(fusion));
        assert_eq!(plans.fuses("train.7"), None);
        let text = plans.to_string();
        let read = PlanFile::parse("file", &text).unwrap();
        // Whatever the trainer says otherwise.
        let (_, executed) = fit(&trainer(2).fusion(!fusion).plan(read), &seed()).unwrap();
        assert_eq!(executed.to_string(), text);
        // What is fused stands in the file, and must be what is there.
        let other = text.replace("fused 1 conv2d max_pool relu", "fused 1 conv2d relu");
        let refused = fit(&trainer(2).plan(PlanFile::parse("file", &other).unwrap()), &seed());
        let missing: Vec<&str> = text.lines().filter(|line| !line.starts_with("fused 8")).collect();
        let incomplete = PlanFile::parse("file", &missing.join("\n")).unwrap();
        let incomplete = fit(&trainer(2).plan(incomplete), &seed());
        if fusion {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("task 1 of the graph does not stand for conv2d relu"), "{message}");
            let message = incomplete.unwrap_err().to_string();
            assert!(message.contains("stands for relu_backward max_pool_backward"), "{message}");
        }
    }
}

#[test]
fn training_goes_on_as_it_began() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fusion-resume");
    for fusion in [false, true] {
        let _ = fs::remove_dir_all(&folder);
        let begin = trainer(2).optimizer(Sgd::PLAIN).fusion(fusion);
        let (whole, _) = fit(&begin, &seed()).unwrap();
        let mut model = seed();
        begin.clone().epochs(1).checkpoint(&folder, None).fit(&mut model, &digits()).unwrap();
        let load = || Checkpoint::newest(&folder).unwrap().checkpoint;
        // Nobody says, and neither another number of workers nor another schedule matters.
        for trainer in [trainer(2), trainer(1), trainer(2).schedule(Schedule::Eager)] {
            let (bits, plans) = fit(&trainer.resume(load()), &seed()).unwrap();
            assert_eq!(!fused(&plans).is_empty(), fusion);
            assert!(bits[bits.len() - 100..] == whole[whole.len() - 100..]);
        }
        let message = fit(&trainer(2).fusion(!fusion).resume(load()), &seed()).unwrap_err().to_string();
        let expected =
            if fusion { "fusion was 'on', now it is 'off'" } else { "fusion was 'off', now it is 'on'" };
        assert!(message.contains(expected), "{message}");
    }
    let _ = fs::remove_dir_all(&folder);
}
