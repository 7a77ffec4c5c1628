//! Images with zeros around them, for kernels that would otherwise look at every tap whether it is inside.

use super::real::Real;
use super::simd::Simd;
use super::window::Window;
use std::ops::Range;

/// The pixels that the windows of some outputs cover along one axis; those outside of the image are padding.
pub(crate) struct Span {
    /// The first one, as seen from the first pixel there is.
    first: isize,
    pub(crate) len: usize,
    n_pixels: usize,
}

impl Span {
    /// What `taps` cover at `outputs`, of the `pixels` there are.
    pub(crate) fn new(
        window: Window,
        outputs: &Range<usize>,
        taps: &Range<usize>,
        pixels: &Range<usize>,
    ) -> Self {
        let first =
            (outputs.start * window.stride + taps.start) as isize - (window.pad + pixels.start) as isize;
        let len = outputs.len().saturating_sub(1) * window.stride + taps.len();
        Span { first, len, n_pixels: pixels.len() }
    }

    /// The same of pixels and places in the opposite order.
    pub(crate) fn turned(&self) -> Self {
        Span { first: self.n_pixels as isize - self.len as isize - self.first, ..*self }
    }

    /// Whether none of it is padding.
    pub(crate) fn is_inside(&self) -> bool {
        usize::try_from(self.first).is_ok_and(|first| first + self.len <= self.n_pixels)
    }

    /// How many pixels there are.
    pub(crate) fn n_pixels(&self) -> usize {
        self.n_pixels
    }

    /// Which of its places are pixels: the first place, the first pixel, and how many.
    pub(crate) fn inside(&self) -> (usize, usize, usize) {
        let (padding, skipped) = (self.padding().min(self.len), self.skipped().min(self.n_pixels));
        (padding, skipped, (self.len - padding).min(self.n_pixels - skipped))
    }

    /// How many pixels lie before it.
    pub(crate) fn skipped(&self) -> usize {
        self.first.max(0).unsigned_abs()
    }

    /// How many of its places lie before the first pixel.
    fn padding(&self) -> usize {
        self.first.min(0).unsigned_abs()
    }
}

/// Copies a plane of pixels with zeros around it: `to` gets what the spans cover, and zeros where there is
/// padding.
#[inline(always)]
pub(crate) fn copy_inside<T: Real, S: Simd<T>>(
    s: S,
    (rows, columns): (&Span, &Span),
    from: &[T::Lanes],
    to: &mut [T::Lanes],
) {
    let ((top, skipped_rows, n_rows), (left, skipped, n)) = (rows.inside(), columns.inside());
    let (above, to) = to.split_at_mut(top * columns.len);
    let (inside, below) = to.split_at_mut(n_rows * columns.len);
    above.fill(T::ZERO_LANES);
    below.fill(T::ZERO_LANES);
    for (row, to) in inside.chunks_exact_mut(columns.len.max(1)).enumerate() {
        let from = &from[(skipped_rows + row) * columns.n_pixels + skipped..][..n];
        to[..left].fill(T::ZERO_LANES);
        to[left + n..].fill(T::ZERO_LANES);
        for (from, to) in from.iter().zip(&mut to[left..]) {
            s.store(s.load(from), to);
        }
    }
}
