//! State between runs: what nobody wrote is not copied again, whichever session runs next.

use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{
    Delay, Device, Engine, Pool, QueueDevice, QueueOptions, Session, Store, native, native_with,
};
use dahl_runtime::graph::{Cut, CutOptions, Graph, Lowered, StateId, lower};
use dahl_runtime::machine::{HOST, Kind, Machine};
use dahl_runtime::plan::{Plan, Schedule};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// `y[i] = t[i] + w[i]`, and `w[i] += t[i]`, each for itself.
static SUM: Codelet = Codelet::new("sum", "t[i] w[i] -> y[i]", 1.0, &[reference(sum)]);
static GROW: Codelet = Codelet::new("grow", "t[i] v[i] -> w[i]", 1.0, &[reference(sum)]).in_place();

const fn reference(kernel: fn(&Call<'_>) -> Result<()>) -> Implementation {
    Implementation::new("reference", 1, Dtype::F64, Needs::Nothing, kernel)
}

fn sum(call: &Call<'_>) -> Result<()> {
    let (t, w) = (call.input::<f64>(0), call.input::<f64>(1));
    let mut y = call.output::<f64>(0);
    for i in y.region().range(0) {
        y.set([i], t.at([i]) + w.at([i]));
    }
    Ok(())
}

const N: usize = 16;

/// A step that adds a table to weights, after it has put out the sum of the two.
struct Step {
    store: Store,
    weights: StateId,
    lowered: Lowered,
    output: dahl_runtime::graph::Var,
}

impl Step {
    fn new() -> Step {
        let mut store = Store::new();
        let (table, weights) =
            (store.add::<f64>("table", [N]).unwrap(), store.add::<f64>("weights", [N]).unwrap());
        store.get_mut::<f64>(table).fill(1.0);
        let mut graph = Graph::new(2);
        let (t, w) = (store.record(&mut graph, table), store.record(&mut graph, weights));
        let output = graph.output("y", Dtype::F64, [N]);
        graph.task(&SUM, Dtype::F64, &[t, w], &[output], &[], &[]).unwrap();
        graph.task(&GROW, Dtype::F64, &[t, w], &[w], &[], &[]).unwrap();
        let options = CutOptions {
            tilings: vec![vec![("i".into(), TileSize::Size(4))]],
            implementations: vec!["reference".into()],
            ..CutOptions::default()
        };
        let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
        Step { store, weights, lowered, output }
    }

    /// Runs some steps and checks their sums; `before` is how many there were. Returns the bytes of each
    /// array that were copied.
    fn run(&mut self, session: &mut Session, steps: u64, before: u64) -> BTreeMap<String, usize> {
        let output = self.output;
        let collect = |step: u64, outputs: &dahl_runtime::engine::Outputs<'_>| {
            assert_eq!(outputs.get::<f64>(&output), [(before + step + 1) as f64; N]);
        };
        session.run(&mut self.store, steps, |_, _| {}, collect).unwrap();
        assert_eq!(self.store.get::<f64>(self.weights), [(before + steps) as f64; N]);
        let trace = session.take_trace();
        let mut copied = BTreeMap::new();
        for transfer in trace.transfers.iter().flatten() {
            let block = &trace.scene.blocks[transfer.block as usize];
            *copied.entry(block.name.clone()).or_default() += block.bytes;
        }
        copied
    }
}

fn machines() -> Vec<Machine> {
    let two = Machine::with_workers(2).with_test_unit();
    let three = Machine::with_workers(3)
        .with_unit_apart(1, Kind::cpu().named("slow").times_as_fast(0.5))
        .with_unit_apart(2, Kind::cpu().named("fast").times_as_fast(3.0));
    vec![Machine::with_workers(1).with_test_unit(), two, three]
}

/// Each machine as it is, and with its last unit a device that finishes later.
fn engines() -> impl Iterator<Item = Arc<dyn Engine>> {
    machines().into_iter().flat_map(|machine| {
        let last = machine.units.len() - 1;
        let delay = Delay::Random(Duration::from_micros(100));
        let device = QueueDevice::with_options(QueueOptions { delay, ..QueueOptions::default() }).unwrap();
        let later = native_with(&machine, [(last, Arc::new(device) as Arc<dyn Device>)]);
        [native(&machine).unwrap(), later.unwrap()]
    })
}

#[test]
fn only_what_was_written_moves() {
    for engine in engines() {
        let machine = engine.machine();
        for schedule in Schedule::ALL {
            let mut step = Step::new();
            let plan = schedule.plan(&step.lowered, machine).unwrap();
            let session = || Session::new(&engine, &step.lowered, &plan, 1 << 10).unwrap();
            let (mut first, mut second) = (session(), session());
            let copied = step.run(&mut first, 5, 0);
            for (memory, planned) in plan.memories().iter().enumerate().skip(1) {
                let taken = step.store.replica_bytes(memory);
                match plan.placement() {
                    Some(_) => assert_eq!(taken, planned.state_bytes),
                    None => assert!(taken <= planned.state_bytes, "{taken} of {}", planned.state_bytes),
                }
            }
            if machine.units.len() == 1 {
                assert_eq!(copied.get("state table"), Some(&(8 * N)), "once: {copied:?}");
            }
            // The same session, and another one of the same store.
            for (run, session) in [(1, &mut first), (2, &mut second)] {
                let copied = step.run(session, 5, 5 * run);
                if matches!(schedule, Schedule::Replay | Schedule::Fixed) {
                    assert_eq!(copied.get("state table"), None, "{schedule:?}: {copied:?}");
                }
                // What the workers wrote comes back to the program once.
                if machine.units.len() == 1 {
                    assert_eq!(copied.get("state weights"), Some(&(8 * N)), "{copied:?}");
                }
            }
            // What the program writes counts for everybody.
            let weights = step.weights;
            step.store.get_mut::<f64>(weights).fill(100.0);
            step.run(&mut first, 2, 100);
            step.run(&mut second, 2, 102);
        }
    }
}

#[test]
fn a_pool_of_a_machine_with_fewer_memories_does_not_use_old_copies() {
    let mut step = Step::new();
    let session = |machine: &Machine| {
        let plan = Plan::fixed(&step.lowered, machine).unwrap();
        let pool = Arc::new(Pool::new(machine).unwrap());
        Session::new(&pool, &step.lowered, &plan, 1 << 10).unwrap()
    };
    let (mut apart, mut plain) =
        (session(&Machine::with_workers(1).with_test_unit()), session(&Machine::with_workers(2)));
    step.run(&mut apart, 3, 0);
    assert_eq!(step.store.replica_bytes(1), 2 * 8 * N);
    assert_eq!(step.store.replica_bytes(HOST), 0);
    assert!(step.run(&mut plain, 3, 3).is_empty());
    step.run(&mut apart, 3, 6);
}

#[test]
fn a_device_does_not_use_copies_in_the_memory_of_another() {
    let mut step = Step::new();
    let machine = Machine::with_workers(1).with_test_unit();
    let devices: Vec<Arc<QueueDevice>> = (0..2).map(|_| Arc::new(QueueDevice::new().unwrap())).collect();
    let on = |device: &Arc<QueueDevice>| vec![(0, Arc::clone(device) as Arc<dyn Device>)];
    let session = |devices: Vec<(usize, Arc<dyn Device>)>| {
        let plan = Plan::fixed(&step.lowered, &machine).unwrap();
        Session::new(&native_with(&machine, devices).unwrap(), &step.lowered, &plan, 1 << 10).unwrap()
    };
    let mut sessions = [session(on(&devices[0])), session(Vec::new()), session(on(&devices[1]))];
    let arenas = [devices[0].used_bytes(), devices[1].used_bytes()];
    for round in 0..6 {
        let session = &mut sessions[round % 3];
        let copied = step.run(session, 2, 2 * round as u64);
        assert_eq!(copied.get("state table"), Some(&(8 * N)), "each has its own: {copied:?}");
        let replicas = |of: usize| devices[of].used_bytes() - arenas[of];
        let expected = if round % 3 == 1 { 0 } else { 2 * 8 * N };
        assert_eq!(replicas(0) + replicas(1), expected, "only one memory has replicas at a time");
    }
}
