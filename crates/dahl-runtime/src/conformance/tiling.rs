//! A codelet as a task: cut at random along every axis that may be, lowered, planned and run.
//!
//! Inputs are cut in ways of their own, so that tiles have to be assembled from pieces (halos among them),
//! and outputs are reduced from partial results where a cut axis is missing in them. An output that has every
//! cut axis must have exactly the bits of the whole call; the others may differ by the rounding of sums.

use super::case::{Case, Window, random_cuts};
use super::compare::{close, same_bits};
use super::{draw_of_tiling, dtypes, failure};
use crate::codelet::relation::{Mode, Split};
use crate::codelet::{Call, Codelet, Draw, Implementation, Needs, Sample};
use crate::engine::{Outputs, Pool, Session, Store};
use crate::error::Result;
use crate::graph::{Cut, Graph, StateId, TaskCut, Var, lower};
use crate::machine::Machine;
use crate::plan::Schedule;
use crate::shape::{Dtype, Element, Layout, Region, Shape};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Tilings per implementation and element type.
const N_TILINGS: usize = 36;

/// Moves arrays between the store, temporaries and outputs.
static MOVE: Codelet = Codelet::new(
    "move",
    "x[..] -> y[..]",
    0.0,
    &[mover::<f32>(), mover::<f64>(), mover::<u8>(), mover::<u32>()],
);

const fn mover<T: Element>() -> Implementation {
    fn kernel<T: Element>(call: &Call<'_>) -> Result<()> {
        call.map(|x: T| x);
        Ok(())
    }
    Implementation::new("reference", 1, T::DTYPE, Needs::Nothing, kernel::<T>)
}

type Ranges = Vec<(usize, Vec<Range<usize>>)>;

/// A graph that tries one case, and how it is cut.
struct Trial {
    graph: Graph,
    store: Store,
    outputs: Vec<Var>,
    cut: Cut,
}

impl Trial {
    fn new(case: &Case, implementation: &'static Implementation, draw: &mut Draw) -> Result<(Self, Ranges)> {
        let mut trial = Trial {
            graph: Graph::new(2),
            store: Store::new(),
            outputs: Vec::new(),
            cut: Cut { tasks: Vec::new(), layouts: Vec::new() },
        };
        let cuts = random_cuts(&case.bound, draw);
        let (relation, n_inputs) = (case.codelet.relation(), case.n_inputs());
        let layout = |arg: usize| match implementation.needs {
            Needs::Layouts(layouts) => layouts[arg],
            Needs::Nothing => Layout::RowMajor,
        };
        // Where an output may take the place of an input, it sometimes does.
        let out = &case.sample.args[n_inputs];
        let is_like_output = |arg: &usize| {
            let input = &case.sample.args[*arg];
            input.shape == out.shape && input.dtype == out.dtype
        };
        let shared = if case.codelet.in_place && draw.below(2) == 0 {
            (0..n_inputs).rfind(is_like_output)
        } else {
            None
        };
        let mut vars = Vec::new();
        for (i, arg) in relation.args().iter().enumerate() {
            let (shape, dtype) = (case.sample.args[i].shape, case.dtype_of(i, implementation.dtype));
            let state = |trial: &mut Trial| {
                let data = case.data_in(i, &Region::whole(shape), implementation.dtype);
                trial.state(i, dtype, shape, &data)
            };
            let as_written = || -> Ranges {
                let dims = case.bound.dims(i).iter().enumerate();
                dims.filter_map(|(dim, axis)| {
                    Some((dim, cuts.iter().find(|cut| Some(cut.0) == *axis)?.1.clone()))
                })
                .collect()
            };
            let var = match arg.mode {
                Mode::Read if shared == Some(i) => {
                    let from = state(&mut trial)?;
                    trial.moved(from, layout(n_inputs), as_written())?
                }
                Mode::Read if draw.below(3) == 0 => state(&mut trial)?,
                Mode::Read => {
                    let from = state(&mut trial)?;
                    let tiles = random_tiles(shape, draw)?;
                    let lanes = if draw.below(4) == 0 { Layout::Lanes(8) } else { Layout::RowMajor };
                    trial.moved(from, lanes, tiles)?
                }
                Mode::ReadWrite => {
                    let from = state(&mut trial)?;
                    trial.moved(from, layout(i), as_written())?
                }
                Mode::Write if i == n_inputs && shared.is_some() => vars[shared.unwrap_or_default()],
                Mode::Write => trial.temporary(dtype, shape, layout(i)),
            };
            vars.push(var);
        }
        let (inputs, outputs) = vars.split_at(n_inputs);
        let Sample { ints, scalars, .. } = &case.sample;
        trial.graph.task(case.codelet, implementation.dtype, inputs, outputs, ints, scalars)?;
        let groups = draw.between(1, 5);
        trial.cut.tasks.push(TaskCut { tiles: cuts.clone(), implementations: implementation.into(), groups });
        for &var in outputs {
            let out = trial.graph.output("out", var.dtype(), var.shape());
            trial.cut.layouts.push(Layout::RowMajor.into());
            trial.move_to(var, out, Vec::new())?;
            trial.outputs.push(out);
        }
        Ok((trial, cuts))
    }

    fn state(&mut self, i: usize, dtype: Dtype, shape: Shape, data: &[f64]) -> Result<Var> {
        let name = format!("arg{i}");
        let id = match dtype {
            Dtype::F32 => fill(&mut self.store, &name, shape, data, |value| value as f32),
            Dtype::F64 => fill(&mut self.store, &name, shape, data, |value| value),
            Dtype::U8 => fill(&mut self.store, &name, shape, data, |value| value as u8),
            Dtype::U32 => fill(&mut self.store, &name, shape, data, |value| value as u32),
        }?;
        self.cut.layouts.push(Layout::RowMajor.into());
        Ok(self.store.record(&mut self.graph, id))
    }

    fn temporary(&mut self, dtype: Dtype, shape: Shape, layout: Layout) -> Var {
        self.cut.layouts.push(layout.into());
        self.graph.temporary("temporary", dtype, shape)
    }

    /// A temporary with the contents of `from`, cut in these ranges of its dimensions.
    fn moved(&mut self, from: Var, layout: Layout, tiles: Ranges) -> Result<Var> {
        let to = self.temporary(from.dtype(), from.shape(), layout);
        self.move_to(from, to, tiles)?;
        Ok(to)
    }

    fn move_to(&mut self, from: Var, to: Var, tiles: Ranges) -> Result<()> {
        self.graph.task(&MOVE, to.dtype(), &[from], &[to], &[], &[])?;
        let implementation = MOVE.implementation("reference", to.dtype()).expect("every type is there");
        self.cut.tasks.push(TaskCut { tiles, implementations: implementation.into(), groups: 1 });
        Ok(())
    }

    /// The outputs of two steps; both must be the same.
    fn run(mut self, case: &Case, pool: &Arc<Pool>, schedule: Schedule) -> Result<Vec<Vec<f64>>> {
        let lowered = lower(&self.graph, &self.cut)?;
        let plan = schedule.plan(&lowered, pool.machine())?;
        let mut session = Session::new(pool, &lowered, &plan, 0)?;
        let mut steps = Vec::new();
        session.run(
            &mut self.store,
            2,
            |_, _| (),
            |_, out| {
                steps.push(self.outputs.iter().map(|var| collect(out, var)).collect::<Vec<_>>());
            },
        )?;
        same_bits(case, "second step", &steps[0].concat(), &steps[1].concat())?;
        Ok(steps.swap_remove(0))
    }
}

/// Any cut of an array of this shape; the axes of a move are the dimensions.
fn random_tiles(shape: Shape, draw: &mut Draw) -> Result<Ranges> {
    Ok(random_cuts(&MOVE.relation().bind(&[shape, shape], &[])?, draw))
}

fn fill<T: Element>(
    store: &mut Store,
    name: &str,
    shape: Shape,
    data: &[f64],
    encode: impl Fn(f64) -> T,
) -> Result<StateId> {
    let id = store.add::<T>(name, shape)?;
    store.get_mut::<T>(id).iter_mut().zip(data).for_each(|(element, &value)| *element = encode(value));
    Ok(id)
}

fn collect(out: &Outputs<'_>, var: &Var) -> Vec<f64> {
    match var.dtype() {
        Dtype::F32 => out.get::<f32>(var).iter().map(|&value| value.into()).collect(),
        Dtype::F64 => out.get::<f64>(var).to_vec(),
        Dtype::U8 => out.get::<u8>(var).iter().map(|&value| value.into()).collect(),
        Dtype::U32 => out.get::<u32>(var).iter().map(|&value| value.into()).collect(),
    }
}

/// Compares every implementation of a codelet, cut in random ways, with its reference.
pub(super) fn check(codelet: &'static Codelet) -> Result<usize> {
    let pools = [1, 3].map(|workers| Pool::new(&Machine::with_workers(workers)).map(Arc::new));
    let [one, three] = pools;
    let pools = [one?, three?];
    let mut n_cuts: BTreeMap<String, usize> = BTreeMap::new();
    let mut n_comparisons = 0;
    for dtype in dtypes(codelet) {
        for implementation in codelet.implementations.iter().filter(|i| i.dtype == dtype) {
            for number in 0..N_TILINGS {
                let mut draw = draw_of_tiling(number);
                let mut case = Case::new(codelet, number, &mut draw)?;
                if number % 6 == 5 {
                    case = case.with_special_values(&mut draw);
                }
                let tried = try_one(&case, implementation, &mut draw, &pools);
                let cuts = tried.map_err(|error| {
                    failure(&case, format!("{} {dtype} cut at random", implementation.name)).because_of(error)
                })?;
                n_comparisons += 1;
                let axes = case.bound.axes().iter().enumerate();
                for (i, axis) in axes.filter(|(_, axis)| axis.split != Split::Never) {
                    let is_cut = cuts.iter().any(|(cut, ranges)| *cut == i && ranges.len() > 1);
                    *n_cuts.entry(axis.name.clone()).or_default() += usize::from(is_cut);
                }
            }
        }
    }
    // Otherwise all this shows nothing.
    match n_cuts.iter().find(|(_, n)| **n < 2) {
        Some((axis, _)) => Err(failure(
            codelet.name,
            format!("its samples are too small for the axis '{axis}' to be cut: draw larger ones"),
        )),
        None => Ok(n_comparisons),
    }
}

/// Compares one implementation in one random tiling, and says which.
fn try_one(
    case: &Case,
    implementation: &'static Implementation,
    draw: &mut Draw,
    pools: &[Arc<Pool>; 2],
) -> Result<Ranges> {
    let (trial, cuts) = Trial::new(case, implementation, draw)?;
    let pool = &pools[draw.below(2)];
    let schedule = [Schedule::Replay, Schedule::Eager, Schedule::Steal][draw.below(3)];
    let got = trial.run(case, pool, schedule)?;
    let dtype = implementation.dtype;
    let expected = case.run("reference", dtype, Window::Whole)?;
    let what = format!("{} cut {cuts:?}", implementation.name);
    close(case, &what, dtype, &expected, &got)?;
    if implementation.name == "reference" {
        for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
            let dims = case.bound.dims(case.n_inputs() + i);
            if cuts.iter().all(|(axis, _)| dims.contains(&Some(*axis))) {
                same_bits(case, &what, expected, got)?;
            }
        }
    }
    Ok(cuts)
}
