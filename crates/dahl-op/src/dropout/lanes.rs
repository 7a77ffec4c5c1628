//! Lanes over samples: the indices of neighbouring lanes are one sample apart. The coins are plain integer
//! arithmetic without branches, which the compiler vectorises.

use super::Coins;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::array::{Region, Shape};
use dahl_runtime::codelet::Call;

lanes_kernel!(dropout, toss);

/// The body, which both passes share.
#[inline(always)]
pub(crate) fn toss<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let region = x.region();
    if region.rank() == 0 {
        // A single number has no lanes.
        return super::reference::<T>(call);
    }
    let mut y = call.output::<T>(0);
    let coins = Coins::<T>::of(call)?;
    let (rows, first_sample) = (Rows { region: *region, extent: *x.extent() }, region.lo()[0]);
    let (len, per_group, sample) = (rows.len(), rows.per_sample(), rows.sample());
    if region.is_empty() {
        return Ok(());
    }
    let (x, mut y) = (T::pieces(&x), T::pieces_mut(&mut y));
    for row in 0..y.len() / len {
        let first = (first_sample + row / per_group * T::LANES) * sample + rows.start(row % per_group);
        for column in 0..len {
            let mut values = T::ZERO_LANES;
            for (lane, factor) in values.as_mut().iter_mut().enumerate() {
                *factor = coins.factor((first + column + lane * sample) as u64);
            }
            let at = row * len + column;
            s.store(s.mul(s.load(&x.get(at)), s.load(&values)), &mut values);
            y.set(at, values);
        }
    }
    Ok(())
}

/// The rows of a sample: its elements along the last dimension, or its only element.
struct Rows {
    region: Region,
    extent: Shape,
}

impl Rows {
    /// Elements per row.
    fn len(&self) -> usize {
        self.region.shape()[1..].last().copied().unwrap_or(1)
    }

    /// Rows per sample.
    fn per_sample(&self) -> usize {
        self.region.shape()[1..].iter().rev().skip(1).product()
    }

    /// How far apart the indices of neighbouring samples are.
    fn sample(&self) -> usize {
        self.extent[1..].iter().product()
    }

    /// The index, within its sample, of the first element of a row.
    #[inline(always)]
    fn start(&self, mut row: usize) -> usize {
        let (mut start, mut step) = (0, 1);
        for dim in (1..self.region.rank()).rev() {
            let mut index = self.region.lo()[dim];
            if dim + 1 < self.region.rank() {
                index += row % self.region.shape()[dim];
                row /= self.region.shape()[dim];
            }
            start += index * step;
            step *= self.extent[dim];
        }
        start
    }
}
