//! Trying out what networks are made of, for tests: layers and losses against central differences, codelets
//! against their references. What comes with dahl is held to it, and so can be what others bring along.
//!
//! What does not agree is an error that names the place.
//!
//! ```
//! use dahl::check;
//! use dahl::layer::{Chain, Conv2d, Relu};
//! use dahl::loss::SoftmaxCrossEntropy;
//!
//! check::gradients(&Chain::new().layer(Conv2d::new(2, 2)).layer(Relu), &[1, 3, 3], 1)?;
//! check::loss(&SoftmaxCrossEntropy, 4)?;
//! check::codelet(&dahl::op::relu::CODELET)?;
//! # Ok::<(), dahl::Error>(())
//! ```

mod losses;
mod net;

pub use losses::loss;
pub use net::{Inputs, Net, Outputs};

use crate::error::{Error, Result};
use crate::layer::{Chain, Mode};
use crate::op;
use crate::random::Stream;
use dahl_runtime::codelet::Codelet;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::conformance;
use dahl_runtime::graph::CutOptions;

/// Half the distance of a central difference.
const STEP: f64 = 1e-5;
/// How far a gradient may be from its central difference, relative to the largest or to 1.
const TOLERANCE: f64 = 1e-7;

/// Compares all implementations of a codelet with its reference, on its samples and cut in random ways, and
/// says how many comparisons that took; see [`conformance`].
pub fn codelet(codelet: &'static Codelet) -> Result<usize> {
    Ok(conformance::check(codelet)?)
}

/// Compares the gradients of a chain, of its input and of all its parameters, with central differences in
/// `f64`, and says how many there were. Samples have the extents `input`.
///
/// Batches are one sample, fewer than a group of lanes, and more, cut in several ways, and once more by
/// references alone; those below `smallest_batch` are left out, for layers that cannot learn from them.
pub fn gradients(chain: &Chain, input: &[usize], smallest_batch: usize) -> Result<usize> {
    let mut n_gradients = 0;
    for (n, options) in batches().into_iter().filter(|(n, _)| *n >= smallest_batch) {
        let compared = gradients_of(chain, input, n, &options);
        n_gradients += compared.map_err(|error| {
            Error::setting(format!("{n} samples of {input:?} do not have the gradients of their differences"))
                .because_of(error)
        })?;
    }
    Ok(n_gradients)
}

fn gradients_of(chain: &Chain, input: &[usize], n: usize, options: &CutOptions) -> Result<usize> {
    let mut net = Net::new(chain, input, n, Mode::Train, options)?;
    let given = Inputs {
        x: numbers(1, n * input.iter().product::<usize>()),
        parameters: numbers(2, net.n_parameters()),
    };
    let dy = numbers(3, net.n_outputs());
    let (n_x, n_parameters) = (given.x.len(), given.parameters.len());
    let mut moved = vec![given.clone()];
    for i in 0..n_x + n_parameters {
        for by in [STEP, -STEP] {
            let mut inputs = given.clone();
            let element = if i < n_x { &mut inputs.x[i] } else { &mut inputs.parameters[i - n_x] };
            *element += by;
            moved.push(inputs);
        }
    }
    let results = net.run(&moved, &dy)?;
    let value = |outputs: &Outputs| -> f64 { outputs.y.iter().zip(&dy).map(|(y, dy)| y * dy).sum() };
    let values: Vec<f64> = results.iter().map(value).collect();
    let found = [&results[0].dx[..], &results[0].gradients].concat();
    compare(&found, &values, |i| match i.checked_sub(n_x) {
        None => format!("element {i} of the input"),
        Some(i) => format!("parameter {i}"),
    })
}

/// Compares gradients with the differences of `values`: the first is where they were taken, and then come
/// two for each, a step up and a step down.
fn compare(found: &[f64], values: &[f64], place: impl Fn(usize) -> String) -> Result<usize> {
    let scale = found.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
    for (i, found) in found.iter().enumerate() {
        let numeric = (values[1 + 2 * i] - values[2 + 2 * i]) / (2.0 * STEP);
        let is_close = (numeric - found).abs() <= TOLERANCE * scale;
        if !is_close {
            return Err(Error::setting(format!(
                "the gradient of {} is {found}, but the difference quotient {numeric}",
                place(i)
            )));
        }
    }
    Ok(found.len())
}

/// Sizes of batches and how they are cut: one sample, a part of a group of lanes, and a group and one more in
/// tiles that are no multiple of it.
fn batches() -> [(usize, CutOptions); 5] {
    let tiles = |size| CutOptions {
        tilings: vec![vec![("n".into(), TileSize::Size(size))]],
        tiles_per_group: 2,
        ..op::default_cut()
    };
    let scalar = CutOptions { implementations: vec!["reference".into()], ..op::default_cut() };
    [(1, tiles(16)), (3, tiles(2)), (9, tiles(8)), (11, tiles(5)), (4, scalar)]
}

/// Numbers from -1 to 1.
fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let stream = Stream::new(seed, len as u64);
    (0..len as u64).map(|i| 2.0 * stream.uniform(i) - 1.0).collect()
}
