//! Register blocks of output channels by columns.
//!
//! Arrays of sums stay in registers only if every index is a constant after unrolling. The compiler does not
//! unroll loops whose bodies look long, and then everything is a third as fast; [`unrolled`] writes them out.
//! What it makes of a block decides over a factor of two: two loops after each other, or a branch between
//! multiply-adds, and it moves all sums to other registers in between. One loop without branches inside, and
//! sums that leave some registers free, is what works. With 16 registers of half a vector, 6 channels by one
//! column beat 2 by 3 twice: the sums leave room for one vector and one weight.
//!
//! Each block is a function of its own ([`Block`]), which convolutions of all widths and fused pools share.

use super::{Axis, Finish, PlaneSteps};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::window::Window;
use std::ops::Range;

/// `$body` for every `$i` below `$n`, at most 9, written out. Where a block of sums is indexed, the compiler
/// must see each index, or the sums are in memory; it does not unroll loops whose bodies look long.
macro_rules! unrolled {
    ($i:ident < $n:expr, $body:block) => {
        $crate::convolve::block::unrolled!(@ $i $n, $body, 0 1 2 3 4 5 6 7 8)
    };
    (@ $i:ident $n:expr, $body:block, $($number:literal)*) => {{
        $(if $number < $n {
            let $i = $number;
            $body
        })*
    }};
}
pub(crate) use unrolled;

/// The weights of some input channels for a block of output channels.
pub(crate) struct Taps<'a, T: Real, const K: usize> {
    /// `weights[(c * height + ky) * width + kx][k]`, `c` from the first of `channels`.
    pub(crate) weights: &'a [[T; K]],
    /// Which input channels, counted in planes of `x`.
    pub(crate) channels: Range<usize>,
    /// What is added once.
    pub(crate) bias: Option<[T; K]>,
    /// Whether to add to what is there.
    pub(crate) add: bool,
    /// What becomes of the sums, with the planes of the output channels.
    pub(crate) finish: Finish<'a, T>,
}

/// Some rows of output, and the input under them.
pub(crate) struct Band<'a, T: Real> {
    /// Planes of the rows and columns that the axes call inputs.
    pub(crate) x: &'a [T::Lanes],
    pub(crate) rows: Axis,
    pub(crate) columns: &'a Axis,
    /// Where the outputs of the axes lie.
    pub(crate) planes: PlaneSteps,
}

/// Adds some input channels to all outputs of `K` channels, `X` columns at a time. Kernels are `W` wide, or
/// of any width if `W` is 0.
pub(crate) struct Block<'a, 'b, T: Real, const K: usize, const X: usize, const W: usize> {
    pub(crate) band: &'a Band<'b, T>,
    pub(crate) taps: &'a Taps<'b, T, K>,
    /// The planes of the output channels.
    pub(crate) y: &'a mut [T::Lanes],
}

impl<T: Real, const K: usize, const X: usize, const W: usize> Block<'_, '_, T, K, X, W> {
    /// Whether it is one of the blocks of an instruction set with so many accumulators: those that fit the
    /// registers and leave few of them free. The others are neither compiled for it nor called.
    pub(crate) const fn is_of(n_accumulators: usize) -> bool {
        n_accumulators >= K * X && (n_accumulators < 24 || K * X > 6)
    }
}

impl<T: Real, const K: usize, const X: usize, const W: usize> Kernel<T> for Block<'_, '_, T, K, X, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        if const { Self::is_of(S::ACCUMULATORS) } {
            self.band.all::<S, K, X, W>(s, self.taps, self.y);
        }
    }
}

/// A block of columns.
struct ColumnBlock<'a> {
    /// The row and the first column.
    row: usize,
    column: usize,
    /// The taps of the row.
    kys: &'a Range<usize>,
    /// Where the first column lies in its plane, and how many columns there are.
    at: usize,
    n_columns: usize,
}

impl<T: Real> Band<'_, T> {
    /// Adds some input channels to all outputs of `K` channels, whose planes are `y`. Kernels are `W` wide,
    /// or of any width if `W` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const K: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let interior = self.columns.interior();
        let outputs = &self.columns.outputs;
        for (r, row) in self.rows.outputs.clone().enumerate() {
            let kys = &self.rows.taps_inside(row);
            let first = self.planes.first.wrapping_add_signed(r.cast_signed() * self.planes.row);
            let mut column = outputs.start;
            while column < outputs.end {
                let step = (column - outputs.start).cast_signed() * self.planes.column;
                let at = first.wrapping_add_signed(step);
                let n_columns = X.min(outputs.end - column);
                let place = ColumnBlock { row, column, kys, at, n_columns };
                if interior.contains(&column) && column + X <= interior.end {
                    self.block::<S, K, X, W, false>(s, place, taps, y);
                } else {
                    self.block::<S, K, X, W, true>(s, place, taps, y);
                }
                column += X;
            }
        }
    }

    /// `K` channels of `X` columns. If it is at the border, taps or columns may be missing.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const X: usize, const W: usize, const BORDER: bool>(
        &self,
        s: S,
        place: ColumnBlock<'_>,
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let place = ColumnBlock { n_columns: if BORDER { place.n_columns } else { X }, ..place };
        let mut sums = self.start::<S, K, X>(s, &place, taps, y);
        let (height, width) = (self.rows.inputs.len(), self.columns.inputs.len());
        let (n_kys, n_kxs) = (self.rows.taps.len(), if W > 0 { W } else { self.columns.taps.len() });
        let Window { stride, pad } = self.columns.window;
        let left =
            (place.column * stride + self.columns.taps.start).wrapping_sub(pad + self.columns.inputs.start);
        // Where the windows of the columns begin; one that is missing, or begins before the image, is beyond
        // any row's end.
        let mut begins = [usize::MAX / 2; X];
        for j in 0..place.n_columns.min(X) {
            begins[j] = left.wrapping_add(j * stride);
        }
        if n_kys * n_kxs > 0 {
            let per_channel = taps.weights.chunks_exact(n_kys * n_kxs);
            for (c, weights) in taps.channels.clone().zip(per_channel) {
                for ky in place.kys.clone() {
                    let iy = place.row * self.rows.window.stride + ky
                        - self.rows.window.pad
                        - self.rows.inputs.start;
                    let x = &self.x[(c * height + iy) * width..][..width];
                    let weights = &weights[(ky - self.rows.taps.start) * n_kxs..][..n_kxs];
                    if BORDER {
                        for (kx, weights) in weights.iter().enumerate() {
                            border_tap(s, &mut sums, x, &begins, kx, weights);
                        }
                    } else {
                        let x = &x[left..][..(X - 1) * stride + n_kxs];
                        for (kx, weights) in weights.iter().enumerate() {
                            tap(s, &mut sums, &x[kx..], stride, weights);
                        }
                    }
                }
            }
        }
        self.finish(s, &place, sums, taps, y);
    }

    /// Writes a block.
    #[inline(always)]
    fn finish<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        place: &ColumnBlock<'_>,
        mut sums: [[S::V; X]; K],
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        match taps.finish {
            Finish::Sum => {}
            Finish::Rectified => {
                for i in 0..K {
                    for j in 0..X {
                        sums[i][j] = s.max(s.zero(), sums[i][j]);
                    }
                }
            }
            Finish::Where(rectified) => unrolled!(i < K, {
                unrolled!(j < X, {
                    if j < place.n_columns {
                        let at = i * self.planes.len + self.at(place, j);
                        let before = if taps.add { s.load(&y[at]) } else { s.zero() };
                        sums[i][j] =
                            s.select(s.gt(s.load(&T::lanes(rectified)[at]), s.zero()), sums[i][j], before);
                    }
                });
            }),
        }
        unrolled!(i < K, {
            unrolled!(j < X, {
                if j < place.n_columns {
                    s.store(sums[i][j], &mut y[i * self.planes.len + self.at(place, j)]);
                }
            });
        });
    }

    /// Where column `j` of a block lies in its plane.
    #[inline(always)]
    fn at(&self, place: &ColumnBlock<'_>, j: usize) -> usize {
        place.at.wrapping_add_signed(j.cast_signed() * self.planes.column)
    }

    /// What the sums of a block start with.
    #[inline(always)]
    fn start<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        place: &ColumnBlock<'_>,
        taps: &Taps<'_, T, K>,
        y: &[T::Lanes],
    ) -> [[S::V; X]; K] {
        let mut sums = [[s.zero(); X]; K];
        if taps.add {
            unrolled!(i < K, {
                unrolled!(j < X, {
                    if j < place.n_columns {
                        sums[i][j] = s.load(&y[i * self.planes.len + self.at(place, j)]);
                    }
                });
            });
        }
        match taps.bias {
            Some(bias) if taps.add => {
                for i in 0..K {
                    for j in 0..X {
                        sums[i][j] = s.add(sums[i][j], s.splat(bias[i]));
                    }
                }
            }
            Some(bias) => {
                for i in 0..K {
                    sums[i] = [s.splat(bias[i]); X];
                }
            }
            None => {}
        }
        sums
    }
}

/// Adds one tap to a block: column `j` reads `x[j * stride]`.
#[inline(always)]
fn tap<T: Real, S: Simd<T>, const K: usize, const X: usize>(
    s: S,
    sums: &mut [[S::V; X]; K],
    x: &[T::Lanes],
    stride: usize,
    weights: &[T; K],
) {
    let mut values = [s.zero(); X];
    if stride == 1 {
        let x: &[T::Lanes; X] = x.first_chunk().expect("columns inside the image");
        for j in 0..X {
            values[j] = s.load(&x[j]);
        }
    } else {
        for j in 0..X {
            values[j] = s.load(&x[j * stride]);
        }
    }
    for i in 0..K {
        let weight = s.splat(weights[i]);
        for j in 0..X {
            sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
        }
    }
}

/// Adds tap `kx` to those columns of a block whose window has it inside the image.
#[inline(always)]
fn border_tap<T: Real, S: Simd<T>, const K: usize, const X: usize>(
    s: S,
    sums: &mut [[S::V; X]; K],
    x: &[T::Lanes],
    begins: &[usize; X],
    kx: usize,
    weights: &[T; K],
) {
    unrolled!(j < X, {
        if let Some(value) = x.get(begins[j].wrapping_add(kx)) {
            let value = s.load(value);
            for i in 0..K {
                sums[i][j] = s.mul_add(s.splat(weights[i]), value, sums[i][j]);
            }
        }
    });
}
