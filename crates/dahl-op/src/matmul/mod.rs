//! Products of matrices, each of the two as it is or transposed.
//!
//! `c[i,j] = Σ_k a[i,k] b[k,j]`, with `a[k,i]` and `b[j,k]` where they are transposed. A task may cover a
//! part of `k` and add to what the others left. Bytes: `a` and `b` read once at least, `c` written once (and
//! read, when accumulating).

mod flat;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `c = a b`
pub static NN: Codelet = Codelet::new(
    "matmul",
    "a[i,k] b[k,j] -> c[i,j] +=",
    2.0,
    super::implementations!(nn, flat::nn, 1, [R R R]),
)
.samples(|draw| sample(draw, false, false));

/// `c = a bᵀ`
pub static NT: Codelet = Codelet::new(
    "matmul_nt",
    "a[i,k] b[j,k] -> c[i,j] +=",
    2.0,
    super::implementations!(nt, flat::nt, 1, [R R R]),
)
.samples(|draw| sample(draw, false, true));

/// `c = aᵀ b`
pub static TN: Codelet = Codelet::new(
    "matmul_tn",
    "a[k,i] b[k,j] -> c[i,j] +=",
    2.0,
    super::implementations!(tn, flat::tn, 1, [R R R]),
)
.samples(|draw| sample(draw, true, false));

/// `c = aᵀ bᵀ`
pub static TT: Codelet = Codelet::new(
    "matmul_tt",
    "a[k,i] b[j,k] -> c[i,j] +=",
    2.0,
    super::implementations!(tt, flat::tt, 1, [R R R]),
)
.samples(|draw| sample(draw, true, true));

super::forms! {
    /// The matrix product `c = a b`.
    matmul<T>(a: [T; 2], b: [T; 2]) -> (c: [T; 2]), init matmul_init, of NN

    /// The matrix product `c = a bᵀ`.
    matmul_nt<T>(a: [T; 2], b: [T; 2]) -> (c: [T; 2]), init matmul_nt_init, of NT

    /// The matrix product `c = aᵀ b`.
    matmul_tn<T>(a: [T; 2], b: [T; 2]) -> (c: [T; 2]), init matmul_tn_init, of TN

    /// The matrix product `c = aᵀ bᵀ`.
    matmul_tt<T>(a: [T; 2], b: [T; 2]) -> (c: [T; 2]), init matmul_tt_init, of TT
}

fn sample(draw: &mut Draw, a_transposed: bool, b_transposed: bool) -> Sample {
    let [i, k, j] = [draw.n_samples(), draw.wide(), draw.wide()];
    let a = if a_transposed { [k, i] } else { [i, k] };
    let b = if b_transposed { [j, k] } else { [k, j] };
    Sample::new(Tolerance::Sum).real(a).real(b).real([i, j])
}

fn nn<T: Real>(call: &Call<'_>) -> Result<()> {
    reference::<T>(call, false, false)
}

fn nt<T: Real>(call: &Call<'_>) -> Result<()> {
    reference::<T>(call, false, true)
}

fn tn<T: Real>(call: &Call<'_>) -> Result<()> {
    reference::<T>(call, true, false)
}

fn tt<T: Real>(call: &Call<'_>) -> Result<()> {
    reference::<T>(call, true, true)
}

fn reference<T: Real>(call: &Call<'_>, a_transposed: bool, b_transposed: bool) -> Result<()> {
    let (a, b) = (call.input::<T>(0), call.input::<T>(1));
    let mut c = call.output::<T>(0);
    let range = a.region().range(if a_transposed { 0 } else { 1 });
    for i in c.region().range(0) {
        for j in c.region().range(1) {
            let mut sum = if call.accumulate() { c.at([i, j]) } else { T::default() };
            for k in range.clone() {
                let a = if a_transposed { a.at([k, i]) } else { a.at([i, k]) };
                let b = if b_transposed { b.at([j, k]) } else { b.at([k, j]) };
                sum += a * b;
            }
            c.set([i, j], sum);
        }
    }
    Ok(())
}
