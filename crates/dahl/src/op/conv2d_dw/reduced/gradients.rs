//! What the gradients of a convolution's output are down the columns of its tiles, from all of them or from those of a pool.

use super::KERNELS;
use crate::op::convolve::five::of_gradients;
use crate::op::real::Real;
use crate::op::simd::Simd;
use crate::op::sums::are_moderate;
use std::ops::Range;

/// Where the gradients of a convolution's output come from.
pub(in crate::op) trait Gradients<T: Real> {
    /// Whether none of so many samples is infinite or very large.
    fn are_moderate<S: Simd<T>>(&self, s: S, n_samples: usize) -> bool;

    /// The values `A` down of the left and right columns of the tiles in some rows and columns of these planes, which are output channels
    /// of a group. Zero where there is no output.
    fn down<S: Simd<T>, const A: usize>(
        &self,
        s: S,
        planes: [usize; KERNELS],
        tiles: [&Range<usize>; 2],
        to: [&mut [[T::Lanes; KERNELS]]; 2],
    );
}

/// Gradients in lanes, `[k,oy,ox]` per group.
pub(in crate::op) struct Full<'a, T: Real> {
    pub(in crate::op) dy: &'a [T::Lanes],
    pub(in crate::op) height: usize,
    pub(in crate::op) width: usize,
}

impl<T: Real> Gradients<T> for Full<'_, T> {
    #[inline(always)]
    fn are_moderate<S: Simd<T>>(&self, s: S, n_samples: usize) -> bool {
        are_moderate(s, &[], self.dy, n_samples)
    }

    #[inline(always)]
    fn down<S: Simd<T>, const A: usize>(
        &self,
        s: S,
        planes: [usize; KERNELS],
        [rows, columns]: [&Range<usize>; 2],
        to: [&mut [[T::Lanes; KERNELS]]; 2],
    ) {
        for (j, to) in to.into_iter().enumerate() {
            for (row, to) in rows.clone().zip(to.chunks_exact_mut(columns.len())) {
                for (i, plane) in planes.into_iter().enumerate() {
                    let mut under = [&self.dy[..0]; 2];
                    for (r, oy) in (2 * row..self.height.min(2 * row + 2)).enumerate() {
                        under[r] = &self.dy[(plane * self.height + oy) * self.width..][..self.width];
                    }
                    for (column, to) in columns.clone().zip(&mut *to) {
                        let mut gradients = [s.zero(); 2];
                        for r in 0..2 {
                            if let Some(gradient) = under[r].get(2 * column + j) {
                                gradients[r] = s.load(gradient);
                            }
                        }
                        s.store(of_gradients(s, gradients)[A], &mut to[i]);
                    }
                }
            }
        }
    }
}

/// Gradients of 2x2 windows of a pool, `dy[k,py,px]` and `arg[k,py,px]` per group: each window is a tile, with its gradient at one place or at none.
pub(in crate::op) struct Pooled<'a, T: Real> {
    pub(in crate::op) dy: &'a [T::Lanes],
    pub(in crate::op) arg: &'a [T::Bytes],
    /// Rows and columns of windows.
    pub(in crate::op) height: usize,
    pub(in crate::op) width: usize,
}

impl<T: Real> Gradients<T> for Pooled<'_, T> {
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
    fn down<S: Simd<T>, const A: usize>(
        &self,
        s: S,
        planes: [usize; KERNELS],
        [rows, columns]: [&Range<usize>; 2],
        to: [&mut [[T::Lanes; KERNELS]]; 2],
    ) {
        let [left, right] = to;
        if rows.end <= self.height && columns.len() == self.width {
            // Rows without anything in between are one.
            return self.run::<S, A>(s, planes, rows.start * self.width, [left, right]);
        }
        let to = left.chunks_exact_mut(columns.len()).zip(right.chunks_exact_mut(columns.len()));
        for (row, (left, right)) in rows.clone().zip(to) {
            // A row or column of outputs that is left over has no window.
            let end =
                if row < self.height { self.width.clamp(columns.start, columns.end) } else { columns.start };
            let (left, no_left) = left.split_at_mut(end - columns.start);
            let (right, no_right) = right.split_at_mut(end - columns.start);
            self.run::<S, A>(s, planes, row * self.width + columns.start, [left, right]);
            for to in [no_left, no_right] {
                to.as_flattened_mut().fill(T::ZERO_LANES);
            }
        }
    }
}

impl<T: Real> Pooled<'_, T> {
    /// The values of windows side by side, from `first` on in each plane.
    #[inline(always)]
    fn run<S: Simd<T>, const A: usize>(
        &self,
        s: S,
        planes: [usize; KERNELS],
        first: usize,
        [left, right]: [&mut [[T::Lanes; KERNELS]]; 2],
    ) {
        if left.is_empty() {
            return;
        }
        let n_windows = left.len();
        let right = &mut right[..n_windows];
        let mut windows = [(&self.dy[..0], &self.arg[..0]); KERNELS];
        for i in 0..KERNELS {
            let first = planes[i] * self.height * self.width + first;
            windows[i] = (&self.dy[first..][..n_windows], &self.arg[first..][..n_windows]);
        }
        for t in 0..n_windows {
            for i in 0..KERNELS {
                let (dy, arg) = (s.load(&windows[i].0[t]), s.load_bytes(&windows[i].1[t]));
                let mut gradients = [[s.zero(); 2]; 2];
                for j in 0..2 {
                    for r in 0..2 {
                        let is_here = s.eq_bytes(arg, s.splat_bytes((2 * r + j) as u8));
                        gradients[j][r] = s.select(is_here, dy, s.zero());
                    }
                }
                s.store(of_gradients(s, gradients[0])[A], &mut left[t][i]);
                s.store(of_gradients(s, gradients[1])[A], &mut right[t][i]);
            }
        }
    }
}
