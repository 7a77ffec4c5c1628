//! Machines without units, or with more memories than there can be.

use super::{COPY, lowered};
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::{Outputs, Pool, Ports, Session, Store};
use dahl_runtime::graph::Graph;
use dahl_runtime::machine::{MAX_MEMORIES, Machine, MemoryId};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{ErrorKind, Result, Runtime};
use std::sync::Arc;

/// Nobody would ever do what such a pool is given to do.
#[test]
fn a_pool_has_workers() {
    let machine = Machine { units: Vec::new(), ..Machine::with_workers(1) };
    let error = Pool::new(&machine).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("no unit to compute on"), "{error}");
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
    let machine = |n_memories: usize, memory: MemoryId| {
        let mut machine = Machine::with_workers(1);
        for _ in 1..n_memories {
            machine.add_memory(None);
        }
        machine.units[0].memory = memory;
        machine
    };
    for (n_memories, memory) in
        [(1, 1), (2, usize::MAX), (MAX_MEMORIES + 1, 1), (MAX_MEMORIES + 1, MAX_MEMORIES)]
    {
        let machine = machine(n_memories, memory);
        let error = Pool::new(&machine).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(Plan::fixed(&lowered, &machine).is_err());
    }
    for memory in [1, MAX_MEMORIES - 1] {
        let machine = machine(MAX_MEMORIES, memory);
        let pool = Arc::new(Pool::new(&machine)?);
        for plan in [Plan::fixed(&lowered, &machine)?, Plan::open(&lowered, &machine, SchedulerKind::Eager)?]
        {
            let mut session = Session::new(&pool, &lowered, &plan, 0)?;
            let feed = |_, ports: &mut Ports<'_>| ports.get_mut::<f32>(&port).fill(3.0);
            let collect = |_, outputs: &Outputs<'_>| assert_eq!(outputs.get::<f32>(&output), [3.0; 4]);
            session.run(&mut Store::new(), 3, feed, collect)?;
        }
    }
    Ok(())
}
