//! Kernels of 5x5 taps that move by one, by fewer multiplications (`convolve/five.rs`): what a tile of 2x2 outputs
//! adds to the gradients of 25 taps takes 70 products instead of 100, and behind a max pool 35.
//!
//! Down the columns, the gradients of two outputs become four values, the six pixels under them seven, and each of the seven times one of
//! the four is added to a sum of its own. What five taps get is made of these sums at the very end:
//!
//! ```text
//! e = [dy0, dy0 + dy1, dy0 - dy1, dy1]     N[q] += v[q] e[SUM_OF[q]]     dw = to_taps(N)
//! ```
//!
//! Along rows there are five sums for five taps, to which each of the two columns of a tile adds. Where the gradient comes from a pool of 2x2
//! ([`Pooled`]), its windows are the tiles, and only one column has a gradient, so that a selection of pixels takes the place of
//! the second product, and cores select beside their multiply-adds. The other column would have added zeros: the bits
//! are those of the full gradient ([`Full`]). Fewer products along both axes, 49 of them whether behind a pool or not, took longer there.
//!
//! A block of output channels by the taps of a row in registers runs over the tiles of a rectangle; its sums are added up across lanes, then over
//! rectangles and groups. Rectangles and the tiles in them are counted from the first output, so neither the channels that a call has
//! nor the blocks show in the bits.
//!
//! Rounding is relative to sums and differences of pixels, not to each product, but chains are shorter: for values as in training, the error is
//! 0.5 to 1.3 times that of the plain way, and a test holds it below 1.5. Infinities would become NaN where they are subtracted, and
//! very large values overflow, which shows in the sums, so a call with such is left to the plain way as a whole.

mod gradients;

pub(crate) use gradients::{Full, Gradients, Pooled};

use crate::convolve::Axis;
use crate::convolve::five::{PIXELS, PRODUCTS, SUM_OF, of_pixels, to_taps};
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::sums::are_moderate;
use std::marker::PhantomData;
use std::ops::Range;

/// Output channels whose gradients are made ready at a time, and those of a block in registers.
const KERNELS: usize = 8;
const BLOCK: usize = 4;

/// Vectors that the sums of a block fill, once there is an eighth of the lanes left of each.
const FOLDED: usize = (BLOCK * WIDTH).div_ceil(8);

/// Output and input channels at a time, for which sums and pixels have room in the second cache.
const MOST_KERNELS: usize = 64;
const MOST_CHANNELS: usize = 6;

/// Tiles of a rectangle along an axis.
const SIDE: usize = 8;

/// Rows and columns of taps.
const WIDTH: usize = 5;

/// The gradients of weights by fewer multiplications.
pub(crate) struct Reduced<'a, T: Real> {
    /// `x[c,iy,ix]` per group, in lanes.
    x: &'a [T::Lanes],
    n_samples: usize,
    n_kernels: usize,
    n_channels: usize,
    /// Rows and columns.
    axes: [&'a Axis; 2],
}

impl<'a, T: Real> Reduced<'a, T> {
    /// For some samples of `x`, and of output and input channels; none if that would not be quicker. That goes by the extents of the whole
    /// array of weights, so that it does not depend on how the work is cut.
    pub(crate) fn new(
        weights: &[usize],
        (x, n_samples): (&'a [T::Lanes], usize),
        [n_kernels, n_channels]: [usize; 2],
        axes: [&'a Axis; 2],
    ) -> Option<Self> {
        let is_usual = axes.iter().all(|axis| axis.window.stride == 1 && axis.taps == (0..WIDTH));
        let n_tiles: usize = axes.iter().map(|axis| axis.outputs.len().div_ceil(2)).product();
        // With few channels, or few tiles for a sum across lanes, it takes longer than what it saves.
        let pays = weights[0] >= BLOCK - 1 && n_tiles >= 16;
        let is_there = n_samples * n_kernels * n_channels > 0;
        let reduced = Reduced { x, n_samples, n_kernels, n_channels, axes };
        (is_usual && pays && is_there).then_some(reduced)
    }

    /// Adds everything to `dw`, unless something is infinite or very large. Returns whether it did.
    pub(crate) fn add<G: Gradients<T>>(&self, gradients: &G, dw: &mut [T]) -> bool {
        // What overflows shows in the sums, but where there are several parts, the first are added before the last are known.
        let is_one = self.n_kernels <= MOST_KERNELS && self.n_channels <= MOST_CHANNELS;
        let mut is_moderate = is_one || T::dispatch(Moderate { reduced: self, gradients });
        let [n_down, n_across] = self.axes.map(|axis| axis.outputs.len().div_ceil(2));
        for kernels in block_sizes(self.n_kernels, MOST_KERNELS) {
            for channels in block_sizes(self.n_channels, MOST_CHANNELS) {
                if !is_moderate {
                    return false;
                }
                let part = Part { kernels: kernels.clone(), channels };
                let [n_sums, n_pixels, n_values] = part.lens::<T, G>([n_down.min(SIDE), n_across.min(SIDE)]);
                T::scratch(n_sums + n_pixels + n_values, |scratch| {
                    let (sums, scratch) = scratch.split_at_mut(n_sums);
                    let (pixels, values) = scratch.split_at_mut(n_pixels);
                    sums.fill(T::ZERO_LANES);
                    self.part(&part, gradients, [&mut *sums, pixels, values]);
                    is_moderate =
                        T::dispatch(Taps { part: &part, n_channels: self.n_channels, sums, dw: &mut *dw });
                });
            }
        }
        is_moderate
    }

    /// The sums of products of some channels.
    fn part<G: Gradients<T>>(
        &self,
        part: &Part,
        gradients: &G,
        [sums, pixels, values]: [&mut [T::Lanes]; 3],
    ) {
        let [n_down, n_across] = self.axes.map(|axis| axis.outputs.len().div_ceil(2));
        let mut columns_of = [T::ZERO_BYTES; KERNELS * SIDE * SIDE];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            for rows in block_sizes(n_down, SIDE) {
                for columns in block_sizes(n_across, SIDE) {
                    let tiles = &Tiles::new(group, rows.clone(), columns);
                    T::dispatch(Pixels { reduced: self, part, tiles, to: &mut *pixels });
                    let mut sums = &mut *sums;
                    for kernels in block_sizes(part.kernels.len(), KERNELS) {
                        let (n_blocks, size) = blocks(kernels.len());
                        let mut planes = [0; KERNELS];
                        for (i, plane) in planes.iter_mut().enumerate() {
                            // Those beyond the last are computed like it, and left out in the end.
                            let kernel = part.kernels.start + (kernels.start + i).min(kernels.end - 1);
                            *plane = group * self.n_kernels + kernel;
                        }
                        let planes = &planes[..n_blocks * size];
                        let values = &mut values[..4 * planes.len() * G::COLUMNS * tiles.len()];
                        let columns_of = &mut columns_of[..planes.len() * tiles.len()];
                        T::dispatch(Down {
                            gradients,
                            planes,
                            tiles,
                            to: &mut *values,
                            columns_of: &mut *columns_of,
                        });
                        let here;
                        (here, sums) = sums.split_at_mut(n_blocks * part.n_sums());
                        let rectangle = (part, tiles, self.n_samples - group * T::LANES);
                        // One function each, because the compiler makes less of all in one.
                        match size {
                            1 => products::<T, G, 1>(rectangle, values, columns_of, pixels, here),
                            2 => products::<T, G, 2>(rectangle, values, columns_of, pixels, here),
                            3 => products::<T, G, 3>(rectangle, values, columns_of, pixels, here),
                            _ => products::<T, G, BLOCK>(rectangle, values, columns_of, pixels, here),
                        }
                    }
                }
            }
        }
    }
}

/// How many blocks of output channels there are of so many, and how many are in each; in the last one perhaps one fewer.
fn blocks(n_kernels: usize) -> (usize, usize) {
    let n_blocks = n_kernels.div_ceil(BLOCK);
    (n_blocks, n_kernels.div_ceil(n_blocks))
}

fn products<T: Real, G: Gradients<T>, const K: usize>(
    (part, tiles, n_valid): (&Part, &Tiles, usize),
    values: &[T::Lanes],
    columns_of: &[T::Bytes],
    pixels: &[T::Lanes],
    sums: &mut [T::Lanes],
) {
    T::dispatch(Products::<T, G, K> {
        n_channels: part.channels.len(),
        values,
        columns_of,
        places: &tiles.places[..tiles.len()],
        pixels,
        n_pixels: tiles.n_pixels(),
        n_valid,
        sums,
        gradients: PhantomData,
    });
}

/// Some output and input channels.
///
/// For each block of output channels, product down and input channel there are `FOLDED` vectors of sums, an eighth of the lanes for each tap of a
/// row of each output channel.
struct Part {
    kernels: Range<usize>,
    channels: Range<usize>,
}

impl Part {
    /// The blocks of output channels.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        block_sizes(self.kernels.len(), KERNELS).flat_map(|kernels| {
            let (n_blocks, size) = blocks(kernels.len());
            (0..n_blocks).map(move |block| {
                let first = kernels.start + block * size;
                first..(first + size).min(kernels.end)
            })
        })
    }

    /// Vectors of sums of a block of output channels.
    fn n_sums(&self) -> usize {
        self.channels.len() * PRODUCTS * FOLDED
    }

    /// Vectors of sums, of pixels under a rectangle of tiles, and of values of the gradients of some output channels.
    fn lens<T: Real, G: Gradients<T>>(&self, [n_down, n_across]: [usize; 2]) -> [usize; 3] {
        let n_pixels = self.channels.len() * PRODUCTS * n_down * (2 * n_across + 4);
        [self.blocks().count() * self.n_sums(), n_pixels, 4 * G::COLUMNS * n_down * n_across * KERNELS]
    }
}

/// A rectangle of tiles of a group.
struct Tiles {
    group: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    /// Where the pixels of each tile begin; rows of tiles do not share any.
    places: [usize; SIDE * SIDE],
}

impl Tiles {
    fn new(group: usize, rows: Range<usize>, columns: Range<usize>) -> Self {
        let mut places = [0; SIDE * SIDE];
        for (row, places) in places.chunks_mut(columns.len()).take(rows.len()).enumerate() {
            for (column, place) in places.iter_mut().enumerate() {
                *place = row * (2 * columns.len() + 4) + 2 * column;
            }
        }
        Tiles { group, rows, columns, places }
    }

    /// How many there are.
    fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Pixels across.
    fn width(&self) -> usize {
        2 * self.columns.len() + 4
    }

    /// Pixels of a channel in one product.
    fn n_pixels(&self) -> usize {
        self.rows.len() * self.width()
    }
}

struct Moderate<'a, 'b, T: Real, G> {
    reduced: &'a Reduced<'b, T>,
    gradients: &'a G,
}

impl<T: Real, G: Gradients<T>> Kernel<T> for Moderate<'_, '_, T, G> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let Reduced { x, n_samples, .. } = *self.reduced;
        are_moderate(s, &[], x, n_samples) && self.gradients.are_moderate(s, n_samples)
    }
}

/// The pixels under a rectangle in all products down: product by product, channel by channel, then rows of tiles.
struct Pixels<'a, 'b, T: Real> {
    reduced: &'a Reduced<'b, T>,
    part: &'a Part,
    tiles: &'a Tiles,
    to: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for Pixels<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Pixels { reduced, part, tiles, to } = self;
        let Reduced { x, n_channels, axes: [rows, columns], .. } = *reduced;
        let (height, width, n_across) = (rows.inputs.len(), columns.inputs.len(), tiles.width());
        // Where the first pixel of the rectangle lies; what is beyond the border has no place in its row or plane.
        let first = |axis: &Axis, tile: usize| {
            (axis.outputs.start + 2 * tile).wrapping_sub(axis.window.pad + axis.inputs.start)
        };
        let (top, left) = (first(rows, tiles.rows.start), first(columns, tiles.columns.start).cast_signed());
        // Which columns lie inside the image, and where the first of these is in memory.
        let [start, end] = [-left, width.cast_signed() - left]
            .map(|column| column.clamp(0, n_across.cast_signed()).cast_unsigned());
        let first_inside = if start < end { left.wrapping_add_unsigned(start).cast_unsigned() } else { 0 };
        let none = [T::ZERO_LANES; 2 * SIDE + 4];
        let per_product = part.channels.len() * tiles.n_pixels();
        for (c, channel) in part.channels.clone().enumerate() {
            let plane = tiles.group * n_channels + channel;
            let x = &x[plane * height * width..][..height * width];
            for down in 0..tiles.rows.len() {
                let mut under = [&none[..end - start]; PIXELS];
                for i in 0..PIXELS {
                    let at = top.wrapping_add(2 * down + i);
                    if at < height {
                        under[i] = &x[at * width + first_inside..][..end - start];
                    }
                }
                let line = c * tiles.n_pixels() + down * n_across;
                for border in [line..line + start, line + end..line + n_across] {
                    for to in lines::<_, PRODUCTS>(to, per_product, border) {
                        to.fill(T::ZERO_LANES);
                    }
                }
                let to = lines::<_, PRODUCTS>(to, per_product, line + start..line + end);
                for at in 0..end - start {
                    let mut values = [s.zero(); PIXELS];
                    for i in 0..PIXELS {
                        values[i] = s.load(&under[i][at]);
                    }
                    let products = of_pixels(s, values);
                    for i in 0..PRODUCTS {
                        s.store(products[i], &mut to[i][at]);
                    }
                }
            }
        }
    }
}

/// The same line of `N` arrays that lie behind each other, each so long.
#[inline(always)]
fn lines<V, const N: usize>(arrays: &mut [V], len: usize, line: Range<usize>) -> [&mut [V]; N] {
    let mut arrays = arrays.chunks_exact_mut(len);
    std::array::from_fn(|_| &mut arrays.next().expect("as many arrays")[line.clone()])
}

/// The values of the gradients of some output channels.
struct Down<'a, T: Real, G> {
    gradients: &'a G,
    planes: &'a [usize],
    tiles: &'a Tiles,
    to: &'a mut [T::Lanes],
    columns_of: &'a mut [T::Bytes],
}

impl<T: Real, G: Gradients<T>> Kernel<T> for Down<'_, T, G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let tiles = [&self.tiles.rows, &self.tiles.columns];
        self.gradients.down(s, self.planes, tiles, self.to, self.columns_of);
    }
}

/// The products of blocks of `K` output channels.
struct Products<'a, T: Real, G, const K: usize> {
    n_channels: usize,
    values: &'a [T::Lanes],
    columns_of: &'a [T::Bytes],
    /// Where the pixels of each tile begin.
    places: &'a [usize],
    pixels: &'a [T::Lanes],
    /// Pixels of an input channel in one product.
    n_pixels: usize,
    /// Samples from the first of the group on.
    n_valid: usize,
    /// What they are added to.
    sums: &'a mut [T::Lanes],
    gradients: PhantomData<G>,
}

impl<T: Real, G: Gradients<T>, const K: usize> Kernel<T> for Products<'_, T, G, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(mut self, s: S) {
        let sums = std::mem::take(&mut self.sums);
        let n_tiles = self.places.len();
        let per_block = self.n_channels * PRODUCTS * FOLDED;
        let (per_value, n_blocks) = (self.values.len() / 4, sums.len() / per_block);
        for (i, pixels) in
            self.pixels.chunks_exact(self.n_pixels).take(self.n_channels * PRODUCTS).enumerate()
        {
            let values = &self.values[SUM_OF[i / self.n_channels] * per_value..][..per_value];
            for block in 0..n_blocks {
                let values = &values[block * K * G::COLUMNS * n_tiles..][..K * G::COLUMNS * n_tiles];
                let columns_of = &self.columns_of[block * K * n_tiles..][..K * n_tiles];
                let sums = &mut sums[block * per_block..].as_chunks_mut().0[i];
                self.multiply(s, values, columns_of, pixels, sums);
            }
        }
    }
}

impl<T: Real, G: Gradients<T>, const K: usize> Products<'_, T, G, K> {
    /// Those of one block, input channel and product.
    #[inline(always)]
    fn multiply<S: Simd<T>>(
        &self,
        s: S,
        values: &[T::Lanes],
        columns_of: &[T::Bytes],
        pixels: &[T::Lanes],
        sums: &mut [T::Lanes; FOLDED],
    ) {
        let n_tiles = self.places.len();
        let mut all = [s.zero(); FOLDED * 8];
        if const { S::ACCUMULATORS >= BLOCK * WIDTH } {
            let chains = self.chains::<S, K>(s, values, columns_of, pixels);
            for i in 0..K {
                for j in 0..WIDTH {
                    all[i * WIDTH + j] = chains[i][j];
                }
            }
        } else {
            for i in 0..K {
                let values = &values[i * G::COLUMNS * n_tiles..][..G::COLUMNS * n_tiles];
                let chains = self.chains::<S, 1>(s, values, &columns_of[i * n_tiles..][..n_tiles], pixels);
                for j in 0..WIDTH {
                    all[i * WIDTH + j] = chains[0][j];
                }
            }
        }
        if self.n_valid < T::LANES {
            // The lanes of samples that do not exist hold anything.
            let valid = s.first(self.n_valid);
            for i in 0..K * WIDTH {
                all[i] = s.select(valid, all[i], s.zero());
            }
        }
        for i in 0..const { (K * WIDTH).div_ceil(8) } {
            let mut eight = [s.zero(); 8];
            for j in 0..8 {
                eight[j] = all[i * 8 + j];
            }
            s.store(s.add(s.load(&sums[i]), s.fold(eight)), &mut sums[i]);
        }
    }

    /// The sums of `N` output channels by lanes.
    #[inline(always)]
    fn chains<S: Simd<T>, const N: usize>(
        &self,
        s: S,
        values: &[T::Lanes],
        columns_of: &[T::Bytes],
        pixels: &[T::Lanes],
    ) -> [[S::V; WIDTH]; N] {
        let n_tiles = self.places.len();
        let mut chains = [[s.zero(); WIDTH]; N];
        let right = s.splat_bytes(1);
        let mut of_kernels = [(&values[..0], &columns_of[..0]); N];
        for i in 0..N {
            let values = &values[i * G::COLUMNS * n_tiles..][..G::COLUMNS * n_tiles];
            of_kernels[i] = (values, &columns_of[i * n_tiles..][..n_tiles]);
        }
        for (t, &place) in self.places.iter().enumerate() {
            let pixels: &[T::Lanes; PIXELS] = pixels[place..].first_chunk().expect("pixels of all tiles");
            for i in 0..N {
                let (values, columns_of) = of_kernels[i];
                if const { G::COLUMNS == 1 } {
                    let value = s.load(&values[t]);
                    let is_right = s.eq_bytes(s.load_bytes(&columns_of[t]), right);
                    for j in 0..WIDTH {
                        let pixel = s.select(is_right, s.load(&pixels[j + 1]), s.load(&pixels[j]));
                        chains[i][j] = s.mul_add(value, pixel, chains[i][j]);
                    }
                } else {
                    let (left, right) = (s.load(&values[2 * t]), s.load(&values[2 * t + 1]));
                    for j in 0..WIDTH {
                        chains[i][j] = s.mul_add(left, s.load(&pixels[j]), chains[i][j]);
                    }
                    for j in 0..WIDTH {
                        chains[i][j] = s.mul_add(right, s.load(&pixels[j + 1]), chains[i][j]);
                    }
                }
            }
        }
        chains
    }
}

/// What the sums of products are for the taps, unless one of them is infinite or very large.
struct Taps<'a, T: Real> {
    part: &'a Part,
    /// Input channels that there are weights for.
    n_channels: usize,
    sums: &'a [T::Lanes],
    dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for Taps<'_, T> {
    /// Whether it was computed.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        if !are_moderate(s, &[], self.sums, T::LANES) {
            return false;
        }
        let Part { kernels, channels } = self.part;
        // What is left of a sum.
        let n_left = const { T::LANES / 8 };
        let sums = self.sums.as_chunks::<FOLDED>().0.chunks_exact(PRODUCTS * channels.len());
        for (block, sums) in self.part.blocks().zip(sums) {
            for (c, channel) in channels.clone().enumerate() {
                let mut taps = [[T::ZERO_LANES; FOLDED]; WIDTH];
                for i in 0..FOLDED {
                    let mut products = [s.zero(); PRODUCTS];
                    for product in 0..PRODUCTS {
                        products[product] = s.load(&sums[product * channels.len() + c][i]);
                    }
                    let rows = to_taps(s, products);
                    for ky in 0..WIDTH {
                        s.store(rows[ky], &mut taps[ky][i]);
                    }
                }
                for (i, kernel) in block.clone().enumerate() {
                    let weights = (kernels.start + kernel) * self.n_channels + channel;
                    let dw = &mut self.dw[weights * WIDTH * WIDTH..][..WIDTH * WIDTH];
                    for (dw, taps) in dw.as_chunks_mut::<WIDTH>().0.iter_mut().zip(&taps) {
                        let left = &T::flat(taps)[i * WIDTH * n_left..][..WIDTH * n_left];
                        for (dw, left) in dw.iter_mut().zip(left.chunks_exact(n_left)) {
                            *dw += if n_left == 2 { left[0] + left[1] } else { left[0] };
                        }
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolve::five::values;
    use crate::simd::Isa;
    use crate::window::Window;

    /// Pixels, the gradients of a pool and their places, and those of all outputs.
    struct Example {
        n_samples: usize,
        channels: [usize; 2],
        axes: [Axis; 2],
        x: Vec<f32>,
        dy: Vec<f32>,
        arg: Vec<u8>,
        full: Vec<f32>,
    }

    impl Example {
        fn new(n_samples: usize, channels: [usize; 2], pad: usize, image: [usize; 2]) -> Self {
            let axes = image.map(|n| Axis {
                window: Window { stride: 1, pad },
                inputs: 0..n,
                taps: 0..WIDTH,
                outputs: 0..n + 2 * pad - 4,
            });
            let [height, width] = axes.each_ref().map(|axis| axis.outputs.len());
            let n_planes = n_samples.div_ceil(16) * channels[0];
            let x = values(n_samples.div_ceil(16) * channels[1] * image[0] * image[1] * 16, 1);
            let x = x.into_iter().map(|value| value.max(0.0)).collect();
            let n_windows = n_planes * (height / 2) * (width / 2);
            let (dy, arg) = (values(n_windows * 16, 2), values(n_windows * 16, 3));
            let arg: Vec<u8> = arg.iter().map(|value| (value.abs() * 16.0) as u8 % 5).collect();
            let mut full = vec![0.0; n_planes * height * width * 16];
            for (at, (&dy, &arg)) in dy.iter().zip(&arg).enumerate().filter(|(_, (_, arg))| **arg < 4) {
                let (window, lane) = (at / 16, at % 16);
                let (px, rest) = (window % (width / 2), window / (width / 2));
                let (py, plane) = (rest % (height / 2), rest / (height / 2));
                let (oy, ox) = (2 * py + usize::from(arg / 2), 2 * px + usize::from(arg % 2));
                full[((plane * height + oy) * width + ox) * 16 + lane] = dy;
            }
            Example { n_samples, channels, axes, x, dy, arg, full }
        }

        fn reduced(&self, gradients: &impl Gradients<f32>) -> Vec<f32> {
            let mut dw = vec![0.0; self.channels[0] * self.channels[1] * WIDTH * WIDTH];
            let (x, axes) = ((f32::lanes(&self.x), self.n_samples), self.axes.each_ref());
            let reduced = Reduced::new(&self.channels, x, self.channels, axes).expect("a usual form");
            assert!(reduced.add(gradients, &mut dw));
            dw
        }

        fn full<'a>(&self, dy: &'a [f32]) -> Full<'a, f32> {
            let [height, width] = self.axes.each_ref().map(|axis| axis.outputs.len());
            Full { dy: f32::lanes(dy), height, width }
        }

        /// What `add` gives for each lane, and for the sum over lanes, of every pixel and gradient of a weight.
        fn plain(&self, dy: &[f32], at: [usize; 4]) -> (f32, f64) {
            let [k, c, ky, kx] = at;
            let [height, width] = self.axes.each_ref().map(|axis| axis.outputs.len());
            let [rows, columns] = self.axes.each_ref().map(|axis| axis.inputs.len());
            let pad = self.axes[0].window.pad;
            let (mut lanes, mut exact) = ([0.0f32; 16], 0.0);
            for sample in 0..self.n_samples {
                let (group, lane) = (sample / 16, sample % 16);
                let mut chain = 0.0f32;
                for (oy, ox) in (0..height).flat_map(|oy| (0..width).map(move |ox| (oy, ox))) {
                    let (Some(iy), Some(ix)) = ((oy + ky).checked_sub(pad), (ox + kx).checked_sub(pad))
                    else {
                        continue;
                    };
                    if iy < rows && ix < columns {
                        let x =
                            self.x[(((group * self.channels[1] + c) * rows + iy) * columns + ix) * 16 + lane];
                        let dy =
                            dy[(((group * self.channels[0] + k) * height + oy) * width + ox) * 16 + lane];
                        chain = x.mul_add(dy, chain);
                        exact += f64::from(x) * f64::from(dy);
                    }
                }
                lanes[lane] += chain;
            }
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            (lanes[0], exact)
        }
    }

    #[test]
    fn it_rounds_about_as_the_plain_way_does() {
        for (n_samples, channels, pad, image) in [
            (16, [16, 6], 0, [14, 14]),
            (37, [9, 5], 2, [11, 12]),
            (16, [7, 3], 2, [28, 28]),
            (16, [6, 1], 2, [28, 28]),
        ] {
            let example = Example::new(n_samples, channels, pad, image);
            let all = values(example.full.len(), 4);
            for dy in [&example.full, &all] {
                let reduced = example.reduced(&example.full(dy));
                let mut squares = [0.0; 2];
                for (at, reduced) in reduced.iter().enumerate() {
                    let place = [at / 25 / channels[1], at / 25 % channels[1], at / 5 % 5, at % 5];
                    let (plain, exact) = example.plain(dy, place);
                    squares[0] += (f64::from(*reduced) - exact).powi(2);
                    squares[1] += (f64::from(plain) - exact).powi(2);
                }
                let [reduced, plain] = squares.map(|sum| (sum / reduced.len() as f64).sqrt());
                println!("{channels:?}, {image:?}: {reduced:.2e} and {plain:.2e}, {:.2}", reduced / plain);
                assert!(reduced < 1.5 * plain, "{channels:?}, {image:?}: {reduced:e} and {plain:e}");
            }
        }
    }

    #[test]
    fn what_overflows_is_left_alone() {
        // Of one part, and of two.
        for channels in [[7, 3], [7, 13]] {
            for (pixel, gradient) in [(f32::INFINITY, 1.0), (1.0, f32::NAN), (3e38, 1.0), (1e30, 1e30)] {
                let mut example = Example::new(16, channels, 0, [12, 12]);
                // The middle of an image, of a sample whose window has a gradient.
                example.x[(2 * 144 + 6 * 12 + 6) * 16..][..16].fill(pixel);
                example.full[(4 * 64 + 3 * 8 + 3) * 16..][..16].fill(gradient);
                let mut dw = vec![1.0; channels[0] * channels[1] * WIDTH * WIDTH];
                let (x, axes) = ((f32::lanes(&example.x), 16), example.axes.each_ref());
                let reduced = Reduced::new(&channels, x, channels, axes).expect("a usual form");
                assert!(!reduced.add(&example.full(&example.full), &mut dw), "{pixel} and {gradient}");
                assert!(dw.iter().all(|&value| value == 1.0));
            }
        }
    }

    /// From the pooled gradient and from the full one, on every instruction set, for odd sizes and groups, and for a part of the channels.
    #[test]
    fn the_bits_are_the_same() {
        for (n_samples, channels, pad, image) in [
            (16, [16, 6], 0, [14, 14]),
            (5, [7, 3], 2, [9, 10]),
            (33, [13, 4], 3, [8, 7]),
            (17, [9, 14], 1, [23, 12]),
            (16, [70, 3], 0, [12, 13]),
            (19, [6, 1], 2, [28, 28]),
            (16, [3, 2], 2, [8, 9]),
            (16, [5, 1], 0, [12, 22]),
        ] {
            let mut example = Example::new(n_samples, channels, pad, image);
            // Lanes without a sample, and windows without a gradient.
            for group in [&mut example.x, &mut example.dy, &mut example.full] {
                let first = group.len() - group.len() / n_samples.div_ceil(16);
                for (i, value) in group[first..].iter_mut().enumerate() {
                    *value = if i % 16 < (n_samples - 1) % 16 + 1 { *value } else { f32::NAN };
                }
            }
            for (value, arg) in example.dy.iter_mut().zip(&example.arg).filter(|(_, arg)| **arg == 4) {
                *value = f32::from(*arg) / 0.0;
            }
            let full = example.full(&example.full);
            let pooled = Pooled {
                dy: f32::lanes(&example.dy),
                arg: f32::bytes(&example.arg),
                height: full.height / 2,
                width: full.width / 2,
            };
            let expected = example.reduced(&full);
            assert!(expected.iter().all(|value| value.is_finite() && *value != 0.0));
            for isa in Isa::available() {
                let [from_full, from_pooled] =
                    isa.force(|| [example.reduced(&full), example.reduced(&pooled)]);
                assert!(from_full == expected && from_pooled == expected, "{isa}, {channels:?}");
            }
        }
    }
}
