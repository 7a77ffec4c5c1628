//! Few samples leave most lanes empty. So one at a time has its pixels side by side instead, with zeros around the image, row after
//! row: then under a vector of neighbouring outputs, the pixels of every tap are a vector too, at a distance that is the same
//! for all outputs. At the end of each row there are outputs whose windows reach into the next; nobody looks at these. The zeros
//! after a row and before the next one are the same.

use super::convolve::Axis;
use super::padded::Span;
use super::real::Real;

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
    /// For the windows along rows and columns, and so many input and output channels; none if windows do not move by one, vectors of
    /// samples would be as good, or it would take too much memory.
    pub(crate) fn new<T: Real>(
        n_samples: usize,
        (n_inputs, n_outputs): (usize, usize),
        axes: [&Axis; 2],
    ) -> Option<Self> {
        let is_possible =
            |axis: &&Axis| axis.window.stride == 1 && !axis.outputs.is_empty() && !axis.taps.is_empty();
        if n_samples * 2 > T::LANES || !axes.iter().all(is_possible) {
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
        let pays = 2 * n_samples * n_vectors <= height * width && len <= MOST;
        pays.then_some(Flat { rows, columns, pitch, outputs: [height, width], n_vectors, plane })
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

    /// The planes of one sample, perhaps turned round: the last row first, and the last column of each first.
    #[inline(always)]
    pub(crate) fn pixels<T: Real>(&self, from: &[T::Lanes], lane: usize, is_turned: bool, to: &mut [T]) {
        let ((top, skipped_rows, n_rows), (left, skipped, n)) = (self.rows.inside(), self.columns.inside());
        let (height, width) = (self.rows.n_pixels(), self.columns.n_pixels());
        let lane = lane % T::LANES;
        to.fill(T::default());
        for (from, to) in from.chunks_exact((height * width).max(1)).zip(to.chunks_exact_mut(self.plane)) {
            for row in 0..n_rows {
                let to = &mut to[(top + row) * self.pitch + left..][..n];
                let row = skipped_rows + row;
                if is_turned {
                    let from = &from[(height - row) * width - skipped - n..][..n];
                    for (from, to) in from.iter().rev().zip(to) {
                        *to = from.as_ref()[lane];
                    }
                } else {
                    let from = &from[row * width + skipped..][..n];
                    for (from, to) in from.iter().zip(to) {
                        *to = from.as_ref()[lane];
                    }
                }
            }
        }
    }

    /// The planes of one sample of outputs, with zeros where there is none.
    #[inline(always)]
    pub(crate) fn outputs_of<T: Real>(&self, from: &[T::Lanes], lane: usize, to: &mut [T::Lanes]) {
        let [height, width] = self.outputs;
        let lane = lane % T::LANES;
        for (from, to) in from.chunks_exact(height * width).zip(to.chunks_exact_mut(self.n_vectors)) {
            let to = T::flat_mut(to);
            to.fill(T::default());
            for (from, to) in from.chunks_exact(width).zip(to.chunks_mut(self.pitch)) {
                for (from, to) in from.iter().zip(to) {
                    *to = from.as_ref()[lane];
                }
            }
        }
    }
}
