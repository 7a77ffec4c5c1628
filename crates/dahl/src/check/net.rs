//! A pass through a chain that a test runs on values of its own.
//!
//! Input, parameters and the gradient of the output are ports, so that one session computes as many
//! differences as are wanted.

use crate::error::{Error, Result};
use crate::layer::{Backward, Chain, Forward, Init, Mode, Parameter, Tape, Weights, batched};
use crate::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{CutOptions, Graph, StateId, Var};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, Planned};
use std::sync::Arc;

const T: Dtype = Dtype::F64;

/// A recorded pass through a chain, in `f64` on one worker.
pub struct Net {
    session: Session,
    store: Store,
    statistics: StateId,
    x: Var,
    parameters: Var,
    dy: Var,
    counter: Option<Var>,
    y: Var,
    /// The gradients of input and parameters, in training.
    gradients: Option<(Var, Var)>,
}

/// What one step is given.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The batch.
    pub x: Vec<f64>,
    /// All parameters, one after the other.
    pub parameters: Vec<f64>,
}

/// What it computes.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// The output.
    pub y: Vec<f64>,
    /// The gradient of the input; empty without training.
    pub dx: Vec<f64>,
    /// The gradients of all parameters, one after the other; empty without training.
    pub gradients: Vec<f64>,
}

impl Net {
    /// What random choices are made from in every step.
    pub const COUNTER: u32 = 77;

    /// A pass on batches of `n` samples with the extents `input`, cut by these options.
    pub fn new(chain: &Chain, input: &[usize], n: usize, mode: Mode, options: &CutOptions) -> Result<Net> {
        let input = Shape::new(input);
        let all = chain.parameters(input)?;
        let buffers = chain.buffers(input)?;
        let mut store = Store::new();
        let statistics = store.add::<f64>("statistics", [total(&buffers)])?;
        let mut at = 0;
        for buffer in &buffers {
            if let Init::Constant(value) = buffer.init {
                store.get_mut::<f64>(statistics)[at..at + buffer.shape.len()].fill(value);
            }
            at += buffer.shape.len();
        }
        let mut graph = Graph::new(8);
        let running = store.record(&mut graph, statistics);
        let output = batched(n, chain.output(input)?);
        let x = graph.port("given_x", T, batched(n, input));
        let parameters = graph.port("parameters", T, [total(&all)]);
        let dy = graph.port("given_dy", T, output);
        let mut tape = Tape::new(&mut graph, T, mode);
        let own = tape.array("x", x.shape());
        tape.task(&op::copy::CODELET, &[x], &[own], &[])?;
        let (weights, running) = (views(parameters, &all)?, views(running, &buffers)?);
        let recording =
            chain.forward(&mut tape, &Weights { parameters: &weights, buffers: &running }, own)?;
        let found = recording.output.shape();
        if found != output {
            return Err(Error::setting(format!("the output was to be {output}, and is {found}")));
        }
        let y = tape.graph().output("output", T, output);
        tape.task(&op::copy::CODELET, &[recording.output], &[y], &[])?;
        let mut gradients = None;
        if mode == Mode::Train {
            let flat = tape.graph().output("gradients", T, [total(&all)]);
            let dx = tape.graph().output("dx", T, x.shape());
            let own_dy = tape.array("dy", dy.shape());
            tape.task(&op::copy::CODELET, &[dy], &[own_dy], &[])?;
            let pass = Backward {
                forward: &Forward::new(own, recording.output),
                parameters: &weights,
                gradients: &views(flat, &all)?,
                dy: own_dy,
                wants_dx: true,
            };
            let Some(found) = chain.backward(&mut tape, &pass, &recording)? else {
                return Err(Error::setting("the gradient of the input was wanted, and none was recorded"));
            };
            tape.task(&op::copy::CODELET, &[found], &[dx], &[])?;
            gradients = Some((dx, flat));
        }
        let counter = tape.counter_port();
        check_names(&graph)?;
        let machine = Machine::with_workers(1);
        let planned = Planned::new(&graph, options, |lowered| Plan::heuristic(lowered, &machine))?;
        let session = Session::new(&Arc::new(Pool::new(&machine)?), &planned.lowered, &planned.plan, 0)?;
        Ok(Net { session, store, statistics, x, parameters, dy, counter, y, gradients })
    }

    /// How many parameters there are.
    pub fn n_parameters(&self) -> usize {
        self.parameters.shape().len()
    }

    /// How many numbers the output of a batch has.
    pub fn n_outputs(&self) -> usize {
        self.y.shape().len()
    }

    /// Whether a layer makes random choices.
    pub fn is_random(&self) -> bool {
        self.counter.is_some()
    }

    /// What layers keep from step to step, such as running statistics, one after the other.
    pub fn statistics(&mut self) -> &mut [f64] {
        self.store.get_mut::<f64>(self.statistics)
    }

    /// One step for each of these inputs, all with the gradient `dy` of the output.
    pub fn run(&mut self, inputs: &[Inputs], dy: &[f64]) -> Result<Vec<Outputs>> {
        let mut results = Vec::new();
        let Net { session, store, x, parameters, dy: dy_port, counter, y, gradients, .. } = self;
        session.run(
            store,
            inputs.len() as u64,
            |i, ports| {
                ports.get_mut::<f64>(x).copy_from_slice(&inputs[i as usize].x);
                ports.get_mut::<f64>(parameters).copy_from_slice(&inputs[i as usize].parameters);
                ports.get_mut::<f64>(dy_port).copy_from_slice(dy);
                if let Some(counter) = counter {
                    ports.get_mut::<u32>(counter)[0] = Net::COUNTER;
                }
            },
            |_, outputs| {
                let get = |var: &Var| outputs.get::<f64>(var).to_vec();
                let gradients = gradients.as_ref().map(|(dx, gradients)| (get(dx), get(gradients)));
                let (dx, gradients) = gradients.unwrap_or_default();
                results.push(Outputs { y: get(y), dx, gradients });
            },
        )?;
        Ok(results)
    }
}

/// Views of a flat array, one per parameter.
fn views(flat: Var, parameters: &[Parameter]) -> Result<Vec<Var>> {
    let mut offset = 0;
    let view = |parameter: &Parameter| {
        let start = offset;
        offset += parameter.shape.len();
        Ok(flat.part(start, parameter.shape)?)
    };
    parameters.iter().map(view).collect()
}

fn total(parameters: &[Parameter]) -> usize {
    parameters.iter().map(|parameter| parameter.shape.len()).sum()
}

/// Every array has a name of its own.
fn check_names(graph: &Graph) -> Result<()> {
    let mut names: Vec<&str> = graph.arrays().iter().map(|array| array.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::setting(format!("two arrays are called {}: name them apart", pair[0]))),
        None => Ok(()),
    }
}
