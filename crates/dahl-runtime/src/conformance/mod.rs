//! Trying codelets out: every implementation against its reference, in every element type it has.
//!
//! All of it follows from a codelet and its [samples](Codelet::samples). Kernels are called on whole arrays
//! and on tiles, on odd, ragged, single and empty extents, with special values, in windows of larger tiles
//! and with everything outside of the declared regions poisoned ([`check_calls`]); and as tasks that are cut,
//! lowered, planned and run ([`check_tilings`]). That a reference is right, nothing here can know: hold it to
//! examples worked out by hand ([`Prepared`]).
//!
//! This is for tests, those of the codelets that come with dahl and those of others alike. What does not
//! agree is an error, which names the call.

mod case;
mod compare;
mod prepared;
mod tiling;

pub use case::{Case, Window};
pub use prepared::{Arg, Prepared, Settings};

use crate::codelet::{Codelet, Draw, Implementation, Tolerance};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::Dtype;

/// Tries a codelet in every way, and says how many comparisons that took.
///
/// ```
/// use dahl_runtime::array::Dtype;
/// use dahl_runtime::codelet::{Call, Codelet, Draw, Implementation, Kernel, Needs, Sample, Tolerance};
/// use dahl_runtime::conformance;
///
/// const fn on_f32(name: &'static str, kernel: Kernel) -> Implementation {
///     Implementation::new(name, 1, Dtype::F32, Needs::Nothing, kernel)
/// }
///
/// static TWICE: Codelet = Codelet::new(
///     "twice",
///     "x[..] -> y[..]",
///     1.0,
///     &[on_f32("reference", twice), on_f32("sum", sum)],
/// )
/// .samples(|draw: &mut Draw| {
///     let shape = draw.shape();
///     Sample::new(Tolerance::Exact).real(shape).real(shape)
/// });
///
/// fn twice(call: &Call<'_>) -> dahl_runtime::Result<()> {
///     call.map(|x: f32| 2.0 * x);
///     Ok(())
/// }
///
/// fn sum(call: &Call<'_>) -> dahl_runtime::Result<()> {
///     call.map(|x: f32| x + x);
///     Ok(())
/// }
///
/// assert!(conformance::check(&TWICE)? > 100);
/// # Ok::<(), dahl_runtime::Error>(())
/// ```
pub fn check(codelet: &'static Codelet) -> Result<usize> {
    Ok(check_calls(codelet)? + check_tilings(codelet)?)
}

/// Calls every implementation of a codelet on samples, and says how often one was compared with another.
pub fn check_calls(codelet: &'static Codelet) -> Result<usize> {
    let mut n_comparisons = 0;
    for case in Case::all(codelet)? {
        for dtype in dtypes(codelet) {
            let expected = case.run("reference", dtype, Window::Whole)?;
            let window = case.run("reference", dtype, Window::Around)?;
            compare::same_bits(&case, "reference in a window", &expected.concat(), &window.concat())?;
            case.check_regions(dtype)?;
            for implementation in fast(codelet, dtype) {
                let name = implementation.name;
                let got = case.run(name, dtype, Window::Whole)?;
                compare::close(&case, name, dtype, &expected, &got)?;
                let window = case.run(name, dtype, Window::Contiguous)?;
                let what = format!("{name} {dtype} in a window");
                compare::same_bits(&case, &what, &got.concat(), &window.concat())?;
                n_comparisons += 1;
            }
        }
        if !case.is_special {
            n_comparisons += usize::from(agree_between_element_types(case)?);
        }
    }
    Ok(n_comparisons)
}

/// Runs every implementation of a codelet as tasks that are cut at random along every axis that may be, and
/// says how often that was compared with a call of the reference.
pub fn check_tilings(codelet: &'static Codelet) -> Result<usize> {
    tiling::check(codelet)
}

/// Compares the reference in `f32` with that in `f64`, where there are both.
fn agree_between_element_types(mut case: Case) -> Result<bool> {
    if ![Dtype::F32, Dtype::F64].iter().all(|&wanted| dtypes(case.codelet).any(|dtype| dtype == wanted)) {
        return Ok(false);
    }
    let narrow = case.run("reference", Dtype::F32, Window::Whole)?;
    let wide = case.run("reference", Dtype::F64, Window::Whole)?;
    if case.sample.tolerance == Tolerance::Exact {
        let largest = wide.iter().flatten().fold(1.0, |largest: f64, value| largest.max(value.abs()));
        case.sample.tolerance = Tolerance::Scale(largest);
    }
    compare::close(&case, "f32 against f64", Dtype::F32, &wide, &narrow)?;
    Ok(true)
}

/// The element types that a codelet computes in.
pub fn dtypes(codelet: &Codelet) -> impl Iterator<Item = Dtype> {
    codelet.implementations.iter().filter(|i| i.name == "reference").map(|i| i.dtype)
}

/// The implementations of a codelet other than the reference, in one element type.
pub fn fast(codelet: &Codelet, dtype: Dtype) -> impl Iterator<Item = &'static Implementation> {
    codelet.implementations.iter().filter(move |i| i.name != "reference" && i.dtype == dtype)
}

/// Something that does not agree, or cannot be tried.
fn failure(case: impl std::fmt::Display, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Task, format!("{case}: {what}"))
}

/// The number of sample `number` of tilings; others than those of calls.
fn draw_of_tiling(number: usize) -> Draw {
    Draw::new(1000 + number)
}
