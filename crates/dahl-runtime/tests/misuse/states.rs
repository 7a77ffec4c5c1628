//! Plans of other graphs, and state that is recorded as what it is not.

use super::{COPY, lowered, machine, session};
use dahl_runtime::ErrorKind;
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::Store;
use dahl_runtime::graph::{Graph, Role, StateId};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use std::sync::Arc;

/// Copies a port to an array of this role, and that to an output.
fn through(role: Role) -> Graph {
    let mut graph = Graph::new(4);
    let port = graph.port("p", Dtype::F32, [4]);
    let middle = graph.array("m", Dtype::F32, [4], role);
    let output = graph.output("out", Dtype::F32, [4]);
    graph.task(&COPY, Dtype::F32, &[port], &[middle], &[], &[]).unwrap();
    graph.task(&COPY, Dtype::F32, &[middle], &[output], &[], &[]).unwrap();
    graph
}

/// A plan keeps no room for state, room for one version of what is temporary, and for every version of a port
/// or an output. So it is no plan for a graph that is the same but for what an array is for.
#[test]
fn a_plan_is_refused_where_an_array_is_for_something_else() {
    let roles = [Role::Temporary, Role::State(StateId(0)), Role::State(StateId(1)), Role::Output];
    for planned in roles {
        for run in roles {
            let (for_plan, to_run) = (lowered(&through(planned)).unwrap(), lowered(&through(run)).unwrap());
            for plan in [
                Plan::fixed(&for_plan, &machine()).unwrap(),
                Plan::heuristic(&for_plan, &machine()).unwrap(),
                Plan::open(&for_plan, &machine(), SchedulerKind::Eager).unwrap(),
            ] {
                match session(&to_run, &plan) {
                    Ok(_) => assert_eq!(planned, run),
                    Err(error) => {
                        assert_ne!(planned, run);
                        assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
                    }
                }
            }
        }
    }
}

/// Two arrays for one state have no edges between them: tasks of both would write the same memory at the same
/// time.
#[test]
fn a_state_is_recorded_once() {
    let mut store = Store::new();
    let id = store.add::<f32>("w", [4]).unwrap();
    let mut graph = Graph::new(1);
    let first = graph.array("w", Dtype::F32, [4], Role::State(id));
    let second = graph.array("v", Dtype::F32, [4], Role::State(id));
    graph.task(&COPY, Dtype::F32, &[first], &[second], &[], &[]).unwrap();
    let error = lowered(&graph).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("w and v are both recorded for state 0"), "{error}");
    // The store itself records a state once, however often it is asked.
    let mut graph = Graph::new(1);
    assert_eq!(store.record(&mut graph, id), store.record(&mut graph, id));
    assert_eq!(graph.arrays().len(), 1);
}

/// Shared bytes may lie at any address, at which there can be no number of four bytes.
#[test]
fn bytes_are_not_taken_for_numbers() {
    let mut store = Store::new();
    let id = store.share("images", [16], &Arc::new(vec![1; 16])).unwrap();
    let lowered = lowered(&through(Role::State(id))).unwrap();
    let mut session = session(&lowered, &Plan::fixed(&lowered, &machine()).unwrap()).unwrap();
    let error = session.run(&mut store, 1, |_, _| {}, |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("recorded for another store"), "{error}");
}
