//! The gradient of the input for 5x5 taps that move by one, by fewer multiplications: each tile of 2x2 outputs adds to the 6x6 pixels under it.
//!
//! Along each axis two outputs of five taps take 7 products for 10 (`op/convolve/five.rs`), so a tile takes 49 for 100, each of them a chain
//! of multiply-adds over the output channels. In registers are 7 products of a row for up to three tiles side by side. What the gradients are in
//! the products is not kept but made anew for each row and channel: that is two or four additions per seven multiply-adds, which run beside
//! them, and nothing but `dy` itself, two rows of it at a time, has to be near.
//!
//! Where tiles overlap they are added from left to right, then from top to bottom; rows of pixels that are not yet whole wait in a band.
//! 41 µs were measured for 16 samples of `lenet5`'s second convolution, where the multiply-adds alone need 32 and the plain convolution takes 75.
//!
//! Rounding is relative to the largest gradients of a tile and not to each product, but chains are shorter: for values as in training and 16
//! output channels the error is 0.5 to 0.8 of that of one chain per pixel. A test holds it to that. Infinities would become NaN where they are
//! subtracted, and very large values overflow, so a call with such is left to the plain convolution as a whole. Which outputs
//! make a tile is counted from the first of a call.

use crate::convolve::Finish;
use crate::convolve::block::unrolled;
use crate::convolve::five::{PIXELS, PRODUCTS, SUM_OF, of_gradients, of_taps, to_pixels};
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::sums::are_moderate;
use crate::window::Window;
use std::ops::Range;
use std::slice::ChunksExact;

/// Rows and columns of taps.
pub(super) const TAPS: usize = 5;

/// Rows and columns of pixels that a tile shares with the next one.
const SHARED: usize = PIXELS - 2;

/// Tiles side by side in registers, where there are many.
const TILES: usize = 3;

/// Vectors of transformed weights at a time: 256 KiB.
const WEIGHTS: usize = 4096;

/// Vectors of a row of tiles, at most: 256 KiB.
const ROW: usize = 4096;

/// Planes of a multiple of so many vectors lie on few lines of the first cache.
const CROWDED: usize = 32;

/// A gradient of an input by a convolution that moves by one.
pub(super) struct Scattered<'a, T: Real> {
    /// `dy[k,oy,ox]` per group.
    pub(super) dy: &'a [T::Lanes],
    /// `w[k,c,ky,kx]`, all taps.
    pub(super) w: &'a [T],
    pub(super) n_samples: usize,
    pub(super) n_kernels: usize,
    pub(super) n_channels: usize,
    pub(super) pad: usize,
    /// Which rows and columns `dy` and `dx` hold.
    pub(super) oys: Range<usize>,
    pub(super) oxs: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Whether to add to what is there.
    pub(super) accumulate: bool,
    pub(super) finish: Finish<'a, T>,
}

/// The same, where its result goes to, and `scratch_len` vectors.
struct Run<'a, 'b, T: Real> {
    scattered: &'a Scattered<'b, T>,
    dx: &'a mut [T::Lanes],
    scratch: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for Run<'_, '_, T> {
    /// Whether it was computed: not if something is infinite or very large.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let Scattered { dy, w, n_samples, .. } = *self.scattered;
        let is_moderate = are_moderate(s, w, dy, n_samples);
        if is_moderate {
            self.scattered.all(s, self.dx, self.scratch);
        }
        is_moderate
    }
}

/// The gradients of a row of tiles: a plane per output channel, and where its two rows begin.
#[derive(Clone)]
struct TileRow<'a, T: Real> {
    planes: ChunksExact<'a, T::Lanes>,
    upper: usize,
    lower: usize,
}

impl<T: Real> Scattered<'_, T> {
    /// Computes it, if that pays and nothing is infinite or very large: says whether it did.
    pub(super) fn run(&self, dx: &mut [T::Lanes]) -> bool {
        self.is_large()
            && T::scratch(self.scratch_len(), |scratch| T::dispatch(Run { scattered: self, dx, scratch }))
    }

    /// Whether it pays: not with few output channels, where the sums at the end take longer than what is saved, nor where the plain
    /// convolution multiplies little more, because most taps are beyond a border or tiles have outputs that do not exist.
    fn is_large(&self) -> bool {
        let window = Window { stride: 1, pad: self.pad };
        let n_inside = |outputs: &Range<usize>, pixels: &Range<usize>| -> usize {
            outputs.clone().map(|output| window.taps(output, &(0..TAPS), pixels).len()).sum()
        };
        let n_plain = n_inside(&self.oys, &self.rows) * n_inside(&self.oxs, &self.columns);
        let (n_down, n_across) = self.n_tiles_along();
        let n_products = n_down * n_across * PRODUCTS * PRODUCTS;
        let is_row_small = n_across * 4 * self.n_kernels <= ROW;
        self.n_channels > 0 && self.n_kernels >= 4 && n_products * 5 <= n_plain * 4 && is_row_small
    }

    /// Tiles along rows and columns.
    fn n_tiles_along(&self) -> (usize, usize) {
        (self.oys.len().div_ceil(2), self.oxs.len().div_ceil(2))
    }

    /// Columns under a row of tiles.
    fn n_under(&self) -> usize {
        2 * self.n_tiles_along().1 + SHARED
    }

    /// Input channels whose weights are transformed at a time, and vectors of weights of one.
    fn cut(&self) -> (usize, usize) {
        let per_channel = PRODUCTS * PRODUCTS * self.n_kernels.div_ceil(T::LANES);
        ((WEIGHTS / per_channel).clamp(1, self.n_channels), per_channel)
    }

    /// Vectors that it needs: weights and a band for each channel, a row of tiles of `dy`, and the products of a channel of it.
    fn scratch_len(&self) -> usize {
        let (n_channels, per_channel) = self.cut();
        let row = 4 * self.n_tiles_along().1 * self.n_kernels;
        n_channels * (per_channel + SHARED * self.n_under()) + row + PRODUCTS * self.n_under()
    }

    /// All pixels.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, dx: &mut [T::Lanes], scratch: &mut [T::Lanes]) {
        let (n_together, per_channel) = self.cut();
        let (n_down, n_across) = self.n_tiles_along();
        let n_under = self.n_under();
        let (weights, scratch) = scratch.split_at_mut(n_together * per_channel);
        let (bands, scratch) = scratch.split_at_mut(n_together * SHARED * n_under);
        let (bands, _) = bands.as_chunks_mut::<SHARED>();
        let (copy, sums) = scratch.split_at_mut(4 * n_across * self.n_kernels);
        let (sums, _) = sums.as_chunks_mut::<PRODUCTS>();
        for first in (0..self.n_channels).step_by(n_together) {
            let channels = first..(first + n_together).min(self.n_channels);
            for (channel, weights) in channels.clone().zip(weights.chunks_exact_mut(per_channel)) {
                self.transform_weights(s, channel, weights);
            }
            for group in 0..self.n_samples.div_ceil(T::LANES) {
                for down in 0..n_down {
                    let tiles = self.tile_row(s, group, down, copy);
                    let weights = weights.chunks_exact(per_channel);
                    let bands = bands.chunks_exact_mut(n_under);
                    for ((channel, weights), band) in channels.clone().zip(weights).zip(bands) {
                        self.products(s, &tiles, weights, sums);
                        let plane = group * self.n_channels + channel;
                        if down + 1 < n_down {
                            self.add::<S, false>(s, (plane, down), sums, band, dx);
                        } else {
                            self.add::<S, true>(s, (plane, down), sums, band, dx);
                        }
                    }
                }
            }
        }
        if !self.accumulate {
            self.clear(s, dx);
        }
    }

    /// The weights of one input channel: for each row of products, then for as many output channels as fill a vector, its columns.
    #[inline(always)]
    fn transform_weights<S: Simd<T>>(&self, s: S, channel: usize, to: &mut [T::Lanes]) {
        const N: usize = TAPS * TAPS;
        let (to, _) = to.as_chunks_mut::<PRODUCTS>();
        let n_vectors = self.n_kernels.div_ceil(T::LANES);
        for vector in 0..n_vectors {
            let mut taps = [T::ZERO_LANES; N];
            for lane in 0..T::LANES.min(self.n_kernels - vector * T::LANES) {
                let k = vector * T::LANES + lane;
                let w = &self.w[(k * self.n_channels + channel) * N..];
                let w: &[T; N] = w.first_chunk().expect("taps side by side");
                for tap in 0..N {
                    taps[tap].as_mut()[lane] = w[tap];
                }
            }
            let mut columns = [[s.zero(); PRODUCTS]; TAPS];
            for kx in 0..TAPS {
                let mut column = [s.zero(); TAPS];
                for ky in 0..TAPS {
                    column[ky] = s.load(&taps[ky * TAPS + kx]);
                }
                columns[kx] = of_taps(s, column);
            }
            for row in 0..PRODUCTS {
                let mut taps = [s.zero(); TAPS];
                for kx in 0..TAPS {
                    taps[kx] = columns[kx][row];
                }
                let products = of_taps(s, taps);
                for column in 0..PRODUCTS {
                    s.store(products[column], &mut to[row * n_vectors + vector][column]);
                }
            }
        }
    }

    /// The gradients of a row of tiles: `dy` itself, or a copy with zeros beyond its end, which is also taken where planes would push
    /// each other out of the cache.
    #[inline(always)]
    fn tile_row<'a, S: Simd<T>>(
        &'a self,
        s: S,
        group: usize,
        down: usize,
        copy: &'a mut [T::Lanes],
    ) -> TileRow<'a, T> {
        let (height, width) = (self.oys.len(), self.oxs.len());
        let n_rows = 2.min(height - 2 * down);
        let plane = height * width;
        let dy = &self.dy[group * self.n_kernels * plane..][..self.n_kernels * plane];
        if n_rows == 2 && width.is_multiple_of(2) && !plane.is_multiple_of(CROWDED) {
            return TileRow {
                planes: dy.chunks_exact(plane),
                upper: 2 * down * width,
                lower: (2 * down + 1) * width,
            };
        }
        let row = width.next_multiple_of(2);
        for (dy, copy) in dy.chunks_exact(plane).zip(copy.chunks_exact_mut(2 * row)) {
            for (i, copy) in copy.chunks_exact_mut(row).enumerate() {
                let dy = if i < n_rows { &dy[(2 * down + i) * width..][..width] } else { &[] };
                for (at, to) in copy.iter_mut().enumerate() {
                    s.store(
                        dy.get(at).map_or(
                            s.zero(),
                            #[inline(always)]
                            |dy| s.load(dy),
                        ),
                        to,
                    );
                }
            }
        }
        TileRow { planes: copy.chunks_exact(2 * row), upper: 0, lower: row }
    }

    /// The products of a row of tiles for one channel, their columns already made into those of pixels.
    #[inline(always)]
    fn products<S: Simd<T>>(
        &self,
        s: S,
        tiles: &TileRow<'_, T>,
        weights: &[T::Lanes],
        sums: &mut [[T::Lanes; PRODUCTS]],
    ) {
        let most = if const { S::ACCUMULATORS >= TILES * PRODUCTS } { TILES } else { 1 };
        for block in block_sizes(self.n_tiles_along().1, most) {
            let (upper, lower) = (tiles.upper + 2 * block.start, tiles.lower + 2 * block.start);
            let dy = &TileRow { upper, lower, planes: tiles.planes.clone() };
            let (sums, is_first) = (&mut sums[2 * block.start..], block.start == 0);
            if const { S::ACCUMULATORS < TILES * PRODUCTS } {
                rows::<T, S, 1>(s, dy, weights, is_first, sums);
            } else {
                match block.len() {
                    1 => rows::<T, S, 1>(s, dy, weights, is_first, sums),
                    2 => rows::<T, S, 2>(s, dy, weights, is_first, sums),
                    _ => rows::<T, S, 3>(s, dy, weights, is_first, sums),
                }
            }
        }
    }

    /// Adds a row of tiles to the six rows of pixels under it. The first two of them, or all if it is the `LAST`, are written.
    #[inline(always)]
    fn add<S: Simd<T>, const LAST: bool>(
        &self,
        s: S,
        (plane, down): (usize, usize),
        sums: &[[T::Lanes; PRODUCTS]],
        band: &mut [[T::Lanes; SHARED]],
        dx: &mut [T::Lanes],
    ) {
        let (n_rows, n_columns) = (self.rows.len(), self.columns.len());
        // Where the first pixel under the tiles lies; before the image, that is beyond its end.
        let top = (self.oys.start + 2 * down).wrapping_sub(self.pad + self.rows.start);
        let left = self.oxs.start.wrapping_sub(self.pad + self.columns.start);
        let mut lines = [None; PIXELS];
        for i in 0..PIXELS {
            let row = top.wrapping_add(i);
            if row < n_rows {
                lines[i] = Some((plane * n_rows + row) * n_columns);
            }
        }
        for (column, (sums, band)) in sums.iter().zip(band).enumerate() {
            let at = left.wrapping_add(column);
            if at >= n_columns {
                continue;
            }
            let mut products = [s.zero(); PRODUCTS];
            for row in 0..PRODUCTS {
                products[row] = s.load(&sums[row]);
            }
            let mut pixels = to_pixels(s, products);
            if down > 0 {
                for i in 0..SHARED {
                    pixels[i] = s.add(s.load(&band[i]), pixels[i]);
                }
            }
            if !LAST {
                for i in 0..SHARED {
                    s.store(pixels[i + 2], &mut band[i]);
                }
            }
            for i in 0..if LAST { PIXELS } else { 2 } {
                if let Some(line) = lines[i] {
                    self.write(s, pixels[i], line + at, dx);
                }
            }
        }
    }

    /// Writes one pixel.
    #[inline(always)]
    fn write<S: Simd<T>>(&self, s: S, sum: S::V, at: usize, dx: &mut [T::Lanes]) {
        let to = &mut dx[at];
        let (before, sum) = if self.accumulate {
            let before = s.load(to);
            (before, s.add(before, sum))
        } else {
            (s.zero(), sum)
        };
        let sum = match self.finish {
            Finish::Where(y) => s.select(s.gt(s.load(&T::lanes(y)[at]), s.zero()), sum, before),
            _ => sum,
        };
        s.store(sum, to);
    }

    /// Pixels that no tile reaches are zero.
    #[inline(always)]
    fn clear<S: Simd<T>>(&self, s: S, dx: &mut [T::Lanes]) {
        let reached = |n_tiles: usize, start: usize, pixels: &Range<usize>| {
            let first = (start.max(self.pad) - self.pad).max(pixels.start);
            let end = (start + 2 * n_tiles + SHARED).saturating_sub(self.pad).min(pixels.end);
            first - pixels.start..end.max(first) - pixels.start
        };
        let (n_down, n_across) = self.n_tiles_along();
        let rows = reached(n_down, self.oys.start, &self.rows);
        let columns = reached(n_across, self.oxs.start, &self.columns);
        let n_rows = self.rows.len();
        if rows == (0..n_rows) && columns == (0..self.columns.len()) {
            return;
        }
        for (line, dx) in dx.chunks_exact_mut(self.columns.len()).enumerate() {
            for (column, to) in dx.iter_mut().enumerate() {
                if !(rows.contains(&(line % n_rows)) && columns.contains(&column)) {
                    s.store(s.zero(), to);
                }
            }
        }
    }
}

/// All rows of products of a block of `X` tiles for one channel.
#[inline(always)]
fn rows<T: Real, S: Simd<T>, const X: usize>(
    s: S,
    tiles: &TileRow<'_, T>,
    weights: &[T::Lanes],
    is_first: bool,
    sums: &mut [[T::Lanes; PRODUCTS]],
) {
    let (weights, _) = weights.as_chunks::<PRODUCTS>();
    let n_vectors = weights.len() / PRODUCTS;
    let sums = &mut sums[..2 * X + SHARED];
    for row in 0..PRODUCTS {
        let weights = &weights[row * n_vectors..][..n_vectors];
        let products = match SUM_OF[row] {
            0 => chains::<T, S, X, 0>(s, tiles, weights),
            1 => chains::<T, S, X, 1>(s, tiles, weights),
            2 => chains::<T, S, X, 2>(s, tiles, weights),
            _ => chains::<T, S, X, 3>(s, tiles, weights),
        };
        // Each tile is added to those on its left.
        let mut shared = [s.zero(); SHARED];
        if !is_first {
            for i in 0..SHARED {
                shared[i] = s.load(&sums[i][row]);
            }
        }
        unrolled!(x < X, {
            let pixels = to_pixels(s, products[x]);
            s.store(s.add(shared[0], pixels[0]), &mut sums[2 * x][row]);
            s.store(s.add(shared[1], pixels[1]), &mut sums[2 * x + 1][row]);
            shared = [s.add(shared[2], pixels[2]), s.add(shared[3], pixels[3]), pixels[4], pixels[5]];
        });
        for i in 0..SHARED {
            s.store(shared[i], &mut sums[2 * X + i][row]);
        }
    }
}

/// One row of products of `X` tiles: the sums over output channels. The row's gradients are the `A`-th of `of_gradients`.
#[inline(always)]
fn chains<T: Real, S: Simd<T>, const X: usize, const A: usize>(
    s: S,
    tiles: &TileRow<'_, T>,
    weights: &[[T::Lanes; PRODUCTS]],
) -> [[S::V; PRODUCTS]; X] {
    let mut sums = [[s.zero(); PRODUCTS]; X];
    let mut planes = tiles.planes.clone();
    for weights in weights {
        for k in 0..planes.len().min(T::LANES) {
            let Some(plane) = planes.next() else { break };
            let (upper, lower) = (pairs::<T, X>(plane, tiles.upper), pairs::<T, X>(plane, tiles.lower));
            let mut w = [s.zero(); PRODUCTS];
            for column in 0..PRODUCTS {
                w[column] = s.splat(weights[column].as_ref()[k]);
            }
            unrolled!(x < X, {
                let left = of_pair::<T, S, A>(s, &upper[x][0], &lower[x][0]);
                let right = of_pair::<T, S, A>(s, &upper[x][1], &lower[x][1]);
                let gradients = of_gradients(s, [left, right]);
                for column in 0..PRODUCTS {
                    sums[x][column] = s.mul_add(w[column], gradients[SUM_OF[column]], sums[x][column]);
                }
            });
        }
    }
    sums
}

/// The pairs from a place on.
#[inline(always)]
fn pairs<T: Real, const X: usize>(plane: &[T::Lanes], first: usize) -> &[[T::Lanes; 2]; X] {
    plane[first..].as_chunks::<2>().0.first_chunk().expect("as many pairs as tiles")
}

/// The `A`-th of what `of_gradients` gives.
#[inline(always)]
fn of_pair<T: Real, S: Simd<T>, const A: usize>(s: S, upper: &T::Lanes, lower: &T::Lanes) -> S::V {
    match A {
        0 => s.load(upper),
        1 => s.add(s.load(upper), s.load(lower)),
        2 => s.sub(s.load(upper), s.load(lower)),
        _ => s.load(lower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolve::five::values;
    use crate::simd::Isa;

    /// Which rows and columns there are of `dy` and `dx`.
    struct Parts {
        outputs: [Range<usize>; 2],
        pixels: [Range<usize>; 2],
        pad: usize,
    }

    impl Parts {
        /// All of so many outputs.
        fn whole(outputs: [usize; 2], pad: usize) -> Self {
            Parts { outputs: outputs.map(|n| 0..n), pixels: outputs.map(|n| 0..n + 4 - 2 * pad), pad }
        }
    }

    /// The error of it and of one chain per pixel, in root mean squares.
    fn errors(
        parts: &Parts,
        [n_kernels, n_channels]: [usize; 2],
        accumulate: bool,
        is_where: bool,
    ) -> [f64; 2] {
        let n_samples = 19;
        let Parts { outputs: [oys, oxs], pixels: [rows, columns], pad } = parts;
        let n_pixels = n_channels * rows.len() * columns.len();
        let dy = values(n_kernels * oys.len() * oxs.len() * 32, 1);
        let w = values(n_kernels * n_channels * 25, 2);
        let y = values(n_pixels * 32, 3);
        let scattered = Scattered {
            dy: f32::lanes(&dy),
            w: &w,
            n_samples,
            n_kernels,
            n_channels,
            pad: *pad,
            oys: oys.clone(),
            oxs: oxs.clone(),
            rows: rows.clone(),
            columns: columns.clone(),
            accumulate,
            finish: if is_where { Finish::Where(&y) } else { Finish::Sum },
        };
        let mut dx = vec![1.0; n_pixels * 32];
        assert!(scattered.run(f32::lanes_mut(&mut dx)), "it pays");
        for isa in Isa::available() {
            let mut other = vec![1.0; n_pixels * 32];
            assert!(isa.force(|| scattered.run(f32::lanes_mut(&mut other))));
            assert!(dx == other, "{isa}");
        }
        let window = Window { stride: 1, pad: *pad };
        let mut squares = [0.0; 2];
        for (at, &found) in dx.iter().enumerate() {
            let (lane, column, row) =
                (at % 16, at / 16 % columns.len(), at / 16 / columns.len() % rows.len());
            let plane = at / 16 / columns.len() / rows.len();
            let (c, group) = (plane % n_channels, plane / n_channels);
            if group * 16 + lane >= n_samples {
                continue;
            }
            let before = if accumulate { 1.0 } else { 0.0 };
            let (mut exact, mut plain) = (f64::from(before), before);
            for k in 0..n_kernels {
                for ky in 0..5 {
                    for kx in 0..5 {
                        let oy = window.output(row + rows.start, ky, oys);
                        let ox = window.output(column + columns.start, kx, oxs);
                        let (Some(oy), Some(ox)) = (oy, ox) else { continue };
                        let plane = (group * n_kernels + k) * oys.len() * oxs.len();
                        let dy = dy[(plane + (oy - oys.start) * oxs.len() + ox - oxs.start) * 16 + lane];
                        let w = w[(k * n_channels + c) * 25 + ky * 5 + kx];
                        exact += f64::from(dy) * f64::from(w);
                        plain = dy.mul_add(w, plain);
                    }
                }
            }
            if is_where && y[at] <= 0.0 {
                assert!(found.to_bits() == before.to_bits());
                continue;
            }
            squares[0] += (f64::from(found) - exact).powi(2);
            squares[1] += (f64::from(plain) - exact).powi(2);
        }
        squares.map(|sum| (sum / dx.len() as f64).sqrt())
    }

    #[test]
    fn it_rounds_about_as_one_chain_per_pixel_does() {
        let cut = Parts { outputs: [1..9, 2..9], pixels: [2..14, 0..10], pad: 1 };
        let apart = Parts { outputs: [4..8, 0..6], pixels: [0..14, 0..14], pad: 0 };
        let whole = [([10, 10], 0), ([4, 4], 0), ([9, 11], 2), ([12, 16], 3), ([13, 7], 1), ([2, 12], 0)];
        let whole = whole.map(|(outputs, pad)| Parts::whole(outputs, pad));
        for parts in whole.iter().chain([&cut, &apart]) {
            for channels in [[16, 2], [4, 1], [19, 1]] {
                for (accumulate, is_where) in [(false, false), (true, true)] {
                    let [scattered, plain] = errors(parts, channels, accumulate, is_where);
                    let Parts { outputs, pixels, pad } = parts;
                    let case = format!("{outputs:?} {pixels:?} {pad} {channels:?} {accumulate} {is_where}");
                    println!("{case}: {scattered:.2e} and {plain:.2e}, {:.2}", scattered / plain);
                    assert!(scattered < 1.5 * plain, "{case}: {scattered:e} and {plain:e}");
                }
            }
        }
    }

    #[test]
    fn what_is_infinite_or_very_large_is_left_to_others() {
        let (w, mut dx) = ([1.0f32; 4 * 25], [0.0f32; 8 * 8 * 16]);
        let mut run = |at: usize, value: f32| {
            let mut dy = vec![1.0; 4 * 4 * 4 * 16];
            dy[at] = value;
            let scattered = Scattered {
                dy: f32::lanes(&dy),
                w: &w,
                n_samples: 15,
                n_kernels: 4,
                n_channels: 1,
                pad: 0,
                oys: 0..4,
                oxs: 0..4,
                rows: 0..8,
                columns: 0..8,
                accumulate: false,
                finish: Finish::Sum,
            };
            scattered.run(f32::lanes_mut(&mut dx))
        };
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e17] {
            assert!(!run(37 * 16 + 3, value), "{value}");
            assert!(run(37 * 16 + 15, value), "{value} of a sample that does not exist");
        }
        assert!(run(5, 1e16) && run(6, 1e-30));
    }
}
