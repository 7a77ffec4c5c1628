//! Times of shapes that were never measured.

use super::*;
use dahl_runtime::perf::{Basis, Point, Regression, guess};
use proptest::prelude::*;

/// A pseudo-random number between -1 and 1.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Shapes from small to large, with a law and relative noise.
fn points(law: [f64; 3], n: usize, relative_noise: f64) -> Vec<Point> {
    let mut state = 7;
    let mut point = |i: usize| {
        let flops = 1e3 * 2.0_f64.powi(i as i32 % 14) * (1.0 + 0.5 * noise(&mut state));
        let bytes = 64.0 * 2.0_f64.powi((i as i32 * 5) % 13) * (1.0 + 0.5 * noise(&mut state));
        let exact = law[0] + law[1] * flops + law[2] * bytes;
        Point { flops, bytes, seconds: exact * (1.0 + relative_noise * noise(&mut state)) }
    };
    (0..n).map(&mut point).collect()
}

#[test]
fn known_laws_are_found() {
    for law in
        [[1e-7, 2e-11, 3e-10], [0.0, 2e-11, 0.0], [5e-6, 0.0, 0.0], [0.0, 0.0, 1e-10], [1e-7, 1e-10, 0.0]]
    {
        for (relative_noise, tolerance) in [(0.0, 1e-6), (0.05, 0.08)] {
            let fit = Regression::fit(&points(law, 40, relative_noise)).expect("a fit");
            assert!(
                !fit.is_ratio() && fit.n == 40 && fit.error <= relative_noise.max(1e-6),
                "{law:?}: {fit:?}"
            );
            for (flops, bytes) in [(1e4, 1e4), (1e6, 1e3), (3e3, 1e5), (1e7, 4e5)] {
                let exact = law[0] + law[1] * flops + law[2] * bytes;
                let off = fit.seconds(flops, bytes) / exact - 1.0;
                assert!(
                    off.abs() < tolerance,
                    "{law:?} with noise {relative_noise}: {off} at {flops}, {bytes}"
                );
            }
        }
    }
}

#[test]
fn a_few_odd_points_do_not_bend_the_law() {
    let law = [1e-7, 2e-11, 3e-10];
    let mut points = points(law, 30, 0.02);
    for odd in [3, 11, 24] {
        points[odd].seconds *= 20.0;
    }
    let fit = Regression::fit(&points).expect("a fit");
    assert!(fit.error < 0.05, "{fit:?}");
    let off = fit.seconds(1e6, 1e4) / (law[0] + law[1] * 1e6 + law[2] * 1e4) - 1.0;
    assert!(off.abs() < 0.1, "{off}");
}

#[test]
fn what_follows_no_law_says_so() {
    let mut state = 3;
    let wild: Vec<Point> = points([1e-6, 1e-11, 1e-10], 30, 0.0)
        .into_iter()
        .map(|point| Point { seconds: point.seconds * (10.0 * noise(&mut state).abs() + 0.1), ..point })
        .collect();
    let fit = Regression::fit(&wild).expect("a fit");
    assert!(fit.error > 0.3, "{fit:?}");
}

#[test]
fn few_and_degenerate_points_give_something_sensible() {
    assert_eq!(Regression::fit(&[]), None);
    let point = |flops, bytes, seconds| Point { flops, bytes, seconds };
    let one = Regression::fit(&[point(1e6, 1e4, 2.0 * guess(1e6, 1e4))]).expect("a ratio");
    assert!(one.is_ratio() && one.n == 1 && one.error == 1.0);
    assert!((one.seconds(1e7, 1e5) - 2.0 * guess(1e7, 1e5)).abs() < 1e-12);
    // Equal points, no operations, no bytes.
    for same in [point(1e6, 1e4, 1e-5), point(0.0, 0.0, 1e-6), point(0.0, 64.0, 1e-6)] {
        let fit = Regression::fit(&[same; 10]).expect("a fit");
        assert!((fit.seconds(same.flops, same.bytes) / same.seconds - 1.0).abs() < 1e-6, "{same:?}: {fit:?}");
    }
    // A count of nearly nothing is nothing, not a law of so many seconds per byte.
    let fit = Regression::fit(&[point(1e12, 0.0, 1e-8), point(0.0, 1e-308, 0.03)]).expect("a fit");
    assert!(fit.seconds(0.0, 1e18).is_finite(), "{fit:?}");
    // What is no measurement is left out.
    let nan = [
        point(1e6, 1e4, f64::NAN),
        point(1e6, 1e4, 0.0),
        point(1e6, 1e4, -1.0),
        point(1e6, 1e4, f64::INFINITY),
    ];
    assert_eq!(Regression::fit(&nan), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_points_times_are_finite_and_not_negative(
        points in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..12),
        flops in any::<f64>(),
        bytes in any::<f64>(),
    ) {
        let points: Vec<Point> =
            points.into_iter().map(|(flops, bytes, seconds)| Point { flops, bytes, seconds: seconds.abs() }).collect();
        // Times of more than a year are left to those who have them.
        let points: Vec<Point> = points.into_iter().filter(|point| point.seconds < 1e8 && point.seconds > 1e-12).collect();
        if let Some(fit) = Regression::fit(&points) {
            let seconds = fit.seconds(flops, bytes);
            prop_assert!(seconds.is_finite() && seconds >= 0.0, "{fit:?}: {seconds}");
            prop_assert!(fit.error >= 0.0 && !fit.error.is_nan());
        }
    }
}

/// Shapes of one codelet under one condition, of which the time is a law of their size.
fn learned(
    models: &mut Models,
    sizes: std::ops::Range<usize>,
    condition: Condition,
    seconds: impl Fn(f64) -> f64,
) {
    for i in sizes {
        let flops = 1e4 * (i + 1) as f64;
        models.add(key("conv2d", &format!("{i}")), flops, 4096, condition, run(1, seconds(flops)));
    }
}

#[test]
fn shapes_never_seen_are_estimated_from_the_nearest_condition() {
    let mut models = Models::new();
    learned(&mut models, 0..12, WARM, |flops| 1e-6 + 1e-11 * flops);
    learned(&mut models, 0..12, COLD, |flops| 4e-6 + 1e-11 * flops);
    let estimate =
        |models: &Models, condition| models.estimate(&key("conv2d", "other"), condition, 2e6, 4096);
    for (condition, expected) in [(WARM, 21e-6), (COLD, 24e-6), (WARM_2, 21e-6)] {
        let found = estimate(&models, condition);
        assert!(matches!(found.basis, Basis::Regression { n: 12, error } if error < 0.01), "{found:?}");
        assert!((found.seconds / expected - 1.0).abs() < 0.02, "{condition}: {found:?}");
    }
    // Where two workers were measured, that counts for two.
    learned(&mut models, 0..6, WARM_2, |flops| 2e-6 + 2e-11 * flops);
    assert!((estimate(&models, WARM_2).seconds / 42e-6 - 1.0).abs() < 0.02);
}
