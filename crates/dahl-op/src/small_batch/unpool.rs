//! Gradients behind a pool: those of the convolution's output are put where the maxima are, with zeros
//! between them, for the gradient of its weights; and their sums are those of its bias.

use super::{Flat, SampleElements, SampleOrder};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::{Rows, add_rows};

/// The pooled gradients of some samples, and which of the places under them they belong to.
#[derive(Clone, Copy)]
pub(crate) struct Unpool<'a, T> {
    pub(crate) dy: &'a [T],
    pub(crate) arg: &'a [u8],
    pub(crate) n_kernels: usize,
    /// Rows and columns of windows.
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Stride and size of the pool.
    pub(crate) stride: usize,
    pub(crate) size: usize,
}

/// The gradients of one sample, of which each plane is added to its sum.
pub(crate) struct Biases<'a, T> {
    pub(crate) gradients: &'a [T],
    pub(crate) rows: Rows,
    pub(crate) sums: &'a mut [T],
}

impl<T: Real> Kernel<T> for Biases<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        add_rows(s, self.gradients, self.rows, self.sums);
    }
}

impl<T: Real> Unpool<'_, T> {
    /// Where the windows of a sample lie.
    #[inline(always)]
    fn place(&self, order: SampleOrder, sample: usize) -> SampleElements {
        order.place::<T>(sample, self.n_kernels * self.height * self.width)
    }

    /// The gradients of the convolution's output for one sample: zero but where the maxima are.
    #[inline(always)]
    pub(crate) fn spread(&self, flat: &Flat, order: SampleOrder, sample: usize, to: &mut [T::Lanes]) {
        let place = self.place(order, sample);
        // Where in a window each place is; that of none is the first, to which nothing is added.
        let mut places = [0; 256];
        for (at, place) in places[..self.size * self.size].iter_mut().enumerate() {
            *place = at / self.size * flat.pitch + at % self.size;
        }
        let n_places = self.size * self.size;
        let mut window = 0;
        for to in to.chunks_exact_mut(flat.n_vectors) {
            let to = T::flat_mut(to);
            to.fill(T::default());
            for py in 0..self.height {
                let row = &mut to[py * self.stride * flat.pitch..];
                for px in 0..self.width {
                    let at = place.at(window);
                    window += 1;
                    let here = self.arg[at];
                    let gradient = if usize::from(here) < n_places { self.dy[at] } else { T::default() };
                    row[px * self.stride + places[usize::from(here)]] += gradient;
                }
            }
        }
    }
}
