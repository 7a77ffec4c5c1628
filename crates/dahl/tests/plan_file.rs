//! A training run from a plan file has the bits of the run that wrote it.

use dahl::dataset::{self, Dataset};
use dahl::model::Sequential;
use dahl::train::{Report, Schedule};
use dahl::{Result, Trainer};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::PlanFile;
use proptest::prelude::*;

fn digits() -> Dataset {
    let mut data = dataset::digits();
    // Full batches and a smaller last one.
    data.train.truncate(500);
    data
}

fn fit(trainer: &Trainer) -> Result<(Report, Vec<u64>)> {
    let data = digits();
    let mut model = Sequential::seed(data.shape, data.classes);
    let report = trainer.fit(&mut model, &data)?;
    let losses = report.epochs.iter().flat_map(|epoch| [epoch.loss, epoch.test_loss]);
    let weights = model.weights().expect("trained").iter().copied();
    let bits = losses.chain(weights).map(f64::to_bits).collect();
    Ok((report, bits))
}

fn plans(trainer: &Trainer) -> PlanFile {
    let data = digits();
    trainer.make_plans(&Sequential::seed(data.shape, data.classes), &data).expect("planned")
}

#[test]
fn a_run_from_a_file_has_the_same_bits_and_the_same_hash() {
    let machines =
        [Machine::with_workers(1), Machine::with_workers(2), Machine::with_workers(2).with_test_unit()];
    for machine in machines {
        for dtype in [Dtype::F32, Dtype::F64] {
            for schedule in [Schedule::Replay, Schedule::Eager] {
                let trainer = Trainer::new(&machine).sgd(0.3).epochs(2).dtype(dtype);
                let (report, bits) = fit(&trainer.clone().schedule(schedule)).unwrap();
                let text = plans(&trainer.clone().schedule(schedule)).to_string();
                let read = PlanFile::parse("file", &text).unwrap();
                assert_eq!(
                    read.steps().collect::<Vec<_>>(),
                    ["train.64", "train.52", "evaluate.256", "evaluate.40"]
                );
                let (again, same) = fit(&trainer.clone().plan(read)).unwrap();
                assert!(same == bits, "{dtype} {schedule:?}");
                assert_eq!(again.plans.to_string(), text);
                assert_eq!((again.plans.hash(), again.plan), (report.plans.hash(), report.plan));
            }
        }
    }
}

#[test]
fn the_plan_decides_how_a_run_is_cut() {
    let trainer = Trainer::new(&Machine::with_workers(2));
    let (_, bits) = fit(&trainer).unwrap();
    // One chunk of all samples sums in another order, so the last bits differ: the file was obeyed.
    let whole = dahl_runtime::graph::CutOptions { tilings: Vec::new(), ..dahl::op::default_cut() };
    let (_, other) = fit(&trainer.clone().cut(whole.clone())).unwrap();
    assert_ne!(bits, other);
    let plans = plans(&trainer.clone().cut(whole));
    assert_eq!(fit(&trainer.plan(plans)).unwrap().1, other);
}

#[test]
fn a_plan_for_other_settings_is_refused_with_a_sentence() {
    let trainer = |workers| Trainer::new(&Machine::with_workers(workers));
    let plans = plans(&trainer(2));
    let refused = |trainer: Trainer, piece: &str| {
        let error = fit(&trainer.plan(plans.clone())).expect_err("refused").to_string();
        assert!(error.contains(piece), "{error}");
    };
    refused(trainer(1), "the plan is for 2 units, and there are 1");
    refused(trainer(2).batch(32), "no plan for the step train.32, only for train.64, train.52");
    refused(trainer(2).dtype(Dtype::F64), "array 0 is weights f32");
}

#[test]
fn a_machine_with_too_little_memory_is_refused() {
    let machine = Machine::with_workers(2).with_test_unit();
    let (report, _) = fit(&Trainer::new(&machine)).unwrap();
    let error =
        fit(&Trainer::new(&machine.with_limit(1, report.plan.bytes))).expect_err("refused").to_string();
    assert!(error.contains("memory 1 has"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Other tiles, layouts and implementations than those the file has. What lowering makes of them hardly
    /// ever has the tasks and buffers of the file, so most are refused; but none of them does anything else.
    #[test]
    fn a_cut_that_was_edited_is_planned_or_refused(
        edits in proptest::collection::vec((any::<usize>(), any::<usize>()), 1..8),
    ) {
        let trainer = Trainer::new(&Machine::with_workers(1));
        let mut lines: Vec<String> = plans(&trainer).to_string().lines().map(str::to_string).collect();
        let cut = |line: &String| line.starts_with("array ") || line.starts_with("task ");
        let cuts: Vec<usize> = (0..lines.len()).filter(|&i| cut(&lines[i])).collect();
        for (line, choice) in edits {
            let line = &mut lines[cuts[line % cuts.len()]];
            let mut words: Vec<&str> = line.split(' ').collect();
            let last = words.len() - 1;
            let implementations = ["lanes", "reference"];
            let layouts = ["row-major", "lanes:1", "lanes:4", "lanes:8", "lanes:16", "lanes:64"];
            let tiles = ["n=64", "n=64x1", "n=2x32", "n=9x7+1", "n=5+59", "n=2x16+2x16", "k=8", "k=2x4", "k=3+5",
                ".0=4x16", ".1=2x4", "oy=6x1", "oy=2x3", "o=10x1", "o=2x5", "i=800+10", "i=810x1", "c=1"];
            match (words[0], choice % 3) {
                ("array", _) => words[last] = layouts[choice / 3 % layouts.len()],
                ("task", 0) => words[4] = implementations[choice / 3 % 2],
                ("task", 1) => words[last] = tiles[choice / 3 % tiles.len()],
                _ => words.push(tiles[choice / 3 % tiles.len()]),
            }
            *line = words.join(" ");
        }
        let file = PlanFile::parse("file", &lines.join("\n")).unwrap();
        let data = digits();
        let model = Sequential::seed(data.shape, data.classes);
        if let Err(error) = trainer.plan(file).make_plans(&model, &data) {
            prop_assert!(error.to_string().contains("line"), "{error}");
        }
    }
}
