//! Kernels of 3x3 taps that move by one, over many channels, by fewer multiplications: Winograd's F(2x2, 3x3).
//!
//! Along one axis, two outputs of three taps `g` over four pixels `d` need four products instead of six:
//!
//! ```text
//! m0 = (d0 - d2) g0                     y0 = m0 + m1 + m2
//! m1 = (d1 + d2) (g0 + g1 + g2) / 2     y1 = m1 - m2 - m3
//! m2 = (d2 - d1) (g0 - g1 + g2) / 2
//! m3 = (d1 - d3) g2
//! ```
//!
//! Along both, a tile of 2x2 outputs needs 16 instead of 36. Pixels, weights and products are transformed once each, and the products,
//! sums over input channels, are what takes the time: for each of 16 places a block of output channels by tiles in registers.
//! With 32 channels to 32, the transformations of pixels and products are about a tenth of the operations.
//!
//! Each output is a sum of 9 chains of multiply-adds over the input channels, instead of one chain over channels and taps. It
//! depends on no pixel but those under its own taps. Rounding is relative to the largest of these and not to each product, but chains are shorter:
//! for values as in training the error is mostly below that of the plain convolution, to which a test holds it. Which pixels
//! make a tile is counted from the first output of a call. Infinities would become NaN where they are subtracted, and very large values overflow, so a
//! call with such is left to the plain convolution as a whole.

use super::{Axis, Convolution, Finish, RESIDENT, STACK_TAPS};
use crate::op::real::Real;
use crate::op::simd::{Kernel, Simd};
use crate::op::sums::are_moderate;
use std::ops::Range;

/// Tiles and output channels of a block in registers.
const TILES: usize = 4;
const KERNELS: usize = 4;

/// Products per tile.
const PLACES: usize = 16;

/// Input channels at a time: then the transformed pixels of one block of tiles have room in `RESIDENT`.
const CHANNELS: usize = RESIDENT / (PLACES * TILES);

/// Vectors of transformed weights at a time: 512 KiB.
const WEIGHTS: usize = 8192;

pub(super) struct Reduced<'a, 'b, T: Real> {
    pub(super) convolution: &'a Convolution<'b, T>,
    pub(super) y: &'a mut [T::Lanes],
    /// As much as `reduced_len`.
    pub(super) scratch: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for Reduced<'_, '_, T> {
    /// Whether it was computed: not if something is infinite or very large.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let Convolution { x, w, n_samples, .. } = *self.convolution;
        let is_moderate = are_moderate(s, w, x, n_samples);
        if is_moderate {
            self.convolution.reduced(s, self.y, self.scratch);
        }
        is_moderate
    }
}

/// How a convolution is cut.
struct Cut {
    /// Input channels at a time, and so many that vectors of weights are full.
    n_channels: usize,
    n_full: usize,
    /// Output channels whose weights are transformed at a time.
    n_outputs: usize,
    /// Tiles whose pixels are transformed at a time.
    n_tiles: usize,
}

impl Cut {
    /// Vectors of transformed pixels, and of weights.
    fn pixels_len(&self) -> usize {
        self.n_tiles * PLACES * self.n_full
    }

    fn weights_len<T: Real>(&self) -> usize {
        self.n_outputs * PLACES * self.n_full / T::LANES
    }
}

/// Input channels of one vector of weights, which has those of a block of output channels side by side.
const fn per_vector<T: Real>() -> usize {
    T::LANES / KERNELS
}

/// Some channels and tiles of a convolution.
struct Pass<'a> {
    cut: &'a Cut,
    channels: Range<usize>,
    outputs: Range<usize>,
    group: usize,
    /// Tiles are counted row by row.
    tiles: Range<usize>,
}

impl<T: Real> Convolution<'_, T> {
    /// Whether its form allows for it. With few channels or tiles the transformations take longer than what they save, and
    /// where pools are fused, sums must be those of the plain convolution (see `conv2d_relu_max_pool`).
    pub(super) fn is_reducible(&self) -> bool {
        let is_usual = |axis: &Axis| axis.window.stride == 1 && axis.taps == (0..3);
        let is_side_by_side = (self.steps.row, self.steps.column) == (3, 1);
        let (n_down, n_across) = self.n_tiles_along();
        let is_large =
            self.n_inputs * 9 > STACK_TAPS && self.n_outputs >= 2 * KERNELS && n_down * n_across >= TILES;
        is_usual(&self.rows) && is_usual(&self.columns) && is_side_by_side && is_large
    }

    /// Vectors that it needs: transformed pixels, then weights.
    pub(super) fn reduced_len(&self) -> usize {
        let cut = self.reduced_cut();
        cut.pixels_len() + cut.weights_len::<T>()
    }

    fn reduced_cut(&self) -> Cut {
        // Passes of nearly the same size.
        let n_channels = self.n_inputs.div_ceil(self.n_inputs.div_ceil(CHANNELS));
        let n_full = n_channels.next_multiple_of(per_vector::<T>());
        let most_outputs = WEIGHTS * T::LANES / (PLACES * n_full) / KERNELS * KERNELS;
        let (n_down, n_across) = self.n_tiles_along();
        let most_tiles = RESIDENT / (PLACES * n_full) / TILES * TILES;
        Cut {
            n_channels,
            n_full,
            n_outputs: most_outputs.min(self.n_outputs.next_multiple_of(KERNELS)),
            n_tiles: most_tiles.min((n_down * n_across).next_multiple_of(TILES)),
        }
    }

    /// Tiles along rows and columns.
    fn n_tiles_along(&self) -> (usize, usize) {
        (self.rows.outputs.len().div_ceil(2), self.columns.outputs.len().div_ceil(2))
    }

    /// All outputs.
    #[inline(always)]
    fn reduced<S: Simd<T>>(&self, s: S, y: &mut [T::Lanes], scratch: &mut [T::Lanes]) {
        let cut = &self.reduced_cut();
        let (pixels, weights) = scratch.split_at_mut(cut.pixels_len());
        let (n_down, n_across) = self.n_tiles_along();
        for first_channel in (0..self.n_inputs).step_by(cut.n_channels) {
            let channels = first_channel..(first_channel + cut.n_channels).min(self.n_inputs);
            for first_output in (0..self.n_outputs).step_by(cut.n_outputs) {
                let outputs = first_output..(first_output + cut.n_outputs).min(self.n_outputs);
                self.transform_weights(s, cut, &channels, &outputs, weights);
                for group in 0..self.n_groups() {
                    for first_tile in (0..n_down * n_across).step_by(cut.n_tiles) {
                        let tiles = first_tile..(first_tile + cut.n_tiles).min(n_down * n_across);
                        let (channels, outputs) = (channels.clone(), outputs.clone());
                        let pass = Pass { cut, channels, outputs, group, tiles };
                        self.transform_pixels(s, &pass, pixels);
                        self.products(s, &pass, pixels, weights, y);
                    }
                }
            }
        }
    }

    /// The weights of a block of output channels and as many input channels as fill a vector, place by place, then of the next
    /// input channels, then of the next block.
    #[inline(always)]
    fn transform_weights<S: Simd<T>>(
        &self,
        s: S,
        cut: &Cut,
        channels: &Range<usize>,
        outputs: &Range<usize>,
        to: &mut [T::Lanes],
    ) {
        let steps = &self.steps;
        let n_vectors = cut.n_full / per_vector::<T>();
        for (block, to) in to.chunks_exact_mut(PLACES * n_vectors).enumerate() {
            for vector in 0..n_vectors {
                let mut taps = [T::ZERO_LANES; 9];
                for lane in 0..T::LANES {
                    let o = outputs.start + block * KERNELS + lane % KERNELS;
                    let i = channels.start + vector * per_vector::<T>() + lane / KERNELS;
                    if o < outputs.end && i < channels.end {
                        let w = &self.w[steps.first + o * steps.output + i * steps.input..];
                        let w: &[T; 9] = w.first_chunk().expect("taps side by side");
                        for tap in 0..9 {
                            taps[tap].as_mut()[lane] = w[tap];
                        }
                    }
                }
                let mut rows = [[s.zero(); 4]; 3];
                for ky in 0..3 {
                    let [a, b, c] =
                        [s.load(&taps[3 * ky]), s.load(&taps[3 * ky + 1]), s.load(&taps[3 * ky + 2])];
                    rows[ky] = of_taps(s, [a, b, c]);
                }
                for column in 0..4 {
                    let places = of_taps(s, [rows[0][column], rows[1][column], rows[2][column]]);
                    for row in 0..4 {
                        s.store(places[row], &mut to[(row * 4 + column) * n_vectors + vector]);
                    }
                }
            }
        }
    }

    /// The pixels of a block of tiles side by side, channel by channel, place by place, then of the next block.
    #[inline(always)]
    fn transform_pixels<S: Simd<T>>(&self, s: S, pass: &Pass<'_>, to: &mut [T::Lanes]) {
        let (height, width) = (self.rows.inputs.len(), self.columns.inputs.len());
        let n_across = self.n_tiles_along().1;
        let n_full = pass.cut.n_full;
        // Where the first pixel of the first tile lies; what is beyond the border has no place in its row or plane.
        let first = |axis: &Axis| axis.outputs.start.wrapping_sub(axis.window.pad + axis.inputs.start);
        let (top, left) = (first(&self.rows), first(&self.columns));
        let place =
            |at: usize, n: usize| if self.is_turned { n.wrapping_sub(at).wrapping_sub(1) } else { at };
        let plane = height * width;
        for c in 0..n_full {
            let channel = pass.group * self.n_inputs + pass.channels.start + c;
            let is_there = c < pass.channels.len();
            let x = if is_there { &self.x[channel * plane..][..plane] } else { &[] };
            let mut rows = [&x[..0]; 4];
            let at = |column: usize| place(left.wrapping_add(column), width);
            let mut before = [[s.zero(); 4]; 2];
            let mut down = pass.tiles.start / n_across;
            let mut across = pass.tiles.start % n_across;
            for i in 0..pass.tiles.len().next_multiple_of(TILES) {
                let is_first = i == 0 || across == 0;
                if is_first {
                    for (j, row) in rows.iter_mut().enumerate() {
                        let at = place(top.wrapping_add(2 * down + j), height);
                        *row = if is_there && at < height { &x[at * width..][..width] } else { &[] };
                    }
                    before = [column(s, rows, at(2 * across)), column(s, rows, at(2 * across + 1))];
                }
                let after = [column(s, rows, at(2 * across + 2)), column(s, rows, at(2 * across + 3))];
                let to = &mut to[(i / TILES * PLACES * n_full + c) * TILES + i % TILES..];
                for row in 0..4 {
                    let places = of_pixels(s, [before[0][row], before[1][row], after[0][row], after[1][row]]);
                    for column in 0..4 {
                        s.store(places[column], &mut to[(row * 4 + column) * n_full * TILES]);
                    }
                }
                before = after;
                across += 1;
                if across == n_across {
                    (down, across) = (down + 1, 0);
                }
            }
        }
    }

    /// Sums of products over the channels of a pass, and what becomes of them.
    #[inline(always)]
    fn products<S: Simd<T>>(
        &self,
        s: S,
        pass: &Pass<'_>,
        pixels: &[T::Lanes],
        weights: &[T::Lanes],
        y: &mut [T::Lanes],
    ) {
        let n_full = pass.cut.n_full;
        let n_vectors = n_full / per_vector::<T>();
        let mut sums = [T::ZERO_LANES; PLACES * KERNELS * TILES];
        let blocks = weights.chunks_exact(PLACES * n_vectors);
        for (output, weights) in pass.outputs.clone().step_by(KERNELS).zip(blocks) {
            let blocks = pixels.chunks_exact(PLACES * n_full * TILES);
            for (tile, pixels) in pass.tiles.clone().step_by(TILES).zip(blocks) {
                let places = weights.chunks_exact(n_vectors).zip(pixels.chunks_exact(n_full * TILES));
                for ((weights, pixels), sums) in places.zip(sums.chunks_exact_mut(KERNELS * TILES)) {
                    if const { S::ACCUMULATORS >= KERNELS * TILES } {
                        multiply::<T, S, TILES>(s, weights, pixels, 0, sums);
                    } else {
                        for first in 0..TILES {
                            multiply::<T, S, 1>(s, weights, pixels, first, sums);
                        }
                    }
                }
                for k in 0..KERNELS.min(pass.outputs.end - output) {
                    for t in 0..TILES.min(pass.tiles.end - tile) {
                        self.tile(s, pass, &sums[k * TILES + t..], (output + k, tile + t), y);
                    }
                }
            }
        }
    }

    /// Writes one tile of one output channel; `sums` has its 16 places, a block apart.
    #[inline(always)]
    fn tile<S: Simd<T>>(
        &self,
        s: S,
        pass: &Pass<'_>,
        sums: &[T::Lanes],
        (output, tile): (usize, usize),
        y: &mut [T::Lanes],
    ) {
        let mut columns = [[s.zero(); 2]; 4];
        for column in 0..4 {
            let mut places = [s.zero(); 4];
            for row in 0..4 {
                places[row] = s.load(&sums[(row * 4 + column) * KERNELS * TILES]);
            }
            columns[column] = outputs(s, places);
        }
        let is_last = pass.channels.end == self.n_inputs;
        let add = self.accumulate || pass.channels.start > 0;
        let bias = match self.bias {
            Some(bias) if pass.channels.start == 0 => s.splat(bias[output]),
            _ => s.zero(),
        };
        let n_across = self.n_tiles_along().1;
        let (down, across) = (2 * (tile / n_across), 2 * (tile % n_across));
        let first = (pass.group * self.n_outputs + output) * self.planes.len + self.planes.first;
        for i in 0..2.min(self.rows.outputs.len() - down) {
            let row = first.wrapping_add_signed((down + i).cast_signed() * self.planes.row);
            let values = outputs(s, [columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
            for j in 0..2.min(self.columns.outputs.len() - across) {
                let at = row.wrapping_add_signed((across + j).cast_signed() * self.planes.column);
                let before = if add { s.load(&y[at]) } else { s.zero() };
                let sum = s.add(before, s.add(bias, values[j]));
                let result = match self.finish {
                    Finish::Rectified if is_last => s.max(s.zero(), sum),
                    Finish::Sum | Finish::Rectified => sum,
                    Finish::Where(rectified) => s.select(s.gt(s.load(&rectified[at]), s.zero()), sum, before),
                };
                s.store(result, &mut y[at]);
            }
        }
    }
}

/// One place of a block of output channels by the `X` tiles from `first`: the sum over input channels of weights times pixels.
#[inline(always)]
fn multiply<T: Real, S: Simd<T>, const X: usize>(
    s: S,
    weights: &[T::Lanes],
    pixels: &[T::Lanes],
    first: usize,
    sums: &mut [T::Lanes],
) {
    let mut chains = [[s.zero(); X]; KERNELS];
    for (weights, pixels) in weights.iter().zip(pixels.chunks_exact(T::LANES / KERNELS * TILES)) {
        let weights = weights.as_ref();
        for c in 0..T::LANES / KERNELS {
            let mut values = [s.zero(); X];
            for j in 0..X {
                values[j] = s.load(&pixels[c * TILES + first + j]);
            }
            for i in 0..KERNELS {
                let weight = s.splat(weights[c * KERNELS + i]);
                for j in 0..X {
                    chains[i][j] = s.mul_add(weight, values[j], chains[i][j]);
                }
            }
        }
    }
    for i in 0..KERNELS {
        for j in 0..X {
            s.store(chains[i][j], &mut sums[i * TILES + first + j]);
        }
    }
}

/// One column of a tile's pixels, transformed; zero where a row has no such place.
#[inline(always)]
fn column<T: Real, S: Simd<T>>(s: S, rows: [&[T::Lanes]; 4], at: usize) -> [S::V; 4] {
    let mut values = [s.zero(); 4];
    for i in 0..4 {
        if let Some(value) = rows[i].get(at) {
            values[i] = s.load(value);
        }
    }
    of_pixels(s, values)
}

/// Four pixels as the products need them.
#[inline(always)]
fn of_pixels<T: Real, S: Simd<T>>(s: S, [a, b, c, d]: [S::V; 4]) -> [S::V; 4] {
    [s.sub(a, c), s.add(b, c), s.sub(c, b), s.sub(b, d)]
}

/// Three taps as the products need them.
#[inline(always)]
fn of_taps<T: Real, S: Simd<T>>(s: S, [a, b, c]: [S::V; 3]) -> [S::V; 4] {
    let half = s.splat(T::from_f64(0.5));
    let ends = s.add(a, c);
    [a, s.mul(half, s.add(ends, b)), s.mul(half, s.sub(ends, b)), c]
}

/// The two outputs of four products.
#[inline(always)]
fn outputs<T: Real, S: Simd<T>>(s: S, [a, b, c, d]: [S::V; 4]) -> [S::V; 2] {
    [s.add(s.add(a, b), c), s.sub(s.sub(b, c), d)]
}

#[cfg(test)]
mod tests {
    use super::super::{Plain, PlaneSteps, WeightSteps};
    use super::*;
    use crate::op::window::Window;

    /// Values like those of images and weights in training, the same every time.
    fn values(n: usize, seed: u64, is_rectified: bool) -> Vec<f32> {
        let mut state = seed;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        (0..n)
            .map(|_| uniform() + uniform() + uniform())
            .map(|value| if is_rectified { value.max(0.0) } else { value })
            .collect()
    }

    /// The error of the reduced and of the plain convolution, in root mean squares, for images of so many channels and pixels.
    fn errors(n_channels: usize, pad: usize, image: [usize; 2], is_turned: bool, finish: usize) -> [f64; 2] {
        let (n_outputs, n_samples) = (10, 19);
        let axis = |n: usize| Axis {
            window: Window { stride: 1, pad },
            inputs: 0..n,
            taps: 0..3,
            outputs: 0..n + 2 * pad - 2,
        };
        let [rows, columns] = image.map(axis);
        let [height, width] = image;
        let (n_down, n_across) = (rows.outputs.len(), columns.outputs.len());
        let x = values(n_channels * height * width * 32, 1, true);
        let w = values(n_outputs * n_channels * 9, 2, false);
        let bias = values(n_outputs, 3, false);
        let rectified = values(n_outputs * n_down * n_across * 32, 4, true);
        let convolution = Convolution {
            x: f32::lanes(&x),
            is_turned,
            w: &w,
            steps: WeightSteps::whole(n_channels, 3, 3),
            bias: Some(&bias),
            accumulate: true,
            finish: [Finish::Sum, Finish::Rectified, Finish::Where(f32::lanes(&rectified))][finish],
            n_samples,
            n_inputs: n_channels,
            n_outputs,
            planes: PlaneSteps::whole(n_down, n_across),
            rows,
            columns,
            resident: RESIDENT,
        };
        assert!(convolution.is_reducible());
        let mut reduced = vec![1.0; n_outputs * n_down * n_across * 32];
        let mut plain = reduced.clone();
        convolution.run(f32::lanes_mut(&mut reduced));
        f32::scratch(convolution.copied_len(), |scratch| {
            let (convolution, y) = (&convolution, f32::lanes_mut(&mut plain));
            f32::dispatch(Plain::<f32, 3> { convolution, y, scratch });
        });
        assert!(reduced != plain, "other roundings");
        let mut squares = [0.0; 2];
        for (at, (&reduced, &plain)) in reduced.iter().zip(&plain).enumerate() {
            let (r, c, lane) = (at / 16 / n_across % n_down, at / 16 % n_across, at % 16);
            let (o, group) =
                (at / 16 / n_across / n_down % n_outputs, at / 16 / n_across / n_down / n_outputs);
            if group * 16 + lane >= n_samples {
                continue;
            }
            let mut sum = 1.0 + f64::from(bias[o]);
            for i in 0..n_channels {
                for ky in 0..3 {
                    for kx in 0..3 {
                        let (Some(iy), Some(ix)) = ((r + ky).checked_sub(pad), (c + kx).checked_sub(pad))
                        else {
                            continue;
                        };
                        if iy < height && ix < width {
                            let pixel = iy * width + ix;
                            let pixel = if is_turned { height * width - 1 - pixel } else { pixel };
                            let x = x[((group * n_channels + i) * height * width + pixel) * 16 + lane];
                            sum += f64::from(x) * f64::from(w[(o * n_channels + i) * 9 + ky * 3 + kx]);
                        }
                    }
                }
            }
            let sum = match finish {
                1 => sum.max(0.0),
                2 if rectified[at] <= 0.0 => 1.0,
                _ => sum,
            };
            squares[0] += (f64::from(reduced) - sum).powi(2);
            squares[1] += (f64::from(plain) - sum).powi(2);
        }
        squares.map(|sum| (sum / plain.len() as f64).sqrt())
    }

    #[test]
    fn it_rounds_about_as_the_plain_convolution_does() {
        for is_turned in [false, true] {
            for (n_channels, pad, image) in
                [(29, 1, [8, 8]), (32, 0, [5, 6]), (64, 2, [1, 7]), (130, 1, [7, 1]), (128, 1, [9, 6])]
            {
                for finish in 0..3 {
                    let [reduced, plain] = errors(n_channels, pad, image, is_turned, finish);
                    println!("{n_channels} channels, {image:?}: {reduced:.2e} and {plain:.2e}");
                    assert!(reduced < 1.5 * plain, "{n_channels} channels: {reduced:e} and {plain:e}");
                }
            }
        }
    }
}
