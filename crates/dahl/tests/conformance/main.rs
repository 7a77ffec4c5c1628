//! Every implementation of every codelet against its reference, in every element type it has.
//!
//! All of it is driven by the list of codelets and their samples. `dahl_runtime::conformance` does the work,
//! as it does for codelets of others; here it is told of every codelet, and instruction sets are compared.
//! `by_hand` holds the references to worked examples.

mod by_hand;

use dahl::op::CODELETS;
use dahl::op::simd::Isa;
use dahl_runtime::conformance::{Case, Window, check_calls, check_tilings, dtypes, fast};

#[test]
fn every_implementation_agrees_with_the_reference() -> dahl::Result<()> {
    let mut n_comparisons = 0;
    for codelet in CODELETS {
        n_comparisons += check_calls(codelet)?;
    }
    assert!(n_comparisons > 2000, "only {n_comparisons} comparisons");
    Ok(())
}

#[test]
fn every_tiling_computes_the_same() -> dahl::Result<()> {
    for codelet in CODELETS {
        check_tilings(codelet)?;
    }
    Ok(())
}

#[test]
fn bits_are_the_same_on_every_instruction_set() -> dahl::Result<()> {
    for codelet in CODELETS {
        for case in Case::all(codelet)? {
            for dtype in dtypes(codelet) {
                for implementation in fast(codelet, dtype) {
                    let name = implementation.name;
                    let best = case.run(name, dtype, Window::Whole)?.concat();
                    for isa in Isa::available() {
                        let got = isa.force(|| case.run(name, dtype, Window::Whole))?.concat();
                        let is_same =
                            |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                        let are_same = best.len() == got.len() && best.iter().zip(&got).all(is_same);
                        assert!(are_same, "{case}, {name} {isa} {dtype}");
                    }
                }
            }
        }
    }
    Ok(())
}
