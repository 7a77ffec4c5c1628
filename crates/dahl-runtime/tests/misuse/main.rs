//! Programs of safe code that would write where they must not, race, hang or compute nonsense, if nobody
//! refused them. Each is a mistake that somebody could make, or try.

#![cfg(not(feature = "shuttle"))]

#[path = "../kernels/mod.rs"]
mod codelets;
mod kernels;
mod limits;
mod states;
mod units;

use codelets::reference;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet};
use dahl_runtime::engine::{Pool, Session};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use std::sync::Arc;

/// `y = x`, element by element.
static COPY: Codelet = Codelet::new("copy", "x[i] -> y[i]", 0.0, &[reference(copy)]);

fn copy(call: &Call<'_>) -> Result<()> {
    call.map(|x: f32| x);
    Ok(())
}

/// A graph lowered without cutting anything.
fn lowered(graph: &Graph) -> Result<Lowered> {
    let options = CutOptions { implementations: vec!["reference".into()], ..CutOptions::default() };
    lower(graph, &Cut::heuristic(graph, &options)?)
}

/// What most of them are planned for.
fn machine() -> Machine {
    Machine::with_workers(2)
}

/// A session of a graph on two workers.
fn session(lowered: &Lowered, plan: &Plan) -> Result<Session> {
    let pool = Arc::new(Pool::new(&machine())?);
    Session::new(&pool, lowered, plan, 0)
}
