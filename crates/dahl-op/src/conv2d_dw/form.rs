//! What a gradient of weights is of, without its data: what the choice of an algorithm goes by, here and
//! behind a pool.

use crate::algorithm::Algorithm;
use crate::convolve::Axis;
use crate::real::Real;
use crate::small_batch::{self, SampleOrder};
use crate::winograd;
use crate::winograd::weight_gradient::Gradients;
use dahl_runtime::array::Shape;
use dahl_runtime::codelet::CallSpec;
use std::ops::Range;

/// The gradient of some weights.
pub(crate) struct Form {
    /// How samples lie.
    pub(crate) order: SampleOrder,
    pub(crate) n_samples: usize,
    /// Output and input channels.
    pub(crate) channels: [usize; 2],
    pub(crate) rows: Axis,
    pub(crate) columns: Axis,
    /// The extents of the whole array of weights.
    pub(crate) weights: Shape,
    /// Whether a call has all rows and columns of gradients and taps. A part of them would be added up in
    /// another order than where pool and gradient are fused.
    pub(crate) is_whole: bool,
}

impl Form {
    /// Rows and columns of taps.
    pub(crate) fn taps(&self) -> (&Range<usize>, &Range<usize>) {
        (&self.rows.taps, &self.columns.taps)
    }

    /// Which algorithm so many samples take, unless values are infinite or very large; none of the quicker
    /// ones if it is `other`.
    pub(crate) fn algorithm<T: Real>(&self, n_samples: usize, other: Algorithm) -> Algorithm {
        if self.small_batch::<T>(&[], n_samples).is_some() {
            Algorithm::SmallBatch
        } else if self.order == SampleOrder::Rows {
            Algorithm::Reference
        } else if self.winograd::<T>(&[], n_samples).is_some() {
            Algorithm::Winograd5
        } else {
            other
        }
    }

    /// Vectors of scratch that an algorithm takes for so many samples, with gradients such as `G`.
    pub(crate) fn scratch_len<T: Real, G: Gradients<T>>(
        &self,
        algorithm: Algorithm,
        n_samples: usize,
    ) -> usize {
        match algorithm {
            Algorithm::SmallBatch => {
                self.small_batch::<T>(&[], n_samples).map_or(0, |gradient| gradient.scratch_len())
            }
            Algorithm::Winograd5 => {
                self.winograd::<T>(&[], n_samples).map_or(0, |gradient| gradient.scratch_len::<G>())
            }
            _ => 0,
        }
    }

    /// So many samples one at a time, if that is quicker. Whether it is does not depend on `x`.
    pub(crate) fn small_batch<'a, T: Real>(
        &self,
        x: &'a [T],
        n_samples: usize,
    ) -> Option<small_batch::WeightGradient<'a, T>> {
        let axes = [&self.rows, &self.columns];
        let gradient = small_batch::WeightGradient::new(self.order, (x, n_samples), self.channels, axes);
        gradient.filter(|_| self.is_whole)
    }

    /// So many samples by Winograd's algorithm, if that is quicker. Whether it is does not depend on `x`.
    pub(crate) fn winograd<'a, T: Real>(
        &'a self,
        x: &'a [T],
        n_samples: usize,
    ) -> Option<winograd::weight_gradient::WeightGradient<'a, T>> {
        let (x, axes) = ((T::lanes(x), n_samples), [&self.rows, &self.columns]);
        let gradient = winograd::weight_gradient::WeightGradient::new(&self.weights, x, self.channels, axes);
        gradient.filter(|_| self.is_whole)
    }
}

/// Whether a call has all rows and columns of these arguments.
pub(crate) fn has_whole(spec: &CallSpec, arguments: [usize; 2]) -> bool {
    arguments
        .map(|i| &spec.args[i])
        .iter()
        .all(|argument| [2, 3].iter().all(|&dim| argument.region.range(dim).len() == argument.extent[dim]))
}
