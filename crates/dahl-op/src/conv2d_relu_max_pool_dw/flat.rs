//! Samples one after another, by the gradient of a convolution's weights for few samples (`conv2d_dw/few`): the gradients of the convolution's output are
//! put where the maxima are, with zeros between them.

use crate::conv2d_dw::few::{Few, has_whole};
use crate::conv2d_relu_max_pool::checked_size;
use crate::convolve::Axis;
use crate::flat::{Flat, Order, Place};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::{Rows, add_rows};
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d_relu_max_pool_dw<T: Real>(call: &Call<'_>) -> Result<()> {
    if has_whole(call, [1, 3]) && add::<T>(call)? { Ok(()) } else { super::reference::<T>(call) }
}

/// The pooled gradients of some samples, and which of the places under them they belong to.
#[derive(Clone, Copy)]
pub(super) struct Pooled<'a, T> {
    pub(super) dy: &'a [T],
    pub(super) arg: &'a [u8],
    pub(super) n_kernels: usize,
    /// Rows and columns of windows.
    pub(super) height: usize,
    pub(super) width: usize,
    /// Stride and size of the pool.
    pub(super) stride: usize,
    pub(super) size: usize,
}

/// Returns whether there is a way to compute it.
fn add<T: Real>(call: &Call<'_>) -> Result<bool> {
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let [n_samples, n_kernels, height, width] = *dy.region().shape() else {
        unreachable!("dy has four dimensions")
    };
    let pooled = Pooled {
        dy: dy.contiguous(),
        arg: arg.contiguous(),
        n_kernels,
        height,
        width,
        stride: call.int(2),
        size: checked_size(call.int(3))?,
    };
    let axis = |dim: usize| {
        let covered = x.extent()[dim] + 2 * window.pad;
        let n_outputs = covered.saturating_sub(dw.extent()[dim]) / window.stride + 1;
        Axis { window, inputs: x.region().range(dim), taps: dw.region().range(dim), outputs: 0..n_outputs }
    };
    let (rows, columns) = (axis(2), axis(3));
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    let few = Few::new(
        Order::Rows,
        (x.contiguous(), n_samples),
        [n_kernels, dw.region().shape()[1]],
        [&rows, &columns],
    );
    let (to, biases) = (dw.contiguous(), db.contiguous());
    if !call.accumulate() {
        to.fill(T::default());
        biases.fill(T::default());
    }
    let gradients = |flat: &Flat, sample, to: &mut [_]| pooled.spread(flat, Order::Rows, sample, to);
    let add_biases = |flat: &Flat, gradients: &[T::Lanes]| {
        let [height, width] = flat.outputs;
        let rows = Rows { plane: flat.n_vectors * T::LANES, row: flat.pitch, height, width };
        if has_bias {
            T::dispatch(Biases { gradients: T::flat(gradients), rows, sums: &mut *biases });
        }
    };
    Ok(few.is_some_and(|few| few.add(gradients, add_biases, to)))
}

/// The gradients of one sample, of which each plane is added to its sum.
struct Biases<'a, T> {
    gradients: &'a [T],
    rows: Rows,
    sums: &'a mut [T],
}

impl<T: Real> Kernel<T> for Biases<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        add_rows(s, self.gradients, self.rows, self.sums);
    }
}

impl<T: Real> Pooled<'_, T> {
    /// Where the windows of a sample lie.
    #[inline(always)]
    fn place(&self, order: Order, sample: usize) -> Place {
        order.place::<T>(sample, self.n_kernels * self.height * self.width)
    }

    /// The gradients of the convolution's output for one sample: zero but where the maxima are.
    #[inline(always)]
    pub(super) fn spread(&self, flat: &Flat, order: Order, sample: usize, to: &mut [T::Lanes]) {
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
