//! Declared regions are sufficient: what lies outside of them is neither read nor written.

use crate::case::{all_cases, dtypes};
use crate::harness::Arg;
use crate::{assert_same_bits, call, memory};
use dahl_runtime::array::{Layout, Region};

/// A tile in memory that holds the whole arrays gives the same bits whether the rest of them is there or
/// poisoned, and leaves the rest as it is.
#[test]
fn a_tile_touches_nothing_outside_of_its_regions() {
    for case in all_cases() {
        for dtype in dtypes(case.codelet) {
            let args = |is_poisoned: bool| -> Vec<Arg> {
                let arg = |i: usize| {
                    let whole = Region::whole(case.sample.args[i].shape);
                    let mut arg = memory(&case, i, dtype, Layout::RowMajor, whole);
                    let held = if is_poisoned { case.regions[i] } else { whole };
                    arg.fill_region(&held, &case.data_in(i, &held, dtype));
                    arg
                };
                (0..case.regions.len()).map(arg).collect()
            };
            let poisoned = args(true);
            let before: Vec<_> = poisoned.iter().map(|arg| arg.values_outside()).collect();
            let poisoned = call(&case, "reference", dtype, poisoned);
            let full = call(&case, "reference", dtype, args(false));
            for i in 0..case.regions.len() {
                assert_same_bits(&case, "poisoned", &full[i].values(), &poisoned[i].values());
                assert_same_bits(&case, "outside", &before[i], &poisoned[i].values_outside());
            }
        }
    }
}
