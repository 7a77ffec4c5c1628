//! What the gradients of a convolution's output are down the columns of its tiles, from all of them or from
//! those of a pool.

use crate::real::Real;
use crate::simd::Simd;
use crate::sums::are_moderate;
use crate::winograd::transform::of_gradients;
use crate::winograd::under::lines;
use std::ops::Range;

/// Where the gradients of a convolution's output come from.
pub(crate) trait Gradients<T: Real> {
    /// Columns of a tile that may have a gradient at once.
    const COLUMNS: usize;

    /// Whether none of so many samples is infinite or very large.
    fn are_moderate<S: Simd<T>>(&self, s: S, n_samples: usize) -> bool;

    /// The four values down of the tiles in some rows and columns of these planes, which are output channels
    /// of a group: value by value, plane by plane, tile by tile, and column by column. Zero where there is no
    /// output. If they have one column, `columns_of` says which: 1 where it is the right one.
    fn down<S: Simd<T>>(
        &self,
        s: S,
        planes: &[usize],
        tiles: [&Range<usize>; 2],
        to: &mut [T::Lanes],
        columns_of: &mut [T::Bytes],
    );
}

/// Gradients in lanes, `[k,oy,ox]` per group.
pub(crate) struct Full<'a, T: Real> {
    pub(crate) dy: &'a [T::Lanes],
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl<T: Real> Gradients<T> for Full<'_, T> {
    const COLUMNS: usize = 2;

    #[inline(always)]
    fn are_moderate<S: Simd<T>>(&self, s: S, n_samples: usize) -> bool {
        are_moderate(s, &[], self.dy, n_samples)
    }

    #[inline(always)]
    fn down<S: Simd<T>>(
        &self,
        s: S,
        planes: &[usize],
        [rows, columns]: [&Range<usize>; 2],
        to: &mut [T::Lanes],
        _: &mut [T::Bytes],
    ) {
        let per_value = planes.len() * 2 * rows.len() * columns.len();
        for (i, plane) in planes.iter().enumerate() {
            for (down, row) in rows.clone().enumerate() {
                let mut under = [&self.dy[..0]; 2];
                for (r, oy) in (2 * row..self.height.min(2 * row + 2)).enumerate() {
                    under[r] = &self.dy[(plane * self.height + oy) * self.width..][..self.width];
                }
                let line = 2 * (i * rows.len() + down) * columns.len();
                let to = lines::<_, 4>(to, per_value, line..line + 2 * columns.len());
                for (at, column) in (2 * columns.start..2 * columns.end).enumerate() {
                    let mut gradients = [s.zero(); 2];
                    for r in 0..2 {
                        if let Some(gradient) = under[r].get(column) {
                            gradients[r] = s.load(gradient);
                        }
                    }
                    let values = of_gradients(s, gradients);
                    for a in 0..4 {
                        s.store(values[a], &mut to[a][at]);
                    }
                }
            }
        }
    }
}

/// Gradients of 2x2 windows of a pool, `dy[k,py,px]` and `arg[k,py,px]` per group: each window is a tile,
/// with its gradient at one place or at none.
pub(crate) struct Pooled<'a, T: Real> {
    pub(crate) dy: &'a [T::Lanes],
    pub(crate) arg: &'a [T::Bytes],
    /// Rows and columns of windows.
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl<T: Real> Gradients<T> for Pooled<'_, T> {
    const COLUMNS: usize = 1;

    #[inline(always)]
    fn are_moderate<S: Simd<T>>(&self, s: S, n_samples: usize) -> bool {
        // Windows without a gradient may hold anything in `dy`.
        const AT_A_TIME: usize = 64;
        let nowhere = s.splat_bytes(4);
        let per_group = self.dy.len() / n_samples.div_ceil(T::LANES);
        let mut is_moderate = true;
        for (group, (dy, arg)) in self.dy.chunks(per_group).zip(self.arg.chunks(per_group)).enumerate() {
            let n_valid = (n_samples - group * T::LANES).min(T::LANES);
            for (dy, arg) in dy.chunks(AT_A_TIME).zip(arg.chunks(AT_A_TIME)) {
                let mut values = [T::ZERO_LANES; AT_A_TIME];
                for i in 0..dy.len() {
                    let is_nowhere = s.eq_bytes(s.load_bytes(&arg[i]), nowhere);
                    s.store(s.select(is_nowhere, s.zero(), s.load(&dy[i])), &mut values[i]);
                }
                is_moderate &= are_moderate(s, &[], &values[..dy.len()], n_valid);
            }
        }
        is_moderate
    }

    #[inline(always)]
    fn down<S: Simd<T>>(
        &self,
        s: S,
        planes: &[usize],
        [rows, columns]: [&Range<usize>; 2],
        to: &mut [T::Lanes],
        columns_of: &mut [T::Bytes],
    ) {
        let [left, right, lower_left, lower_right] =
            [s.splat_bytes(0), s.splat_bytes(1), s.splat_bytes(2), s.splat_bytes(3)];
        let per_value = planes.len() * rows.len() * columns.len();
        // A row or column of outputs that is left over has no window.
        let end = self.width.clamp(columns.start, columns.end);
        for (i, plane) in planes.iter().enumerate() {
            for (down, row) in rows.clone().enumerate() {
                let (start, n_there) = match row < self.height {
                    true => ((plane * self.height + row) * self.width + columns.start, end - columns.start),
                    false => (0, 0),
                };
                let (dy, arg) = (&self.dy[start..][..n_there], &self.arg[start..][..n_there]);
                let line = (i * rows.len() + down) * columns.len();
                let columns_of = &mut columns_of[line..][..n_there];
                let there = lines::<_, 4>(to, per_value, line..line + n_there);
                for t in 0..n_there {
                    let (dy, arg) = (s.load(&dy[t]), s.load_bytes(&arg[t]));
                    let [mut upper, mut lower] = [s.zero(); 2];
                    upper = s.select(s.eq_bytes(arg, left), dy, upper);
                    upper = s.select(s.eq_bytes(arg, right), dy, upper);
                    lower = s.select(s.eq_bytes(arg, lower_left), dy, lower);
                    lower = s.select(s.eq_bytes(arg, lower_right), dy, lower);
                    let values = of_gradients(s, [upper, lower]);
                    for a in 0..4 {
                        s.store(values[a], &mut there[a][t]);
                    }
                    let column = s.select_bytes(s.eq_bytes(arg, lower_right), right, arg);
                    s.store_bytes(column, &mut columns_of[t]);
                }
                for to in lines::<_, 4>(to, per_value, line + n_there..line + columns.len()) {
                    to.fill(T::ZERO_LANES);
                }
            }
        }
    }
}
