//! Every implementation of every codelet against its reference, in every element type it has.
//!
//! All of it is driven by the list of codelets and their samples. Kernels are called on whole arrays and on
//! tiles, on odd, ragged, single and empty extents, with special values, in windows of larger tiles and on
//! every instruction set (this file); with everything outside of the declared regions poisoned (`regions`);
//! and as tasks that are cut, lowered, planned and run (`tilings`). `by_hand` holds the references to worked
//! examples.

mod by_hand;
mod case;
mod harness;
mod regions;
mod tilings;

use case::{Case, all_cases, dtypes, fast};
use dahl::op::simd::Isa;
use dahl_runtime::array::{Dtype, Layout, Region};
use dahl_runtime::codelet::{Needs, Tolerance};
use harness::{Arg, Prepared, Settings};

/// Rounding that results may differ by, relative to their scale.
fn rounding(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { 1e-5 } else { 1e-13 }
}

/// How the regions of a call lie in their tiles.
#[derive(Clone, Copy, PartialEq)]
enum Window {
    /// Each fills its tile.
    Whole,
    /// Row-major tiles hold more along the first dimension, so that regions are still contiguous.
    Contiguous,
    /// Tiles hold more on all sides.
    Around,
}

/// Runs an implementation of a case and returns its outputs.
fn run(case: &Case, name: &str, dtype: Dtype, window: Window) -> Vec<Vec<f64>> {
    let needs = case.codelet.implementation(name, dtype).expect("a listed implementation").needs;
    let args = (0..case.regions.len()).map(|i| {
        let layout = match needs {
            Needs::Layouts(layouts) => layouts[i],
            Needs::Nothing => Layout::RowMajor,
        };
        let region = case.regions[i];
        let mut arg = memory(case, i, dtype, layout, tile_around(&region, layout, window));
        arg.fill(&case.data_in(i, &region, dtype));
        arg
    });
    call(case, name, dtype, args.collect())
        .into_iter()
        .skip(case.n_inputs())
        .map(|arg| arg.values())
        .collect()
}

/// Argument `i` of a case in memory that holds `tile` of it, all of it NaN or 255.
fn memory(case: &Case, i: usize, dtype: Dtype, layout: Layout, tile: Region) -> Arg {
    let shape = case.sample.args[i].shape;
    Arg::new(case.dtype_of(i, dtype), layout, shape, tile, case.regions[i])
}

/// Calls an implementation and returns the arguments.
fn call(case: &Case, name: &str, dtype: Dtype, args: Vec<Arg>) -> Vec<Arg> {
    let settings = Settings {
        n_inputs: case.n_inputs(),
        ints: &case.sample.ints,
        scalars: &case.sample.scalars,
        accumulate: case.accumulate,
    };
    let prepared = Prepared::new(case.codelet, name, dtype, args, &settings);
    prepared.run().unwrap_or_else(|error| panic!("{case}, {name}, {dtype}: {error}"));
    prepared.into_args()
}

fn tile_around(region: &Region, layout: Layout, window: Window) -> Region {
    let mut tile: Vec<_> = (0..region.rank()).map(|dim| region.range(dim)).collect();
    let n_wider = match window {
        Window::Around => tile.len(),
        Window::Contiguous if layout == Layout::RowMajor => tile.len().min(1),
        _ => 0,
    };
    for range in &mut tile[..n_wider] {
        *range = range.start.saturating_sub(1)..range.end + 2;
    }
    Region::new(&tile)
}

/// The sums of the magnitudes of all terms: the case on absolute values.
fn magnitudes(case: &Case) -> Vec<Vec<f64>> {
    let mut case = case.clone();
    case.data.iter_mut().flatten().for_each(|value| *value = value.abs());
    run(&case, "reference", Dtype::F64, Window::Whole)
}

fn assert_close(case: &Case, what: &str, dtype: Dtype, expected: &[Vec<f64>], got: &[Vec<f64>]) {
    let scale = match case.sample.tolerance {
        Tolerance::Exact => None,
        Tolerance::Sum => Some(magnitudes(case)),
        Tolerance::Scale(scale) => Some(expected.iter().map(|output| vec![scale; output.len()]).collect()),
    };
    for (output, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert_eq!(expected.len(), got.len(), "{case}, {what}, {dtype}");
        for (i, (&expected_value, &got_value)) in expected.iter().zip(got).enumerate() {
            let allowed = scale.as_ref().map_or(0.0, |scale| scale[output][i] * rounding(dtype));
            let is_close = same(expected_value, got_value) || (expected_value - got_value).abs() <= allowed;
            assert!(
                is_close,
                "{case}, {what}, {dtype}: output {output}[{i}] is {got_value}, not {expected_value}"
            );
        }
    }
}

/// Equal as numbers, or both NaN.
fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// The same bits, except that a NaN is a NaN.
fn assert_same_bits(case: &Case, what: &str, a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{case}, {what}");
    for (a, b) in a.iter().zip(b) {
        assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{case}, {what}: {a:e} and {b:e}");
    }
}

#[test]
fn references_work_in_any_window() {
    for case in all_cases() {
        for dtype in dtypes(case.codelet) {
            let whole = run(&case, "reference", dtype, Window::Whole);
            let window = run(&case, "reference", dtype, Window::Around);
            assert_same_bits(&case, "window", &whole.concat(), &window.concat());
        }
    }
}

#[test]
fn references_agree_between_element_types() {
    for case in all_cases().filter(|case| !case.is_special) {
        let narrow = run(&case, "reference", Dtype::F32, Window::Whole);
        let wide = run(&case, "reference", Dtype::F64, Window::Whole);
        let mut case = case.clone();
        if case.sample.tolerance == Tolerance::Exact {
            let largest = wide.iter().flatten().fold(1.0, |largest: f64, value| largest.max(value.abs()));
            case.sample.tolerance = Tolerance::Scale(largest);
        }
        assert_close(&case, "f32 against f64", Dtype::F32, &wide, &narrow);
    }
}

#[test]
fn every_implementation_agrees_with_the_reference() {
    let mut n_comparisons = 0;
    for case in all_cases() {
        for dtype in dtypes(case.codelet) {
            let expected = run(&case, "reference", dtype, Window::Whole);
            for implementation in fast(case.codelet, dtype) {
                let got = run(&case, implementation.name, dtype, Window::Whole);
                assert_close(&case, implementation.name, dtype, &expected, &got);
                n_comparisons += 1;
            }
        }
    }
    assert!(n_comparisons > 2000, "only {n_comparisons} comparisons");
}

#[test]
fn bits_are_the_same_on_every_instruction_set_in_every_window_and_every_time() {
    for case in all_cases() {
        for dtype in dtypes(case.codelet) {
            for implementation in fast(case.codelet, dtype) {
                let name = implementation.name;
                let best = run(&case, name, dtype, Window::Whole).concat();
                for isa in Isa::available() {
                    let got = isa.force(|| run(&case, name, dtype, Window::Whole)).concat();
                    assert_same_bits(&case, &format!("{name} {isa} {dtype}"), &best, &got);
                }
                let window = run(&case, name, dtype, Window::Contiguous).concat();
                assert_same_bits(&case, &format!("{name} {dtype} window"), &best, &window);
            }
        }
    }
}
