//! Small codelets for the tests of submission.

#![allow(dead_code, reason = "each test program uses some of them")]

use dahl_runtime::array::{Dtype, Element};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The only implementation of a codelet.
pub const fn reference(kernel: Kernel) -> Implementation {
    Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, kernel)
}

/// `y = y / 2 + x + k`: the order of two of these matters. A row of halves is in its scratch.
pub static BLEND: Codelet = Codelet::new("blend", "x[i,j] y[i,j] -> y[i,j]", 2.0, &[reference(blend)])
    .scratch(|_, spec| spec.args[1].region.shape()[1] * size_of::<f32>());
/// `y = x`, whatever was in `y`.
pub static COPY: Codelet = Codelet::new("copy", "x[i,j] -> y[i,j]", 0.0, &[reference(copy)]);
/// `c = a b`, or `c += a b`.
pub static MATMUL: Codelet = Codelet::new("matmul", "a[n,k] b[k,m] -> c[n,m] +=", 2.0, &[reference(matmul)]);
/// Adds the scalar to a vector in place.
pub static SHIFT: Codelet = Codelet::new("shift", "y[i] -> y[i]", 1.0, &[reference(shift)]);
/// Fails with an error if the scalar is 1, with a panic if it is 2.
pub static FAIL: Codelet = Codelet::new("fail", "x[i,j] -> y[i,j]", 0.0, &[reference(fail)]);

fn blend(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    let (halves, columns) = (call.scratch::<f32>(), y.region().range(1));
    assert_eq!(halves.len(), columns.len());
    for i in y.region().range(0) {
        for (half, j) in halves.iter_mut().zip(columns.clone()) {
            *half = y.at([i, j]) / 2.0;
        }
        for (half, j) in halves.iter().zip(columns.clone()) {
            y.set([i, j], half + x.at([i, j]) + call.scalar(0) as f32);
        }
    }
    Ok(())
}

fn copy(call: &Call<'_>) -> Result<()> {
    call.map(|x: f32| x);
    Ok(())
}

fn matmul(call: &Call<'_>) -> Result<()> {
    let (a, b, mut c) = (call.input::<f32>(0), call.input::<f32>(1), call.output::<f32>(0));
    for i in c.region().range(0) {
        for j in c.region().range(1) {
            let start = if call.accumulate() { c.at([i, j]) } else { 0.0 };
            let sum = a.region().range(1).fold(start, |sum, k| sum + a.at([i, k]) * b.at([k, j]));
            c.set([i, j], sum);
        }
    }
    Ok(())
}

fn shift(call: &Call<'_>) -> Result<()> {
    let by = call.scalar(0) as f32;
    call.output::<f32>(0).contiguous().iter_mut().for_each(|y| *y += by);
    Ok(())
}

fn fail(call: &Call<'_>) -> Result<()> {
    match call.scalar(0) {
        1.0 => Err(Error::new(ErrorKind::Task, "asked to fail")),
        2.0 => panic!("asked to panic"),
        _ => copy(call),
    }
}

/// Runs until the gate is open, and changes nothing. One test per program may use it.
pub static WAIT: Codelet = Codelet::new("wait", "x[i,j] -> x[i,j]", 0.0, &[reference(wait)]);

/// What [`WAIT`] waits for.
pub static IS_OPEN: AtomicBool = AtomicBool::new(false);

fn wait(_: &Call<'_>) -> Result<()> {
    // Far longer than any test takes: a test that waits for what it must not wait for should fail, not hang.
    let end = Instant::now() + Duration::from_secs(60);
    while !IS_OPEN.load(Ordering::Acquire) {
        if Instant::now() > end {
            return Err(Error::new(ErrorKind::Task, "nobody opens the gate"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// A pseudo-random number below `n`.
pub fn random(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize % n
}

/// `0, 1, 2, …` as elements.
pub fn count_up<T: Element + From<u8>>(n: usize) -> Vec<T> {
    (0..n).map(|i| T::from(i as u8)).collect()
}
