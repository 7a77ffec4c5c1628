//! Kernels of 5x5 taps that move by one, over several channels, by fewer multiplications (`convolve/five.rs`): what a tile of 2x2 outputs
//! adds to the gradients of 25 taps takes 49 products instead of 100.
//!
//! Along one axis, the gradients of two outputs become four values, the six pixels under them seven, and each of the seven times one of
//! the four is added to a sum of its own. What five taps get is made of these sums at the very end:
//!
//! ```text
//! e = [dy0, dy0 + dy1, dy0 - dy1, dy1]     N[q] += v[q] e[SUM_OF[q]]     dw = to_taps(N)
//! ```
//!
//! Along both axes there are 16 values of a tile's gradients and 49 of its pixels, of which only the sums down the columns are kept in
//! memory: those across are additions, which units do beside the multiply-adds. A block of output by input channels in registers runs over the
//! tiles of a rectangle; its sums are added up across lanes, then over rectangles and groups. Rectangles and the tiles in them are counted from the first
//! output, so neither the channels that a call has nor the blocks show in the bits.
//!
//! Where the gradient comes from a pool of 2x2, its windows are the tiles, and the values are made from the pooled gradient
//! ([`Pooled`]), which gives the bits of the full one.
//!
//! Rounding is relative to sums and differences of pixels, not to each product, but chains are shorter: for values as in training, the error is
//! 0.6 to 1.7 times that of the plain way, and a test holds it below twice. Infinities would become NaN where they are subtracted, and
//! very large values overflow, so a call with such is left to the plain way as a whole.

mod gradients;

pub(in crate::op) use gradients::{Full, Gradients, Pooled};

use crate::op::convolve::Axis;
use crate::op::convolve::five::{PIXELS, PRODUCTS, SUM_OF, of_gradients, of_pixels, to_taps};
use crate::op::real::Real;
use crate::op::simd::{Kernel, Simd, block_sizes};
use crate::op::sums::are_moderate;
use std::ops::Range;

/// Output and input channels of a block in registers.
const KERNELS: usize = 8;
const CHANNELS: usize = 3;

/// Output and input channels at a time, for which sums and pixels have room in the second cache.
const MOST_KERNELS: usize = 64;
const MOST_CHANNELS: usize = 12;

/// Tiles of a rectangle along an axis.
const SIDE: usize = 8;

/// Rows and columns of taps.
const WIDTH: usize = 5;

/// The gradients of weights by fewer multiplications.
pub(in crate::op) struct Reduced<'a, T: Real> {
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
    pub(in crate::op) fn new(
        weights: &[usize],
        (x, n_samples): (&'a [T::Lanes], usize),
        [n_kernels, n_channels]: [usize; 2],
        axes: [&'a Axis; 2],
    ) -> Option<Self> {
        let is_usual = axes.iter().all(|axis| axis.window.stride == 1 && axis.taps == (0..WIDTH));
        let n_tiles: usize = axes.iter().map(|axis| axis.outputs.len().div_ceil(2)).product();
        // With few channels, or few tiles for a sum across lanes, it takes longer than what it saves.
        let pays = weights[0] >= KERNELS - 1 && weights[1] >= CHANNELS && n_tiles >= 16;
        let is_there = n_samples * n_kernels * n_channels > 0;
        let reduced = Reduced { x, n_samples, n_kernels, n_channels, axes };
        (is_usual && pays && is_there).then_some(reduced)
    }

    /// Adds everything to `dw`, unless something is infinite or very large. Returns whether it did.
    pub(in crate::op) fn add(&self, gradients: &impl Gradients<T>, dw: &mut [T]) -> bool {
        if !T::dispatch(Moderate { reduced: self, gradients }) {
            return false;
        }
        for kernels in block_sizes(self.n_kernels, MOST_KERNELS) {
            for channels in block_sizes(self.n_channels, MOST_CHANNELS) {
                let part = Part { kernels: kernels.clone(), channels };
                let [n_sums, n_pixels, n_values] = part.lens::<T>();
                T::scratch(n_sums + n_pixels + n_values, |scratch| {
                    let (sums, scratch) = scratch.split_at_mut(n_sums);
                    let (pixels, values) = scratch.split_at_mut(n_pixels);
                    sums.fill(T::ZERO_LANES);
                    self.part(&part, gradients, [&mut *sums, pixels, values]);
                    T::dispatch(Taps { part: &part, n_channels: self.n_channels, sums, dw: &mut *dw });
                });
            }
        }
        true
    }

    /// The sums of products of some channels.
    fn part(&self, part: &Part, gradients: &impl Gradients<T>, [sums, pixels, values]: [&mut [T::Lanes]; 3]) {
        let [n_down, n_across] = self.axes.map(|axis| axis.outputs.len().div_ceil(2));
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            for rows in block_sizes(n_down, SIDE) {
                for columns in block_sizes(n_across, SIDE) {
                    let mut places = [0; SIDE * SIDE];
                    for (t, place) in places.iter_mut().enumerate() {
                        let (row, column) = (t / columns.len(), t % columns.len());
                        *place = row * (2 * columns.len() + 4) + 2 * column;
                    }
                    let mut rectangle = Rectangle {
                        reduced: self,
                        part,
                        tiles: &Tiles { group, rows: rows.clone(), columns: columns.clone(), places },
                        gradients,
                        sums: &mut *sums,
                        pixels: &mut *pixels,
                        values: &mut *values,
                    };
                    rectangle.row::<0, 0, 1>(0..2);
                    rectangle.row::<1, 2, 3>(2..4);
                    rectangle.row::<2, 4, 4>(4..5);
                    rectangle.row::<3, 5, 6>(5..7);
                }
            }
        }
    }
}

/// Some output and input channels.
///
/// Of each product there is a vector of sums for each block of output channels and each input channel: those of an output channel are an
/// eighth of its lanes.
struct Part {
    kernels: Range<usize>,
    channels: Range<usize>,
}

impl Part {
    /// Blocks of output channels; those beyond the last channel are computed like it, and left out in the end.
    fn n_blocks(&self) -> usize {
        self.kernels.len().div_ceil(KERNELS)
    }

    /// Vectors of sums of a product, so many that whole sums fill vectors too.
    fn n_sums<T: Real>(&self) -> usize {
        (self.n_blocks() * self.channels.len()).next_multiple_of(T::LANES / KERNELS)
    }

    /// Vectors of sums, of pixels for two rows of products, and of two values of the gradients of a block of output channels.
    fn lens<T: Real>(&self) -> [usize; 3] {
        let n_pixels = 2 * self.channels.len() * SIDE * (2 * SIDE + 4);
        [PRODUCTS * PRODUCTS * self.n_sums::<T>(), n_pixels, 2 * SIDE * SIDE * KERNELS]
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
    /// How many there are.
    fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Pixels across.
    fn width(&self) -> usize {
        2 * self.columns.len() + 4
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

/// The products of a rectangle.
struct Rectangle<'a, 'b, T: Real, G> {
    reduced: &'a Reduced<'b, T>,
    part: &'a Part,
    tiles: &'a Tiles,
    gradients: &'a G,
    /// What they are added to.
    sums: &'a mut [T::Lanes],
    pixels: &'a mut [T::Lanes],
    values: &'a mut [T::Lanes],
}

impl<T: Real, G: Gradients<T>> Rectangle<'_, '_, T, G> {
    /// All products of the row `A` of values of the gradients: `P` and `Q` down.
    fn row<const A: usize, const P: usize, const Q: usize>(&mut self, down: Range<usize>) {
        T::dispatch(Pixels::<T, G, P, Q>(self));
        for block in 0..self.part.n_blocks() {
            T::dispatch(Down::<T, G, A>(self, block));
            self.products::<0>(block, &down);
            self.products::<1>(block, &down);
            self.products::<5>(block, &down);
            self.products::<6>(block, &down);
            T::dispatch(Across::<T>(self.values, self.tiles.len()));
            self.products::<2>(block, &down);
            self.products::<3>(block, &down);
            self.products::<4>(block, &down);
        }
    }

    /// The products `Q` across, of a block of output channels and all input channels, with these products down.
    fn products<const Q: usize>(&mut self, block: usize, down: &Range<usize>) {
        let n_channels = self.part.channels.len();
        let n_pixels = self.tiles.rows.len() * self.tiles.width();
        for (row, down) in down.clone().enumerate() {
            let first = (down * PRODUCTS + Q) * self.part.n_sums::<T>() + block * n_channels;
            let [left, right] = sides(self.values, self.tiles.len());
            T::dispatch(Products::<T, Q> {
                values: if SUM_OF[Q] < 2 { left } else { right },
                pixels: &self.pixels[row * n_channels * n_pixels..],
                n_pixels,
                places: &self.tiles.places,
                n_valid: self.reduced.n_samples - self.tiles.group * T::LANES,
                sums: &mut self.sums[first..][..n_channels],
            });
        }
    }

    /// The pixels of all channels in the products `P` and `Q` down, which may be the same: blocks of channels, pixel by pixel.
    #[inline(always)]
    fn pixels<S: Simd<T>, const P: usize, const Q: usize>(&mut self, s: S) {
        let Reduced { x, n_channels, axes: [rows, columns], .. } = *self.reduced;
        let (part, tiles, n_across) = (self.part, self.tiles, self.tiles.width());
        let (height, width) = (rows.inputs.len(), columns.inputs.len());
        // Where the first pixel of the rectangle lies; what is beyond the border has no place in its row or plane.
        let first = |axis: &Axis, tile: usize| {
            (axis.outputs.start + 2 * tile).wrapping_sub(axis.window.pad + axis.inputs.start)
        };
        let (top, left) = (first(rows, tiles.rows.start), first(columns, tiles.columns.start));
        let n_pixels = tiles.rows.len() * n_across;
        let (to_p, to_q) = self.pixels.split_at_mut(part.channels.len() * n_pixels);
        for first in (0..part.channels.len()).step_by(CHANNELS) {
            let block = first..(first + CHANNELS).min(part.channels.len());
            let step = block.len();
            for (i, channel) in block.clone().enumerate() {
                let channel = tiles.group * n_channels + part.channels.start + channel;
                let x = &x[channel * height * width..][..height * width];
                for down in 0..tiles.rows.len() {
                    let here = block.start * n_pixels + down * n_across * step..;
                    let (to_p, to_q) = (&mut to_p[here.clone()], &mut to_q[here]);
                    let above = top.wrapping_add(2 * down);
                    let mut under = [&x[..0]; PIXELS];
                    let is_inside = above < height
                        && height - above >= PIXELS
                        && left < width
                        && width - left >= n_across;
                    for j in 0..PIXELS {
                        let at = above.wrapping_add(j);
                        under[j] = match at < height {
                            true if is_inside => &x[at * width + left..][..n_across],
                            true => &x[at * width..][..width],
                            false => &[],
                        };
                    }
                    let [to_p, to_q] = [to_p, to_q].map(|to| to[..n_across * step].chunks_exact_mut(step));
                    for (at, (to_p, to_q)) in to_p.zip(to_q).enumerate() {
                        let mut values = [s.zero(); PIXELS];
                        for j in 0..PIXELS {
                            if is_inside {
                                values[j] = s.load(&under[j][at]);
                            } else if let Some(value) = under[j].get(left.wrapping_add(at)) {
                                values[j] = s.load(value);
                            }
                        }
                        let products = of_pixels(s, values);
                        s.store(products[P], &mut to_p[i]);
                        if P != Q {
                            s.store(products[Q], &mut to_q[i]);
                        }
                    }
                }
            }
        }
    }

    /// The values `A` down of the gradients of a block of output channels, tile by tile: those of left columns, then of right ones.
    #[inline(always)]
    fn down<S: Simd<T>, const A: usize>(&mut self, s: S, block: usize) {
        let Tiles { group, ref rows, ref columns, .. } = *self.tiles;
        // Those beyond the last are computed like it, and left out in the end.
        let planes = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| {
            let kernel = self.part.kernels.start + block * KERNELS + i;
            group * self.reduced.n_kernels + kernel.min(self.part.kernels.end - 1)
        });
        let to = sides(self.values, self.tiles.len());
        self.gradients.down::<S, A>(s, planes, [rows, columns], to);
    }
}

/// The values of left and right columns of so many tiles.
#[inline(always)]
fn sides<V>(values: &mut [V], n_tiles: usize) -> [&mut [[V; KERNELS]]; 2] {
    let (left, right) = values.as_chunks_mut().0.split_at_mut(n_tiles);
    [left, &mut right[..n_tiles]]
}

struct Pixels<'a, 'b, 'c, T: Real, G, const P: usize, const Q: usize>(&'a mut Rectangle<'b, 'c, T, G>);

impl<T: Real, G: Gradients<T>, const P: usize, const Q: usize> Kernel<T> for Pixels<'_, '_, '_, T, G, P, Q> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        self.0.pixels::<S, P, Q>(s);
    }
}

struct Down<'a, 'b, 'c, T: Real, G, const A: usize>(&'a mut Rectangle<'b, 'c, T, G>, usize);

impl<T: Real, G: Gradients<T>, const A: usize> Kernel<T> for Down<'_, '_, '_, T, G, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        self.0.down::<S, A>(s, self.1);
    }
}

/// Of the values across, left and right columns are the first and the last; puts the others in their place: sum and difference.
struct Across<'a, T: Real>(&'a mut [T::Lanes], usize);

impl<T: Real> Kernel<T> for Across<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let [left, right] = sides(self.0, self.1).map(<[_]>::as_flattened_mut);
        for (left, right) in left.iter_mut().zip(right) {
            let [_, sum, difference, _] = of_gradients(s, [s.load(left), s.load(right)]);
            s.store(sum, left);
            s.store(difference, right);
        }
    }
}

/// One product down and the product `Q` across, of a block of output channels and all input channels.
struct Products<'a, T: Real, const Q: usize> {
    values: &'a [[T::Lanes; KERNELS]],
    /// Those of all input channels, in blocks.
    pixels: &'a [T::Lanes],
    /// Pixels of a channel.
    n_pixels: usize,
    /// Where the pixels of each tile begin.
    places: &'a [usize],
    /// Samples from the first of the group on.
    n_valid: usize,
    /// What they are added to, a vector for each input channel.
    sums: &'a mut [T::Lanes],
}

impl<T: Real, const Q: usize> Kernel<T> for Products<'_, T, Q> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let mut pixels = self.pixels;
        for sums in self.sums.chunks_mut(CHANNELS) {
            let (here, rest) = pixels.split_at(sums.len() * self.n_pixels);
            pixels = rest;
            let tiles = (here, self.places);
            match sums.len() {
                3 => multiply::<T, S, 3, Q>(s, self.values, tiles, self.n_valid, sums),
                2 => multiply::<T, S, 2, Q>(s, self.values, tiles, self.n_valid, sums),
                _ => multiply::<T, S, 1, Q>(s, self.values, tiles, self.n_valid, sums),
            }
        }
    }
}

/// A block of output channels by `X` input channels: the sums over tiles of values of gradients times what pixels are in the product `Q`.
/// Pixels are those of all `X` channels side by side, and those of each tile begin at a place.
#[inline(always)]
fn multiply<T: Real, S: Simd<T>, const X: usize, const Q: usize>(
    s: S,
    values: &[[T::Lanes; KERNELS]],
    (pixels, places): (&[T::Lanes], &[usize]),
    n_valid: usize,
    sums: &mut [T::Lanes],
) {
    let tiles = (pixels.as_chunks::<X>().0, places);
    let mut all = [[s.zero(); KERNELS]; X];
    if const { S::ACCUMULATORS >= KERNELS * CHANNELS } {
        all = chains::<T, S, KERNELS, X, Q>(s, values, tiles, 0);
    } else {
        for first in (0..KERNELS).step_by(2) {
            let some = chains::<T, S, 2, X, Q>(s, values, tiles, first);
            for j in 0..X {
                all[j][first..first + 2].copy_from_slice(&some[j]);
            }
        }
    }
    if n_valid < T::LANES {
        // The lanes of samples that do not exist hold anything.
        let valid = s.first(n_valid);
        for j in 0..X {
            for i in 0..KERNELS {
                all[j][i] = s.select(valid, all[j][i], s.zero());
            }
        }
    }
    for j in 0..X {
        s.store(s.add(s.load(&sums[j]), s.fold(all[j])), &mut sums[j]);
    }
}

/// The same of `K` output channels from `first` on, by lanes.
#[inline(always)]
fn chains<T: Real, S: Simd<T>, const K: usize, const X: usize, const Q: usize>(
    s: S,
    values: &[[T::Lanes; KERNELS]],
    (pixels, places): (&[[T::Lanes; X]], &[usize]),
    first: usize,
) -> [[S::V; K]; X] {
    let mut chains = [[s.zero(); K]; X];
    for (values, &place) in values.iter().zip(places) {
        let pixels: &[[T::Lanes; X]; PIXELS] = pixels[place..].first_chunk().expect("pixels of all tiles");
        let mut products = [s.zero(); X];
        for j in 0..X {
            let mut d = [s.zero(); PIXELS];
            for i in 0..PIXELS {
                d[i] = s.load(&pixels[i][j]);
            }
            products[j] = of_pixels(s, d)[Q];
        }
        for i in 0..K {
            let value = s.load(&values[first + i]);
            for j in 0..X {
                chains[j][i] = s.mul_add(value, products[j], chains[j][i]);
            }
        }
    }
    chains
}

/// What the sums of products are for the taps, a vector of pairs of channels at a time.
struct Taps<'a, T: Real> {
    part: &'a Part,
    /// Input channels that there are weights for.
    n_channels: usize,
    sums: &'a [T::Lanes],
    dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for Taps<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Part { kernels, channels } = self.part;
        // What is left of a sum, and as many vectors as give one of whole sums.
        let n_left = const { T::LANES / KERNELS };
        let n_sums = self.part.n_sums::<T>();
        for first in (0..n_sums).step_by(n_left) {
            let mut rows = [[s.zero(); PRODUCTS]; WIDTH];
            for across in 0..PRODUCTS {
                let mut sums = [s.zero(); PRODUCTS];
                for down in 0..PRODUCTS {
                    let left = &self.sums[(down * PRODUCTS + across) * n_sums + first..][..n_left];
                    let mut whole = T::ZERO_LANES;
                    for (whole, left) in whole.as_mut().iter_mut().zip(T::flat(left).chunks_exact(n_left)) {
                        *whole = if n_left == 2 { left[0] + left[1] } else { left[0] };
                    }
                    sums[down] = s.load(&whole);
                }
                let taps = to_taps(s, sums);
                for ky in 0..WIDTH {
                    rows[ky][across] = taps[ky];
                }
            }
            let mut results = [[T::ZERO_LANES; WIDTH]; WIDTH];
            for ky in 0..WIDTH {
                let taps = to_taps(s, rows[ky]);
                for kx in 0..WIDTH {
                    s.store(taps[kx], &mut results[ky][kx]);
                }
            }
            for lane in 0..T::LANES {
                let vector = first + lane / KERNELS;
                let (block, channel) = (vector / channels.len(), vector % channels.len());
                let kernel = kernels.start + block * KERNELS + lane % KERNELS;
                if kernel < kernels.end {
                    let weights = kernel * self.n_channels + channels.start + channel;
                    let dw = &mut self.dw[weights * WIDTH * WIDTH..][..WIDTH * WIDTH];
                    for (dw, result) in dw.iter_mut().zip(results.as_flattened()) {
                        *dw += result.as_ref()[lane];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::convolve::five::values;
    use crate::op::simd::Isa;
    use crate::op::window::Window;

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
        for (n_samples, channels, pad, image) in
            [(16, [16, 6], 0, [14, 14]), (37, [9, 5], 2, [11, 12]), (16, [7, 3], 2, [28, 28])]
        {
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
                assert!(reduced < 2.0 * plain, "{channels:?}, {image:?}: {reduced:e} and {plain:e}");
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
