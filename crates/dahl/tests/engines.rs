//! The same plan gives the same bits: whatever the schedule, the number of workers, the number of memories,
//! and however often it is repeated.

use dahl::dataset::{self, Dataset};
use dahl::model::{Builtin, Sequential};
use dahl::train::Schedule;
use dahl::{Trainer, random::Stream};
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::{Delay, Device, QueueDevice, QueueOptions, native_with};
use dahl_runtime::machine::{Kind, Machine};
use std::sync::Arc;
use std::time::Duration;

const REPETITIONS: usize = 100;
const STEPS: u64 = 12;

/// Batches of 60: four chunks of 16, the last of them ragged.
fn batches(data: &Dataset) -> Vec<Vec<u32>> {
    (0..STEPS).map(|step| Stream::new(5, step).permutation(data.train.len())[..60].to_vec()).collect()
}

fn bits(
    machine: &Machine,
    schedule: Schedule,
    dtype: Dtype,
    data: &Dataset,
    batches: &[Vec<u32>],
) -> Vec<u64> {
    let mut model = Sequential::seed([1, 8, 8], 10);
    model.initialise(9).expect("the model is sound");
    let trainer = Trainer::new(machine).sgd(0.1).dtype(dtype).schedule(schedule);
    let dump = trainer.replay_batches(&mut model, data, batches).expect("training works");
    let weights = model.weights().expect("trained");
    dump.losses.iter().chain(&dump.gradients).chain(weights).map(|v| v.to_bits()).collect()
}

fn check(dtype: Dtype, repetitions: usize) {
    let data = dataset::digits();
    let batches = batches(&data);
    let expected = bits(&Machine::with_workers(1), Schedule::Replay, dtype, &data, &batches);
    for workers in [1, 2, 4] {
        for schedule in Schedule::ALL {
            for test_unit in [false, true] {
                let machine = Machine::with_workers(workers);
                let machine = if test_unit { machine.with_test_unit() } else { machine };
                for repetition in 0..repetitions {
                    let found = bits(&machine, schedule, dtype, &data, &batches);
                    assert!(
                        found == expected,
                        "{dtype}, {workers} workers, {schedule:?}, test unit {test_unit}, repetition {repetition}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_hundred_repetitions_on_every_engine_give_the_same_bits() {
    check(Dtype::F32, REPETITIONS);
}

#[test]
fn every_engine_gives_the_same_bits_in_f64() {
    check(Dtype::F64, 5);
}

#[test]
fn unequal_units_in_three_memories_give_the_bits_of_plain_workers() {
    let unequal = unequal();
    let data = dataset::open("synthetic:1x28x28x10:128", &dataset::Options::default()).unwrap();
    let batches: Vec<Vec<u32>> =
        (0..2).map(|step| Stream::new(7, step).permutation(data.train.len())[..60].to_vec()).collect();
    for name in ["seed", "lenet5", "resnet8"] {
        let train = |machine: &Machine, schedule: Schedule| {
            let mut model = Builtin::named(name).unwrap().model(Some(data.shape), 10).unwrap();
            model.initialise(3).unwrap();
            let trainer = Trainer::new(machine).sgd(0.05).schedule(schedule);
            trainer.replay_batches(&mut model, &data, &batches).unwrap();
            model.weights().unwrap().iter().map(|weight| weight.to_bits()).collect::<Vec<u64>>()
        };
        let expected = train(&Machine::with_workers(2), Schedule::Replay);
        for schedule in Schedule::ALL {
            assert!(train(&unequal, schedule) == expected, "{name}, {schedule:?}");
        }
    }
}

/// Three kinds of units in three memories.
fn unequal() -> Machine {
    Machine::with_workers(4)
        .with_unit_apart(1, Kind::cpu().named("slow").times_as_fast(0.5))
        .with_unit_apart(3, Kind::cpu().named("fast").times_as_fast(3.0))
}

#[test]
fn a_unit_that_finishes_later_gives_the_bits_of_plain_workers_and_takes_what_was_planned() {
    let data = dataset::open("synthetic:1x28x28x10:256", &dataset::Options::default()).unwrap();
    let delay = Delay::Random(Duration::from_micros(50));
    for name in ["seed", "lenet5", "resnet8"] {
        let new = || {
            let mut model = Builtin::named(name).unwrap().model(Some(data.shape), 10).unwrap();
            model.initialise(3).unwrap();
            model
        };
        // Two epochs, with an evaluation after each, and a third that goes on from there.
        let train = |trainer: Trainer, schedule: Schedule, device: Option<&QueueDevice>| {
            let trainer = trainer.sgd(0.05).batch(120).seed(4).schedule(schedule);
            let mut model = new();
            let report = trainer.clone().epochs(2).fit(&mut model, &data).unwrap();
            // Looked at here: workers give the memory of a run back a moment after its end.
            let taken = report.used.iter().filter(|arena| arena.memory == 2);
            let taken: usize = taken.map(|arena| arena.planned_bytes).sum();
            assert!(device.is_none_or(|device| device.peak_bytes() == taken), "{name}, {schedule:?}");
            trainer.epochs(1).fit(&mut model, &data).unwrap();
            let losses = report.epochs.iter().flat_map(|epoch| [epoch.loss, epoch.test_loss]);
            let numbers = losses.chain(model.weights().unwrap().iter().copied());
            // What is placed in the memory of one unit, that unit executes.
            let has_work = |&unit: &usize| report.trace.workers.get(unit).is_none_or(|of| !of.is_empty());
            let is_planned = matches!(schedule, Schedule::Replay | Schedule::Fixed);
            assert!(!is_planned || report.trace.workers.len() < 4 || [1, 3].iter().all(has_work), "{name}");
            numbers.map(f64::to_bits).collect::<Vec<u64>>()
        };
        let expected = train(Trainer::new(&Machine::with_workers(2)), Schedule::Replay, None);
        for schedule in Schedule::ALL {
            let device = Arc::new(
                QueueDevice::with_options(QueueOptions { delay, ..QueueOptions::default() }).unwrap(),
            );
            let engine = native_with(&unequal(), [(3, Arc::clone(&device) as Arc<dyn Device>)]).unwrap();
            assert!(train(Trainer::on(engine), schedule, Some(&device)) == expected, "{name}, {schedule:?}");
        }
    }
}
