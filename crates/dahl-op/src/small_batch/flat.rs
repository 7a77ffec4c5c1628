//! One sample with its pixels side by side: row after row, with zeros around the image (its halo).
//!
//! Under a vector of neighbouring outputs, the pixels of every tap are then a vector too, at a distance that
//! is the same for all outputs: `x[plane * c + pitch * (oy + ky) + ox + kx]`. That is im2col without the
//! columns being stored. At the end of each row there are outputs whose windows reach into the next; nobody
//! looks at these. The zeros after a row and before the next one are the same.

use super::{SampleElements, SampleOrder};
use crate::convolve::Axis;
use crate::padded::Span;
use crate::real::Real;

/// Vectors of outputs that kernels compute at a time.
pub(crate) const VECTORS: usize = 2;

/// Vectors of pixels and outputs that a kernel may hold: 512 KiB.
const MOST: usize = 8192;

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
    /// For the windows along rows and columns, and so many input and output channels; none if windows do not
    /// move by one, it would take too much memory, or lanes would be as good.
    pub(crate) fn new<T: Real>(
        (order, n_samples): (SampleOrder, usize),
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
        let pays = order == SampleOrder::Rows || flat.pays::<T>(2 * n_samples);
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
    pub(crate) fn pixels<T: Real>(&self, from: &[T], place: SampleElements, to: &mut [T]) {
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
    pub(crate) fn outputs_of<T: Real>(&self, from: &[T], place: SampleElements, to: &mut [T::Lanes]) {
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
