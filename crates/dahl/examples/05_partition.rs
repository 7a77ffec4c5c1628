//! Heat that spreads over a plate: each step computes tiles of the next plate from windows of the last one,
//! which overlap. Nobody waits for a step to end; a tile starts as soon as the tiles around it are there.

use dahl::runtime::array::{Dtype, OwnedMatrix, Params, TileSize, Tolerance, assert_close, submit};
use dahl::runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl::runtime::machine::Machine;
use dahl::runtime::{Result, Runtime};

const ROWS: usize = 50;
const COLUMNS: usize = 70;
const STEPS: usize = 20;

/// A window of `x` is larger than its tile of `y` by one index on all sides: `a` and `b` go from 0 to 2.
static SPREAD: Codelet = Codelet::new(
    "spread",
    "x[i,j] w[a,b] -> y[k,l]  where i = k+a, j = l+b",
    2.0,
    &[Implementation::new("reference", 1, Dtype::F64, Needs::Nothing, spread)],
);

fn spread(call: &Call<'_>) -> Result<()> {
    let (x, w, mut y) = (call.input::<f64>(0), call.input::<f64>(1), call.output::<f64>(0));
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            y.set([i, j], weighted(|a, b| w.at([a, b]) * x.at([i + a, j + b])));
        }
    }
    Ok(())
}

fn weighted(term: impl Fn(usize, usize) -> f64) -> f64 {
    (0..9).fold(0.0, |sum, n| sum + term(n / 3, n % 3))
}

fn main() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let weights = [0.0, 0.1, 0.0, 0.1, 0.6, 0.1, 0.0, 0.1, 0.0];
    let w = runtime.owned_from([3, 3], &weights)?;
    // The plate has a border that keeps its temperature.
    let start: Vec<f64> = (0..ROWS * COLUMNS).map(|i| (i * i % 101) as f64).collect();
    let mut now: OwnedMatrix<f64> = runtime.owned_from([ROWS, COLUMNS], &start)?;
    let mut next = now.to_owned()?;

    let tiles = [TileSize::Size(16), TileSize::Count(3)];
    for _ in 0..STEPS {
        let interior = next.view_mut().into_region([1..ROWS - 1, 1..COLUMNS - 1])?;
        let windows = now.grid(tiles)?.with_halo([1, 1])?;
        for (window, mut tile) in windows.zip(interior.into_grid(tiles)?) {
            submit(&SPREAD, "reference", &[&window, &w], &mut [&mut tile], Params::default())?;
        }
        std::mem::swap(&mut now, &mut next);
    }

    // The same with a plain loop.
    let mut expected = start;
    for _ in 0..STEPS {
        let last = expected.clone();
        for (i, j) in (1..ROWS - 1).flat_map(|i| (1..COLUMNS - 1).map(move |j| (i, j))) {
            let term = |a: usize, b: usize| weights[3 * a + b] * last[(i + a - 1) * COLUMNS + j + b - 1];
            expected[i * COLUMNS + j] = weighted(term);
        }
    }
    assert_close(&now.read()?, &expected, Tolerance::SAME_BITS);
    println!("{:.1}", now.read()?);
    Ok(())
}
