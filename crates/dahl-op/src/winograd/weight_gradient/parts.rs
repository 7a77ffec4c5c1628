//! How the work is cut, and what pixels and gradients of a part are in the products.

use super::{BLOCK, FOLDED, Gradients, KERNELS, SIDE, WIDTH, WeightGradient};
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::winograd::transform::PRODUCTS;
use crate::winograd::under::Under;
use std::ops::Range;

/// How many blocks of output channels there are of so many, and how many are in each; in the last one perhaps
/// one fewer.
pub(super) fn blocks(n_kernels: usize) -> (usize, usize) {
    let n_blocks = n_kernels.div_ceil(BLOCK);
    (n_blocks, n_kernels.div_ceil(n_blocks))
}

/// Some output and input channels.
///
/// For each block of output channels, product down and input channel there are `FOLDED` vectors of sums, an
/// eighth of the lanes for each tap of a row of each output channel.
pub(super) struct Part {
    pub(super) kernels: Range<usize>,
    pub(super) channels: Range<usize>,
}

impl Part {
    /// The blocks of output channels.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        block_sizes(self.kernels.len(), KERNELS).flat_map(|kernels| {
            let (n_blocks, size) = blocks(kernels.len());
            (0..n_blocks).map(move |block| {
                let first = kernels.start + block * size;
                first..(first + size).min(kernels.end)
            })
        })
    }

    /// Vectors of sums of a block of output channels.
    pub(super) fn n_sums(&self) -> usize {
        self.channels.len() * PRODUCTS * FOLDED
    }

    /// Vectors of sums, of pixels under a rectangle of tiles, and of values of the gradients of some output
    /// channels.
    pub(super) fn lens<T: Real, G: Gradients<T>>(&self, [n_down, n_across]: [usize; 2]) -> [usize; 3] {
        let n_pixels = self.channels.len() * PRODUCTS * n_down * (2 * n_across + 4);
        [self.blocks().count() * self.n_sums(), n_pixels, 4 * G::COLUMNS * n_down * n_across * KERNELS]
    }
}

/// A rectangle of tiles of a group.
pub(super) struct Tiles {
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Where the pixels of each tile begin; rows of tiles do not share any.
    pub(super) places: [usize; SIDE * SIDE],
}

impl Tiles {
    pub(super) fn new(group: usize, rows: Range<usize>, columns: Range<usize>) -> Self {
        let mut places = [0; SIDE * SIDE];
        for (row, places) in places.chunks_mut(columns.len()).take(rows.len()).enumerate() {
            for (column, place) in places.iter_mut().enumerate() {
                *place = row * (2 * columns.len() + 4) + 2 * column;
            }
        }
        Tiles { group, rows, columns, places }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Pixels across.
    pub(super) fn width(&self) -> usize {
        2 * self.columns.len() + 4
    }

    /// Pixels of a channel in one product.
    pub(super) fn n_pixels(&self) -> usize {
        self.rows.len() * self.width()
    }
}

/// The pixels under a rectangle in all products down: product by product, channel by channel, then rows of
/// tiles.
pub(super) struct Pixels<'a, 'b, T: Real> {
    pub(super) gradient: &'a WeightGradient<'b, T>,
    pub(super) part: &'a Part,
    pub(super) tiles: &'a Tiles,
    pub(super) to: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for Pixels<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Pixels { gradient, part, tiles, to } = self;
        let WeightGradient { x, n_channels, axes, .. } = *gradient;
        let plane = axes.map(|axis| axis.inputs.len()).iter().product::<usize>();
        let width = tiles.width();
        let under = Under::new(axes, false, [tiles.rows.start, tiles.columns.start], width);
        let none = [T::ZERO_LANES; 2 * SIDE + 4];
        let per_product = part.channels.len() * tiles.n_pixels();
        for (c, channel) in part.channels.clone().enumerate() {
            let x = &x[(tiles.group * n_channels + channel) * plane..][..plane];
            for down in 0..tiles.rows.len() {
                let to = (&mut to[c * tiles.n_pixels() + down * width..], per_product);
                under.transform::<T, S, WIDTH>(s, x, down, &none, to);
            }
        }
    }
}

/// The values of the gradients of some output channels.
pub(super) struct Down<'a, T: Real, G> {
    pub(super) gradients: &'a G,
    pub(super) planes: &'a [usize],
    pub(super) tiles: &'a Tiles,
    pub(super) to: &'a mut [T::Lanes],
    pub(super) columns_of: &'a mut [T::Bytes],
}

impl<T: Real, G: Gradients<T>> Kernel<T> for Down<'_, T, G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let tiles = [&self.tiles.rows, &self.tiles.columns];
        self.gradients.down(s, self.planes, tiles, self.to, self.columns_of);
    }
}
