//! Machines without units, or with more memories than there can be.

use super::{COPY, lowered};
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::{Outputs, Pool, Ports, Session, Store};
use dahl_runtime::graph::Graph;
use dahl_runtime::machine::{HOST, MAX_MEMORIES, Machine, MemoryId, Unit, UnitKind};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{ErrorKind, Result, Runtime};
use std::sync::Arc;

/// Nobody would ever do what such a pool is given to do.
#[test]
fn a_pool_has_workers() {
    let error = Pool::new(&[]).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("no unit to compute on"), "{error}");
    let machine = Machine { units: Vec::new(), ..Machine::with_workers(1) };
    assert_eq!(Runtime::new(&machine).err().expect("refused").kind(), ErrorKind::Usage);
}

/// Where a block is valid is a bit per memory; a memory without a bit would wait for ever, or never be
/// written.
#[test]
fn a_memory_has_a_number_that_a_run_can_tell() -> Result<()> {
    let mut graph = Graph::new(2);
    let port = graph.port("p", Dtype::F32, [4]);
    let output = graph.output("out", Dtype::F32, [4]);
    graph.task(&COPY, Dtype::F32, &[port], &[output], &[], &[])?;
    let lowered = lowered(&graph)?;
    let unit = |memory: MemoryId| Unit { kind: UnitKind::Test, memory, core: None };
    for memory in [1, 30, 31, 32, 63, 64, usize::MAX] {
        let machine = Machine { units: vec![unit(memory)], ..Machine::with_workers(1) };
        let pool = Arc::new(Pool::new(&machine.units)?);
        for plan in [Plan::fixed(&lowered, 1)?, Plan::open(&lowered, SchedulerKind::Eager)?] {
            match Session::new(&pool, &lowered, &plan, 0) {
                Ok(mut session) => {
                    assert!((HOST..MAX_MEMORIES).contains(&memory));
                    let feed = |_, ports: &mut Ports<'_>| ports.get_mut::<f32>(&port).fill(3.0);
                    let collect = |_, outputs: &Outputs<'_>| {
                        assert_eq!(outputs.get::<f32>(&output), [3.0; 4]);
                    };
                    session.run(&mut Store::new(), 3, feed, collect)?;
                }
                Err(error) => {
                    assert!(memory >= MAX_MEMORIES);
                    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
                }
            }
        }
    }
    Ok(())
}
