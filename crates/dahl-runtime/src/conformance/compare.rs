//! When results agree.

use super::{Case, Window, failure};
use crate::codelet::Tolerance;
use crate::error::Result;
use crate::shape::Dtype;

/// Rounding that results may differ by, relative to their scale.
fn rounding(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { 1e-5 } else { 1e-13 }
}

/// The sums of the magnitudes of all terms: the case on absolute values.
fn magnitudes(case: &Case) -> Result<Vec<Vec<f64>>> {
    let mut case = case.clone();
    case.data.iter_mut().flatten().for_each(|value| *value = value.abs());
    let dtype = super::dtypes(case.codelet).find(|&dtype| dtype == Dtype::F64).unwrap_or(Dtype::F32);
    case.run("reference", dtype, Window::Whole)
}

/// Refuses outputs that differ by more than the tolerance of the case.
pub(super) fn close(
    case: &Case,
    what: &str,
    dtype: Dtype,
    expected: &[Vec<f64>],
    got: &[Vec<f64>],
) -> Result<()> {
    let scale = match case.sample.tolerance {
        Tolerance::Exact => None,
        Tolerance::Sum => Some(magnitudes(case)?),
        Tolerance::Scale(scale) => Some(expected.iter().map(|output| vec![scale; output.len()]).collect()),
    };
    for (output, (expected, got)) in expected.iter().zip(got).enumerate() {
        if expected.len() != got.len() {
            let message = format!("{what}, {dtype}: {} elements, not {}", got.len(), expected.len());
            return Err(failure(case, message));
        }
        for (i, (&expected, &got)) in expected.iter().zip(got).enumerate() {
            let allowed = scale.as_ref().map_or(0.0, |scale| scale[output][i] * rounding(dtype));
            let is_same = expected == got || expected.is_nan() && got.is_nan();
            if !is_same && (expected - got).abs().partial_cmp(&allowed).is_none_or(|order| order.is_gt()) {
                let message = format!("{what}, {dtype}: output {output}[{i}] is {got}, not {expected}");
                return Err(failure(case, message));
            }
        }
    }
    Ok(())
}

/// Refuses different bits, except that a NaN is a NaN.
pub(super) fn same_bits(case: &Case, what: &str, a: &[f64], b: &[f64]) -> Result<()> {
    let differ = |(a, b): &(&f64, &f64)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    match a.iter().zip(b).find(differ) {
        _ if a.len() != b.len() => {
            Err(failure(case, format!("{what}: {} elements and {}", a.len(), b.len())))
        }
        Some((a, b)) => Err(failure(case, format!("{what}: {a:e} and {b:e}"))),
        None => Ok(()),
    }
}
