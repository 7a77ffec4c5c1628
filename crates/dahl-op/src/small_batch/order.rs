//! How samples lie in memory, and which of them a kernel computes at a time.

use crate::real::Real;
use std::iter;
use std::ops::Range;

/// How samples lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleOrder {
    /// In lanes.
    Lanes,
    /// One after another.
    Rows,
}

/// Where the elements of one sample lie: `i` at `first + i * step`.
#[derive(Clone, Copy)]
pub(crate) struct SampleElements {
    first: usize,
    step: usize,
}

impl SampleOrder {
    /// What kernels do at a time of so many samples: in lanes all full groups, then what is left, if it is
    /// few.
    pub(crate) fn parts<T: Real>(self, n_samples: usize) -> impl Iterator<Item = Range<usize>> {
        let rest = n_samples % T::LANES;
        let is_split = self == SampleOrder::Lanes && n_samples > T::LANES && rest > 0 && 2 * rest <= T::LANES;
        let end = if is_split { n_samples - rest } else { n_samples };
        iter::once(0..end).chain(is_split.then_some(end..n_samples))
    }

    /// Where these samples lie, of `len` elements each. In lanes the first one begins a group.
    pub(crate) fn range<T: Real>(self, samples: &Range<usize>, len: usize) -> Range<usize> {
        let end =
            if self == SampleOrder::Lanes { samples.end.next_multiple_of(T::LANES) } else { samples.end };
        samples.start * len..end * len
    }

    /// That of sample `n`, of `len` elements.
    #[inline(always)]
    pub(crate) fn place<T: Real>(self, n: usize, len: usize) -> SampleElements {
        match self {
            SampleOrder::Lanes => {
                SampleElements { first: n / T::LANES * len * T::LANES + n % T::LANES, step: T::LANES }
            }
            SampleOrder::Rows => SampleElements { first: n * len, step: 1 },
        }
    }
}

impl SampleElements {
    /// Where element `i` lies.
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> usize {
        self.first + i * self.step
    }

    /// Takes `to.len()` elements from `i` on.
    #[inline(always)]
    pub(super) fn take<T: Copy>(self, from: &[T], i: usize, to: &mut [T]) {
        let from = from.get(self.at(i)..).unwrap_or_default();
        if self.step == 1 {
            to.copy_from_slice(&from[..to.len()]);
        } else {
            for (from, to) in from.iter().step_by(self.step).zip(to) {
                *to = *from;
            }
        }
    }
}
