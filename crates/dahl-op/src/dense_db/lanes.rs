//! Sums over groups lane by lane, and then across lanes, of as many outputs at a time as there are lanes: a
//! square of sums is transposed, and halves of its rows are added to halves. Every sum has the order of
//! `plane_sums`.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense_db, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let n_samples = dy.region().shape()[0];
    let (dy, db) = (T::lanes(dy.contiguous()), db.contiguous());
    let n_outputs = db.len();
    let (n_full, rest) = (n_samples / T::LANES, n_samples % T::LANES);
    let valid = s.first(rest);
    let total = |o: usize| {
        let mut total = s.zero();
        for group in 0..n_full {
            total = s.add(total, s.load(&dy[group * n_outputs + o]));
        }
        if rest > 0 {
            total = s.select(valid, s.add(total, s.load(&dy[n_full * n_outputs + o])), total);
        }
        total
    };
    let n_squares = n_outputs / T::LANES;
    let (mut totals, mut square) = (T::ZERO_BLOCK, T::ZERO_BLOCK);
    for (at, sums) in T::lanes_mut(db).iter_mut().enumerate() {
        for (lane, row) in totals.as_mut().iter_mut().enumerate() {
            s.store(total(at * T::LANES + lane), row);
        }
        s.transpose(&totals, &mut square);
        let rows = square.as_mut();
        let mut width = T::LANES / 2;
        while width > 0 {
            for lane in 0..width {
                let sum = s.add(s.load(&rows[lane]), s.load(&rows[lane + width]));
                s.store(sum, &mut rows[lane]);
            }
            width /= 2;
        }
        let start = if call.accumulate() { s.load(sums) } else { s.zero() };
        s.store(s.add(start, s.load(&rows[0])), sums);
    }
    for (o, sum) in db.iter_mut().enumerate().skip(n_squares * T::LANES) {
        let start = if call.accumulate() { *sum } else { T::default() };
        *sum = start + s.sum(total(o));
    }
    Ok(())
}
