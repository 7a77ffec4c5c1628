//! Times of shapes that were never measured, from those that were.
//!
//! The law is `seconds = a + b·flops + c·bytes` with `a, b, c ≥ 0`: the cost of a call, of computing and of
//! moving. It is fitted to relative errors (a task of a microsecond counts as much as one of a millisecond),
//! a few times over with less weight on points that are far off, so that one odd shape does not bend it.
//! Three coefficients that must not be negative need no iteration: the best fit is among the fits of the
//! seven sets of coefficients that may differ from zero.
//!
//! The other law is a *ratio*: so many times the rough guess. It needs one point only. The error that is
//! reported is what a law would have got wrong: the median relative error at each point of a fit to all the
//! others. Of the two laws the one with the smaller error is taken, so three coefficients need three
//! different shapes to be believed.

use crate::machine::Speed;
use crate::robust::median;

/// What a task takes if nothing at all is known.
pub fn guess(flops: f64, bytes: f64) -> f64 {
    Speed::NOMINAL.seconds(amount(flops), amount(bytes))
}

/// Operations and bytes are counted, so less than one is none; and nothing that is not finite, nothing
/// absurd. Fractions near zero would give seconds per byte that no time survives.
fn amount(number: f64) -> f64 {
    if number >= 1.0 { number.min(1e18) } else { 0.0 }
}

/// One measured shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes moved.
    pub bytes: f64,
    /// What it took.
    pub seconds: f64,
}

/// How times follow from sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// Seconds per call, per operation and per byte.
    Linear([f64; 3]),
    /// So many times the guess.
    Ratio(f64),
}

impl Law {
    fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        let (flops, bytes) = (amount(flops), amount(bytes));
        match self {
            Law::Linear([a, b, c]) => a + b * flops + c * bytes,
            Law::Ratio(ratio) => ratio * guess(flops, bytes),
        }
    }
}

/// A law that was fitted, and how good it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    law: Law,
    /// The points it was fitted to.
    pub n: usize,
    /// The median relative error at a point that it was not fitted to. With a single point, which says
    /// nothing about that: 1.
    pub error: f64,
}

/// Different shapes that the coefficients need.
const MIN_SHAPES: usize = 2;
/// Fits with better weights.
const N_ROUNDS: usize = 6;
/// A relative error up to this is noise; beyond it, a point counts less the further off it is.
const NOISE: f64 = 0.1;
/// Points of which the error is found; of more, some are passed over.
const MAX_FOLDS: usize = 48;

impl Regression {
    /// Fits a law to the points; nothing if there is none to fit it to. Points that are no measurement are
    /// left out.
    pub fn fit(points: &[Point]) -> Option<Regression> {
        let is_sound = |point: &&Point| point.seconds.is_finite() && point.seconds > 0.0;
        let points: Vec<Point> = points.iter().filter(is_sound).copied().collect();
        let candidates = [ratio(&points), linear(&points)];
        let mut best: Option<Regression> = None;
        for (law, fit) in candidates.into_iter().zip([ratio, linear]) {
            let Some(law) = law else { continue };
            let error = left_out_error(&points, fit);
            // The ratio comes first, and stays unless the other is better.
            if best.is_none_or(|best| error < best.error) {
                best = Some(Regression { law, n: points.len(), error });
            }
        }
        best
    }

    /// What a task of this size is expected to take.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        self.law.seconds(flops, bytes)
    }

    /// Whether it is only a multiple of the guess.
    pub fn is_ratio(&self) -> bool {
        matches!(self.law, Law::Ratio(_))
    }
}

fn left_out_error(points: &[Point], fit: fn(&[Point]) -> Option<Law>) -> f64 {
    let stride = points.len().div_ceil(MAX_FOLDS).max(1);
    let error = |left_out: usize| {
        let others: Vec<Point> =
            points.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, point)| *point).collect();
        let Point { flops, bytes, seconds } = points[left_out];
        fit(&others).map(|law| (law.seconds(flops, bytes) - seconds).abs() / seconds)
    };
    let mut errors: Vec<f64> = (0..points.len()).step_by(stride).filter_map(error).collect();
    if errors.is_empty() { 1.0 } else { median(&mut errors) }
}

fn ratio(points: &[Point]) -> Option<Law> {
    let ratios = points.iter().map(|point| point.seconds / guess(point.flops, point.bytes));
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    (!ratios.is_empty()).then(|| Law::Ratio(median(&mut ratios)))
}

fn linear(points: &[Point]) -> Option<Law> {
    let mut shapes: Vec<(u64, u64)> =
        points.iter().map(|point| (amount(point.flops).to_bits(), amount(point.bytes).to_bits())).collect();
    shapes.sort_unstable();
    shapes.dedup();
    if shapes.len() < MIN_SHAPES {
        return None;
    }
    // Divided by the time, each row should give one; columns are brought to a like size.
    let row = |point: &Point| [1.0, amount(point.flops), amount(point.bytes)].map(|x| x / point.seconds);
    let mut rows: Vec<[f64; 3]> = points.iter().map(row).collect();
    let scale: [f64; 3] = std::array::from_fn(|i| {
        let largest = rows.iter().map(|row| row[i]).fold(0.0, f64::max);
        if largest.is_finite() && largest > 0.0 { largest } else { 1.0 }
    });
    for row in &mut rows {
        *row = std::array::from_fn(|i| row[i] / scale[i]);
    }
    let mut weights = vec![1.0; rows.len()];
    let mut found = None;
    for _ in 0..N_ROUNDS {
        let coefficients = non_negative(&rows, &weights)?;
        for (weight, row) in weights.iter_mut().zip(&rows) {
            *weight = NOISE / (dot(row, &coefficients) - 1.0).abs().max(NOISE);
        }
        found = Some(coefficients);
    }
    let coefficients: [f64; 3] = std::array::from_fn(|i| found.map_or(0.0, |found| found[i] / scale[i]));
    coefficients.iter().all(|x| x.is_finite()).then_some(Law::Linear(coefficients))
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The coefficients, none negative and not all zero, with the least weighted squares of
/// `row · coefficients - 1`.
fn non_negative(rows: &[[f64; 3]], weights: &[f64]) -> Option<[f64; 3]> {
    let mut normal = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (row, weight) in rows.iter().zip(weights) {
        for i in 0..3 {
            right[i] += weight * row[i];
            for j in 0..3 {
                normal[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let loss = |coefficients: &[f64; 3]| -> f64 {
        let errors = rows.iter().map(|row| dot(row, coefficients) - 1.0);
        errors.zip(weights).map(|(error, weight)| weight * error * error).sum()
    };
    let fits = (1..8_usize).filter_map(|set| solve(&normal, &right, set));
    let feasible = fits.filter(|fit| fit.iter().all(|x| x.is_finite() && *x >= 0.0));
    feasible.map(|fit| (loss(&fit), fit)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, fit)| fit)
}

/// Solves the normal equations for the coefficients of which `set` has the bit; the others are zero. Nothing
/// where they are (nearly) dependent: a smaller set does as well.
fn solve(normal: &[[f64; 3]; 3], right: &[f64; 3], set: usize) -> Option<[f64; 3]> {
    let vars: Vec<usize> = (0..3).filter(|i| set & (1 << i) != 0).collect();
    let n = vars.len();
    let mut matrix: Vec<Vec<f64>> = vars
        .iter()
        .map(|&i| vars.iter().map(|&j| normal[i][j]).chain([right[i]]).collect::<Vec<f64>>())
        .collect();
    for column in 0..n {
        // Symmetric and positive: what is left of the diagonal says how much is new in this column.
        let pivot = matrix[column][column];
        if !pivot.is_finite() || pivot <= 1e-10 * normal[vars[column]][vars[column]] || pivot <= 0.0 {
            return None;
        }
        for row in column + 1..n {
            let factor = matrix[row][column] / pivot;
            let (above, below) = matrix.split_at_mut(row);
            for (x, y) in below[0].iter_mut().zip(&above[column]).skip(column) {
                *x -= factor * y;
            }
        }
    }
    let mut solution = [0.0; 3];
    for column in (0..n).rev() {
        let known: f64 = (column + 1..n).map(|k| matrix[column][k] * solution[vars[k]]).sum();
        solution[vars[column]] = (matrix[column][n] - known) / matrix[column][column];
    }
    Some(solution)
}
