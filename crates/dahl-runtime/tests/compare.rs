//! Comparing numbers: what agrees, what is said about what does not.
#![cfg(not(feature = "shuttle"))]

use dahl_runtime::array::{Distance, Element, Tolerance, assert_close, compare};
use dahl_runtime::machine::Machine;
use dahl_runtime::{ErrorKind, Result, Runtime};
use proptest::prelude::*;

fn agree<T: Element>(a: T, b: T, tolerance: Tolerance) -> bool {
    compare(&[a], &[b], tolerance).expect("equal shapes").agrees()
}

#[test]
fn bounds_hold_as_they_are_named() {
    assert!(
        agree(100.0f32, 100.5, Tolerance::absolute(0.5)) && !agree(100.0f32, 100.5, Tolerance::absolute(0.4))
    );
    assert!(agree(100.0, 99.0, Tolerance::relative(0.01)) && !agree(100.0, 98.9, Tolerance::relative(0.01)));
    assert!(agree(1.0f32, 1.0 + 4.0 * f32::EPSILON, Tolerance::ulps(4)));
    assert!(!agree(1.0f32, 1.0 + 5.0 * f32::EPSILON, Tolerance::ulps(4)));
    assert!(agree(250u8, 253, Tolerance::absolute(3.0)) && !agree(250u8, 253, Tolerance::EXACT));
    assert!(agree(u32::MAX, u32::MAX - 2, Tolerance::ulps(2)));
    // Any one bound is enough.
    let either = Tolerance::relative(1e-3).or_absolute(1e-9);
    assert!(agree(1e-12, -1e-12, either) && agree(1000.0, 1000.5, either) && !agree(1.0, 1.1, either));
    assert!(agree(1.0f64, 1.05, Tolerance::ulps(1).or_relative(0.1)));
    assert!(agree(1.0f64, 1.0f64.next_up(), Tolerance::relative(1e-20).or_ulps(1)));
}

#[test]
fn what_is_no_ordinary_number_has_its_rule() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let all = Tolerance::absolute(f64::INFINITY).or_relative(10.0);
    assert!(agree(inf, inf, Tolerance::EXACT) && agree(-inf, -inf, all));
    assert!(!agree(inf, -inf, all) && !agree(inf, 1.0, all));
    assert!(!agree(f32::MAX, inf, Tolerance::ulps(1)), "one step, but an overflow");
    assert!(!agree(nan, nan, all) && !agree(nan, 1.0, all) && !agree(1.0, nan, all.or_nan()));
    assert!(agree(nan, -nan, Tolerance::EXACT.or_nan()));
    let both = compare(&[nan, 1.0], &[nan, 1.5], Tolerance::absolute(1.0).or_nan()).expect("equal shapes");
    assert_eq!(both.largest.absolute, 0.5, "two that agree have no distance");
    assert!(agree(0.0f32, -0.0, Tolerance::EXACT) && !agree(0.0f32, -0.0, Tolerance::SAME_BITS));
    assert!(agree(nan, nan, Tolerance::SAME_BITS) && !agree(nan, -nan, Tolerance::SAME_BITS));
    assert!(agree(f64::MIN_POSITIVE, 0.0, Tolerance::absolute(1e-300)));
    assert!(
        !agree(f64::MAX, f64::MIN, Tolerance::relative(1.9))
            && agree(f64::MAX, f64::MIN, Tolerance::relative(2.0))
    );
}

#[test]
fn the_first_and_the_worst_are_found_by_index() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(1))?;
    let x = runtime.owned_from([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let expected = [1.0f32, 2.5, 3.0, 4.0, 2.0, 6.25];
    let found = compare(&x.read()?, &expected, Tolerance::absolute(0.125))?;
    assert_eq!((found.n, found.n_mismatches), (6, 3));
    let (first, worst) = (found.first.clone().expect("one"), found.worst.clone().expect("one"));
    assert_eq!((first.index, first.actual, first.expected), (vec![0, 1], 2.0, 2.5));
    assert_eq!((worst.index, worst.actual, worst.distance.absolute), (vec![1, 1], 5.0, 3.0));
    assert_eq!(
        found.to_string(),
        "3 of 6 elements do not agree (within 1.25e-1 absolute)\n  \
         first at [0, 1]: 2, expected 2.5 (5.000e-1 absolute, 2.000e-1 relative, 2097152 ULP)\n  \
         worst at [1, 1]: 5, expected 2 (3.000e0 absolute, 6.000e-1 relative, 10485760 ULP)\n  \
         largest distances: 3.000e0 absolute, 6.000e-1 relative, 10485760 ULP"
    );
    // A NaN is worse than any number, and what is worst depends on the bound.
    let worst = |actual: [f64; 3], expected: [f64; 3], tolerance| {
        let worst = compare(&actual, &expected, tolerance).expect("equal shapes").worst;
        worst.map(|mismatch| mismatch.index)
    };
    assert_eq!(worst([1e9, f64::NAN, 0.0], [0.0; 3], Tolerance::EXACT), Some(vec![1]));
    assert_eq!(worst([1e9, 1.0, 0.0], [1e9 + 9.0, 2.0, 0.0], Tolerance::absolute(0.1)), Some(vec![0]));
    assert_eq!(worst([1e9, 1.0, 0.0], [1e9 + 9.0, 2.0, 0.0], Tolerance::relative(1e-12)), Some(vec![1]));
    assert_eq!(worst([1.0; 3], [1.0; 3], Tolerance::EXACT), None);
    Ok(())
}

#[test]
fn shapes_must_fit_and_lists_fit_every_shape() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(1))?;
    let x = runtime.owned_from([2, 3], &[1u8, 2, 3, 4, 5, 6])?;
    let turned = x.view().into_transposed();
    assert_close(&turned.read()?, &[1, 4, 2, 5, 3, 6], Tolerance::EXACT);
    assert_close(&x.read()?, x.to_vec()?.as_slice(), Tolerance::SAME_BITS);
    let error = compare(&x.read()?, &turned.read()?, Tolerance::EXACT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.to_string().starts_with("an array of shape [2,3] and an array of shape [3,2] do not fit"));
    let error = compare(&x.read()?, &[1, 2], Tolerance::EXACT).unwrap_err();
    assert!(error.to_string().contains("and a list of 2 values do not fit each other"), "{error}");
    assert!(compare::<f32>(&[], &[], Tolerance::EXACT)?.agrees());
    let empty = runtime.owned::<f32, 2>([0, 3])?;
    assert!(compare(&empty.read()?, &[], Tolerance::EXACT)?.agrees());
    Ok(())
}

#[test]
#[should_panic(expected = "1 of 2 elements do not agree (within 4 ULP)\n  first at [1]: 2, expected 2.5")]
fn an_assertion_says_what_is_wrong() {
    assert_close(&[1.0f32, 2.0], &[1.0, 2.5], Tolerance::ulps(4));
}

proptest! {
    #[test]
    fn steps_are_steps(bits: u32, n in 0..20u64) {
        let x = f32::from_bits(bits);
        prop_assume!(x.is_finite());
        let y = (0..n).fold(x, |y, _| y.next_up());
        // The two zeros are one place, so that a step over them does not count.
        let n = n - u64::from(x < 0.0 && y >= 0.0 && !(y == 0.0 && y.is_sign_negative()));
        prop_assert_eq!(x.ulps(y), n);
        if y.is_finite() {
            prop_assert!(agree(x, y, Tolerance::ulps(n)));
            prop_assert!(n == 0 || !agree(x, y, Tolerance::ulps(n - 1)));
        }
    }

    #[test]
    fn distances_are_symmetric_and_bounds_are_tight(a: f64, b: f64) {
        prop_assume!(a.is_finite() && b.is_finite() && a != b);
        let distance = Distance::between(a, b);
        prop_assert_eq!(distance, Distance::between(b, a));
        prop_assert!(agree(a, b, Tolerance::absolute(distance.absolute)));
        prop_assert!(agree(a, b, Tolerance::relative(distance.relative)));
        prop_assert!(agree(a, b, Tolerance::ulps(distance.ulps)));
        prop_assert!(!agree(a, b, Tolerance::absolute(distance.absolute.next_down())));
        prop_assert!(!agree(a, b, Tolerance::relative(distance.relative.next_down())));
        prop_assert!(!agree(a, b, Tolerance::ulps(distance.ulps - 1)));
    }

    #[test]
    fn mismatches_are_counted(values in prop::collection::vec((-9..9i8, -9..9i8), 0..40)) {
        let (a, b): (Vec<f32>, Vec<f32>) = values.iter().map(|&(a, b)| (f32::from(a), f32::from(b))).unzip();
        let found = compare(&a, &b, Tolerance::absolute(4.0)).unwrap();
        let differs = |&(a, b): &(i8, i8)| (a - b).abs() > 4;
        prop_assert_eq!(found.n_mismatches, values.iter().filter(|pair| differs(pair)).count());
        let index = |mismatch: Option<dahl_runtime::array::Mismatch<f32>>| mismatch.map(|m| m.index[0]);
        prop_assert_eq!(index(found.first), values.iter().position(differs));
        let most = values.iter().map(|&(a, b)| (a - b).abs()).max().filter(|&most| most > 4);
        prop_assert_eq!(index(found.worst), values.iter().position(|&(a, b)| Some((a - b).abs()) == most));
    }
}
