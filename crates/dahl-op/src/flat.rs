//! Few samples leave most lanes empty. So one at a time has its pixels side by side instead, with zeros around the image, row after
//! row: then under a vector of neighbouring outputs, the pixels of every tap are a vector too, at a distance that is the same
//! for all outputs. At the end of each row there are outputs whose windows reach into the next; nobody looks at these. The zeros
//! after a row and before the next one are the same.
//!
//! Where all samples are few, arrays have one after another (implementations called `flat`). In lanes, taking the values of one sample
//! and putting back its results is most of the work: each is a cache line away from the next.

use super::convolve::Axis;
use super::padded::Span;
use super::real::Real;
use super::window::Window;
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::Recorded;
use std::iter;
use std::ops::Range;

/// Vectors of outputs that kernels compute at a time.
pub(crate) const VECTORS: usize = 2;

/// Vectors of pixels and outputs that a kernel may hold: 512 KiB.
const MOST: usize = 8192;

/// How samples lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In lanes.
    Lanes,
    /// One after another.
    Rows,
}

/// Where the elements of one sample lie: `i` at `first + i * step`.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    first: usize,
    step: usize,
}

impl Order {
    /// What kernels do at a time of so many samples: in lanes all full groups, then what is left, if it is few.
    pub(crate) fn parts<T: Real>(self, n_samples: usize) -> impl Iterator<Item = Range<usize>> {
        let rest = n_samples % T::LANES;
        let is_split = self == Order::Lanes && n_samples > T::LANES && rest > 0 && 2 * rest <= T::LANES;
        let end = if is_split { n_samples - rest } else { n_samples };
        iter::once(0..end).chain(is_split.then_some(end..n_samples))
    }

    /// Where these samples lie, of `len` elements each. In lanes the first one begins a group.
    pub(crate) fn range<T: Real>(self, samples: &Range<usize>, len: usize) -> Range<usize> {
        let end = if self == Order::Lanes { samples.end.next_multiple_of(T::LANES) } else { samples.end };
        samples.start * len..end * len
    }

    /// That of sample `n`, of `len` elements.
    #[inline(always)]
    pub(crate) fn place<T: Real>(self, n: usize, len: usize) -> Place {
        match self {
            Order::Lanes => Place { first: n / T::LANES * len * T::LANES + n % T::LANES, step: T::LANES },
            Order::Rows => Place { first: n * len, step: 1 },
        }
    }
}

impl Place {
    /// Where element `i` lies.
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> usize {
        self.first + i * self.step
    }

    /// Takes `to.len()` elements from `i` on.
    #[inline(always)]
    fn take<T: Copy>(self, from: &[T], i: usize, to: &mut [T]) {
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

/// Whether a convolution of the first argument by weights as in argument `weights`, or the gradient of those, is worth computing one sample at
/// a time.
pub(crate) fn suits_convolution(task: &Recorded, weights: usize) -> bool {
    let (pixels, taps) = (task.args[0].shape(), task.args[weights].shape());
    suits(task, weights, task.ints[1], |dim| {
        let covered = pixels[dim].saturating_add_signed(2 * task.ints[1] as isize);
        (covered + 1).saturating_sub(taps[dim])
    })
}

/// The same of the gradient of its input: from `dy` and `w` to the last argument.
pub(crate) fn suits_gradient(task: &Recorded) -> bool {
    let (taps, pixels) = (task.args[1].shape(), task.args[task.args.len() - 1].shape());
    let pad = taps[2] as i64 - 1 - task.ints[1];
    taps[2] == taps[3] && suits(task, 1, pad, |dim| pixels[dim])
}

fn suits(task: &Recorded, weights: usize, pad: i64, outputs: impl Fn(usize) -> usize) -> bool {
    let Ok(pad) = usize::try_from(pad) else { return false };
    let (images, taps) = (task.args[0].shape(), task.args[weights].shape());
    let window = Window { stride: 1, pad };
    let axis =
        |dim: usize| Axis { window, inputs: 0..images[dim], taps: 0..taps[dim], outputs: 0..outputs(dim) };
    let (rows, columns) = (axis(2), axis(3));
    let (axes, channels) = ([&rows, &columns], (taps[0], taps[1]));
    fn pays<T: Real>(n_samples: usize, channels: (usize, usize), axes: [&Axis; 2]) -> bool {
        Flat::new::<T>((Order::Rows, n_samples), channels, axes).is_some_and(|flat| flat.pays::<T>(n_samples))
    }
    task.ints[0] == 1
        && match task.dtype {
            Dtype::F32 => pays::<f32>(images[0], channels, axes),
            _ => pays::<f64>(images[0], channels, axes),
        }
}

/// How the planes of an image and of what is computed from it by windows that move by one lie in memory.
pub(crate) struct Flat {
    rows: Span,
    columns: Span,
    /// How far apart rows are.
    pub(crate) pitch: usize,
    /// How many outputs there are along both axes.
    pub(crate) outputs: [usize; 2],
    /// Vectors of outputs, in rows as long as those of pixels.
    pub(crate) n_vectors: usize,
    /// Pixels of a plane, with what the last vectors reach.
    pub(crate) plane: usize,
}

impl Flat {
    /// For the windows along rows and columns, and so many input and output channels; none if windows do not move by one, it would take
    /// too much memory, or lanes would be as good.
    pub(crate) fn new<T: Real>(
        (order, n_samples): (Order, usize),
        (n_inputs, n_outputs): (usize, usize),
        axes: [&Axis; 2],
    ) -> Option<Self> {
        let is_possible =
            |axis: &&Axis| axis.window.stride == 1 && !axis.outputs.is_empty() && !axis.taps.is_empty();
        if !axes.iter().all(is_possible) {
            return None;
        }
        let [rows, columns] =
            axes.map(|axis| Span::new(axis.window, &axis.outputs, &axis.taps, &axis.inputs));
        let [height, width] = axes.map(|axis| axis.outputs.len());
        let (before, _, n) = columns.inside();
        let pitch = (columns.len - before.min(columns.len - before - n)).max(width);
        let n_vectors = (height * pitch).div_ceil(T::LANES).next_multiple_of(VECTORS);
        let reach = (axes[0].taps.len() - 1) * pitch + axes[1].taps.len() - 1;
        let plane = n_vectors * T::LANES + reach;
        let len = (n_inputs * plane).div_ceil(T::LANES) + n_outputs * n_vectors;
        let flat = Flat { rows, columns, pitch, outputs: [height, width], n_vectors, plane };
        // Taking values out of lanes, and putting them back, takes about as long as computing with them.
        let pays = order == Order::Rows || flat.pays::<T>(2 * n_samples);
        (pays && len <= MOST).then_some(flat)
    }

    /// Whether so many samples would not do better in lanes.
    pub(crate) fn pays<T: Real>(&self, n_samples: usize) -> bool {
        n_samples <= T::LANES && n_samples * self.n_vectors <= self.outputs.iter().product()
    }

    /// Whether there are zeros around the image.
    pub(crate) fn has_padding(&self) -> bool {
        !(self.rows.is_inside() && self.columns.is_inside())
    }

    /// Vectors for so many planes of pixels.
    pub(crate) fn pixels_len<T: Real>(&self, n_planes: usize) -> usize {
        (n_planes * self.plane).div_ceil(T::LANES)
    }

    /// Where the pixel of a tap lies, as seen from its output.
    pub(crate) fn step(&self, plane: usize, ky: usize, kx: usize) -> usize {
        plane * self.plane + ky * self.pitch + kx
    }

    /// The same for images that are turned round, whose pixels lie as they would not.
    pub(crate) fn turned(self) -> Self {
        Flat { rows: self.rows.turned(), columns: self.columns.turned(), ..self }
    }

    /// The planes of one sample.
    #[inline(always)]
    pub(crate) fn pixels<T: Real>(&self, from: &[T], place: Place, to: &mut [T]) {
        let ((top, skipped_rows, n_rows), (left, skipped, n)) = (self.rows.inside(), self.columns.inside());
        let (height, width) = (self.rows.n_pixels(), self.columns.n_pixels());
        to.fill(T::default());
        for (plane, to) in to.chunks_exact_mut(self.plane).enumerate() {
            for row in 0..n_rows {
                let to = &mut to[(top + row) * self.pitch + left..][..n];
                place.take(from, (plane * height + skipped_rows + row) * width + skipped, to);
            }
        }
    }

    /// The planes of one sample of outputs, with zeros where there is none.
    #[inline(always)]
    pub(crate) fn outputs_of<T: Real>(&self, from: &[T], place: Place, to: &mut [T::Lanes]) {
        let [height, width] = self.outputs;
        for (plane, to) in to.chunks_exact_mut(self.n_vectors).enumerate() {
            let to = T::flat_mut(to);
            to.fill(T::default());
            for (row, to) in to.chunks_mut(self.pitch).take(height).enumerate() {
                place.take(from, (plane * height + row) * width, &mut to[..width]);
            }
        }
    }
}
