//! Every implementation of every codelet against its reference, in both element types: random and odd shapes,
//! ragged sample counts, special values, windows of larger tiles, and the same bits on every instruction set.

mod by_hand;
mod cases;
mod harness;

use cases::{Array, Case, Check, all_cases};
use dahl::op::CODELETS;
use dahl::op::simd::Isa;
use dahl_runtime::array::{Dtype, Layout, Region};
use dahl_runtime::codelet::Needs;
use harness::{Arg, Prepared, Settings};

const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::F64];

/// Rounding that sums may differ by, relative to the sum of the magnitudes of their terms.
fn tolerance(dtype: Dtype) -> f64 {
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
fn run(case: &Case, name: &str, dtype: Dtype, window: Window) -> dahl_runtime::Result<Vec<Vec<f64>>> {
    let needs = case.codelet.implementation(name, dtype).expect("a listed implementation").needs;
    let arrays = || case.inputs.iter().chain(&case.outputs);
    let args = arrays().enumerate().map(|(i, array)| {
        let layout = match needs {
            Needs::Layouts(layouts) => layouts[i],
            Needs::Nothing => Layout::RowMajor,
        };
        materialise(array, dtype, layout, window)
    });
    let settings = Settings {
        n_inputs: case.inputs.len(),
        ints: &case.ints,
        scalars: &[255.0],
        accumulate: case.accumulate,
    };
    let prepared = Prepared::new(case.codelet, name, dtype, args.collect(), &settings);
    prepared.run()?;
    Ok(prepared.into_args()[case.inputs.len()..].iter().map(Arg::values).collect())
}

/// An argument with the contents of `array`; everything around the region is NaN or 255.
fn materialise(array: &Array, dtype: Dtype, layout: Layout, window: Window) -> Arg {
    let region = array.region();
    let mut tile: Vec<_> = (0..region.rank()).map(|dim| region.range(dim)).collect();
    let n_wider = match window {
        Window::Around => tile.len(),
        Window::Contiguous if layout == Layout::RowMajor => tile.len().min(1),
        _ => 0,
    };
    for range in &mut tile[..n_wider] {
        *range = range.start.saturating_sub(1)..range.end + 2;
    }
    let dtype = array.dtype.unwrap_or(dtype);
    let mut arg = Arg::new(dtype, layout, array.extent(), Region::new(&tile), region);
    arg.fill(&array.data);
    arg
}

/// The sums of the magnitudes of all terms: the case on absolute values.
fn magnitudes(case: &Case) -> Vec<Vec<f64>> {
    let mut case = case.clone();
    for array in case.inputs.iter_mut().chain(&mut case.outputs) {
        array.data.iter_mut().for_each(|value| *value = value.abs());
    }
    run(&case, "reference", Dtype::F64, Window::Whole).expect("the reference runs")
}

fn assert_close(case: &Case, what: &str, dtype: Dtype, expected: &[Vec<f64>], got: &[Vec<f64>]) {
    let scale = match case.check {
        Check::Exact => None,
        Check::SumOfTerms => Some(magnitudes(case)),
        Check::Scale(scale) => Some(expected.iter().map(|output| vec![scale; output.len()]).collect()),
    };
    for (output, (expected, got)) in expected.iter().zip(got).enumerate() {
        for (i, (&expected_value, &got_value)) in expected.iter().zip(got).enumerate() {
            let allowed = scale.as_ref().map_or(0.0, |scale| scale[output][i] * tolerance(dtype));
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
fn assert_same_bits(case: &Case, what: &str, a: &[Vec<f64>], b: &[Vec<f64>]) {
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{case}, {what}: {a:e} and {b:e}");
    }
}

#[test]
fn references_work_in_any_window() {
    for case in all_cases() {
        for dtype in DTYPES {
            let whole = run(&case, "reference", dtype, Window::Whole).expect("the reference runs");
            let window = run(&case, "reference", dtype, Window::Around).expect("the reference runs");
            assert_same_bits(&case, "window", &whole, &window);
        }
    }
}

#[test]
fn references_agree_between_element_types() {
    for case in all_cases().filter(|case| !case.is_special) {
        let narrow = run(&case, "reference", Dtype::F32, Window::Whole).expect("the reference runs");
        let wide = run(&case, "reference", Dtype::F64, Window::Whole).expect("the reference runs");
        let mut case = case.clone();
        if let Check::Exact = case.check {
            case.check = Check::Scale(1.0);
        }
        assert_close(&case, "f32 against f64", Dtype::F32, &wide, &narrow);
    }
}

#[test]
fn every_implementation_agrees_with_the_reference() {
    let mut n_cases = 0;
    for case in all_cases() {
        for dtype in DTYPES {
            let expected = run(&case, "reference", dtype, Window::Whole).expect("the reference runs");
            for implementation in
                case.codelet.implementations.iter().filter(|i| i.dtype == dtype && i.name != "reference")
            {
                let got = run(&case, implementation.name, dtype, Window::Whole).expect("the kernel runs");
                assert_close(&case, implementation.name, dtype, &expected, &got);
                n_cases += 1;
            }
        }
    }
    assert!(n_cases > 2000, "only {n_cases} comparisons");
}

#[test]
fn bits_are_the_same_on_every_instruction_set_in_every_window_and_every_time() {
    for case in all_cases() {
        for dtype in DTYPES {
            let best = run(&case, "lanes", dtype, Window::Whole).expect("the kernel runs");
            for isa in Isa::available() {
                let got = isa.force(|| run(&case, "lanes", dtype, Window::Whole)).expect("the kernel runs");
                assert_same_bits(&case, &format!("{isa} {dtype}"), &best, &got);
            }
            let window = run(&case, "lanes", dtype, Window::Contiguous).expect("the kernel runs");
            assert_same_bits(&case, "window", &best, &window);
        }
    }
}

#[test]
fn every_codelet_has_cases() {
    for codelet in CODELETS {
        let n_cases = all_cases().filter(|case| case.codelet.name == codelet.name).count();
        assert!(n_cases >= 6, "{} has {n_cases} cases", codelet.name);
    }
}
