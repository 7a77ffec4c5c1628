//! The index arithmetic of sliding windows along one axis: `input = output * stride + tap - pad`.

use dahl_runtime::codelet::Draw;
use std::ops::Range;

/// How a window moves along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Steps of the input per step of the output.
    pub(crate) stride: usize,
    /// How far the first window starts before the input.
    pub(crate) pad: usize,
}

impl Window {
    /// The input that this tap of this output reads, if it lies in `inputs`.
    #[inline(always)]
    pub(crate) fn input(self, output: usize, tap: usize, inputs: &Range<usize>) -> Option<usize> {
        (output * self.stride + tap).checked_sub(self.pad).filter(|input| inputs.contains(input))
    }

    /// Whether windows of `size` are squares of two side by side, the first at the first pixel and the last
    /// inside of the image, by rows and columns of pixels and of windows.
    pub(crate) fn is_side_by_side(
        self,
        size: usize,
        pixels: [&Range<usize>; 2],
        windows: [&Range<usize>; 2],
    ) -> bool {
        let covers = |(pixels, windows): (&Range<usize>, &Range<usize>)| {
            pixels.start == 2 * windows.start && 2 * windows.end <= pixels.end
        };
        (size, self.stride, self.pad) == (2, 2, 0) && pixels.into_iter().zip(windows).all(covers)
    }

    /// The output whose window has this tap on this input, if it lies in `outputs`.
    #[inline(always)]
    pub(crate) fn output(self, input: usize, tap: usize, outputs: &Range<usize>) -> Option<usize> {
        let from_first = (input + self.pad).checked_sub(tap)?;
        let output = from_first / self.stride;
        (output * self.stride == from_first && outputs.contains(&output)).then_some(output)
    }

    /// Which of `taps` read inside `inputs`, for one output.
    #[inline(always)]
    pub(crate) fn taps(self, output: usize, taps: &Range<usize>, inputs: &Range<usize>) -> Range<usize> {
        let start = output * self.stride;
        let lo = (inputs.start + self.pad).saturating_sub(start).max(taps.start);
        let hi = (inputs.end + self.pad).saturating_sub(start).min(taps.end);
        lo..hi.max(lo)
    }

    /// Which of `outputs` read inside `inputs` with every one of `taps`: the windows that need no clipping.
    #[inline(always)]
    pub(crate) fn interior(
        self,
        outputs: &Range<usize>,
        taps: &Range<usize>,
        inputs: &Range<usize>,
    ) -> Range<usize> {
        let lo =
            (inputs.start + self.pad).saturating_sub(taps.start).div_ceil(self.stride).max(outputs.start);
        let last_tap = taps.end.saturating_sub(1);
        // output * stride + last_tap - pad < inputs.end
        let hi = match (inputs.end + self.pad).checked_sub(last_tap + 1) {
            Some(room) => (room / self.stride + 1).min(outputs.end),
            None => outputs.start,
        };
        let lo = lo.min(outputs.end);
        lo..hi.max(lo)
    }

    /// Which of `outputs` have a window of `taps` taps that covers this input.
    #[inline(always)]
    pub(crate) fn outputs(self, input: usize, taps: usize, outputs: &Range<usize>) -> Range<usize> {
        let from_first = input + self.pad;
        let lo = (from_first + 1).saturating_sub(taps).div_ceil(self.stride).max(outputs.start);
        let hi = (from_first / self.stride + 1).min(outputs.end);
        lo..hi.max(lo)
    }

    /// How the pixels `first`, `first + stride`, … are covered: by every `stride`-th of `taps`, of the
    /// windows in `outputs`.
    #[inline(always)]
    pub(crate) fn cover(self, first: usize, taps: &Range<usize>, outputs: &Range<usize>) -> Cover {
        let from_first = first + self.pad;
        // The first tap that lies a whole number of strides away.
        let skipped = (from_first % self.stride + self.stride - taps.start % self.stride) % self.stride;
        let tap = taps.start + skipped;
        // Both leave the same remainder, so this division is exact.
        let output = (from_first as isize - tap as isize) / self.stride as isize;
        Cover {
            tap,
            n_taps: taps.end.saturating_sub(tap).div_ceil(self.stride),
            output: output - outputs.start as isize,
        }
    }
}

/// Which windows cover a row of pixels that are a stride apart: tap `tap + m * stride` of output
/// `output + j - m` lies on pixel `j`, where that output exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cover {
    /// The first tap.
    pub(crate) tap: usize,
    /// How many taps there are, a stride apart.
    pub(crate) n_taps: usize,
    /// The output whose first tap lies on pixel 0, counted from the first output; it need not exist.
    pub(crate) output: isize,
}

/// The extents of a sample call with windows.
pub(crate) struct Sizes {
    /// Samples.
    pub(crate) n: usize,
    /// Channels of the image.
    pub(crate) c: usize,
    /// Channels of the result, where there are kernels.
    pub(crate) k: usize,
    /// Height and width of the image.
    pub(crate) image: [usize; 2],
    /// Height and width of the result.
    pub(crate) out: [usize; 2],
    /// Height and width of the window.
    pub(crate) size: usize,
    /// Distance between windows.
    pub(crate) stride: usize,
    /// Padding.
    pub(crate) pad: usize,
}

impl Sizes {
    /// Windows that overlap, touch, leave gaps or miss the image, on images that are not square.
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        let [size, stride] = [draw.between(1, 5), draw.between(1, 3)];
        Self::of(draw, size, stride)
    }

    /// The usual windows, which have kernels of their own: three or five taps that move by one, on an even
    /// number of columns.
    pub(crate) fn draw_usual(draw: &mut Draw) -> Self {
        let size = [3, 5][draw.below(2)];
        let sizes = Self::of(draw, size, 1);
        let columns = (2 * draw.between(1, 5)).max(2 * sizes.pad);
        let ([height, _], [rows, _]) = (sizes.image, sizes.out);
        let image = [height, columns + size - 1 - 2 * sizes.pad];
        Sizes { c: sizes.c.min(7), image, out: [rows, columns], ..sizes }
    }

    /// Those of [`Sizes::draw`], and sometimes 3x3 taps over so many channels, or 5x5 taps for so many
    /// outputs, that other kernels are used.
    pub(crate) fn draw_convolution(draw: &mut Draw) -> Self {
        match draw.below(5) {
            0 => return Self::draw_five(draw),
            1 => {}
            _ => return Self::draw(draw),
        }
        let sizes = Self::of(draw, 3, 1);
        let [few, many] = [draw.between(8, 12), draw.between(29, 36)];
        let (c, k) = [(few, many), (many, few), (many, many)][draw.below(3)];
        Sizes { c, k, ..sizes }
    }

    /// 5x5 taps that move by one, for so many outputs, and half of the time over so many channels, that other
    /// kernels are used.
    pub(crate) fn draw_five(draw: &mut Draw) -> Self {
        let (size, pad) = (5, draw.between(0, 3));
        let (out, c, k) = if draw.below(2) == 0 {
            // Sometimes more output channels than a vector has lanes.
            let k = if draw.below(4) == 0 { 17 } else { draw.between(2, 7) };
            ([draw.between(3, 9), draw.between(4, 12)], draw.between(1, 3), k)
        } else {
            ([draw.between(7, 12), draw.between(7, 12)], draw.between(3, 5), draw.between(7, 10))
        };
        let image = out.map(|n| n + size - 1 - 2 * pad);
        Sizes { n: draw.n_samples(), c, k, image, out, size, stride: 1, pad }
    }

    fn of(draw: &mut Draw, size: usize, stride: usize) -> Self {
        let pad = draw.between(0, size.min(3));
        let smallest = size.saturating_sub(2 * pad).max(1);
        let image = [draw.between(smallest, 9), draw.between(smallest, 10)];
        let out = image.map(|extent| (extent + 2 * pad - size) / stride + 1);
        let c = if draw.below(8) == 0 { draw.between(10, 30) } else { draw.between(0, 5) };
        Sizes { n: draw.n_samples(), c, k: draw.between(1, 13), image, out, size, stride, pad }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_the_definition() {
        for stride in 1..4 {
            for pad in 0..4 {
                for n_taps in 1..5 {
                    for inputs in [0..7, 2..5, 3..3, 4..9] {
                        check(Window { stride, pad }, n_taps, inputs);
                    }
                }
            }
        }
    }

    #[test]
    fn covers_agree_with_the_definition() {
        for stride in 1..4 {
            for pad in 0..4 {
                for taps in [0..1, 0..3, 1..3, 2..5, 3..3] {
                    for outputs in [0..4, 1..3, 2..2] {
                        for first in 0..6 {
                            check_cover(Window { stride, pad }, first, &taps, &outputs);
                        }
                    }
                }
            }
        }
    }

    fn check_cover(window: Window, first: usize, taps: &Range<usize>, outputs: &Range<usize>) {
        let cover = window.cover(first, taps, outputs);
        for j in 0..6 {
            let pixel = first + j * window.stride;
            let pixels = pixel..pixel + 1;
            let mut expected = Vec::new();
            for tap in taps.clone() {
                let covering = outputs.clone().filter(|&o| window.input(o, tap, &pixels).is_some());
                expected.extend(covering.map(|output| (tap, output)));
            }
            let output = |m: usize| outputs.start as isize + cover.output + j as isize - m as isize;
            let found: Vec<(usize, usize)> = (0..cover.n_taps)
                .map(|m| (cover.tap + m * window.stride, output(m) as usize))
                .filter(|(_, output)| outputs.contains(output))
                .collect();
            assert_eq!(found, expected, "{window:?} {first} {taps:?} {outputs:?} {j}");
        }
    }

    fn check(window: Window, n_taps: usize, inputs: Range<usize>) {
        let (taps, outputs) = (0..n_taps, 1..6);
        let reads = |output, tap| window.input(output, tap, &inputs);
        for output in outputs.clone() {
            let range = window.taps(output, &taps, &inputs);
            let interior = window.interior(&outputs, &taps, &inputs);
            for tap in taps.clone() {
                assert_eq!(range.contains(&tap), reads(output, tap).is_some(), "{window:?} {output} {tap}");
            }
            assert_eq!(interior.contains(&output), range == taps, "{window:?} {inputs:?} {output}");
        }
        for input in inputs.clone() {
            let range = window.outputs(input, n_taps, &outputs);
            for tap in taps.clone() {
                let expected = outputs.clone().find(|&output| reads(output, tap) == Some(input));
                assert_eq!(window.output(input, tap, &outputs), expected, "{window:?} {input} {tap}");
            }
            for output in outputs.clone() {
                let covers = taps.clone().any(|tap| reads(output, tap) == Some(input));
                assert_eq!(range.contains(&output), covers, "{window:?} {input} {output}");
            }
        }
    }
}
