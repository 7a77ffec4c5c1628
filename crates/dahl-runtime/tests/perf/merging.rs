//! Histories of several runs: how they are merged, and what they say together.

use super::*;
use dahl_runtime::perf::{History, N_RUNS};
use proptest::prelude::*;

fn merged(parts: &[&Models]) -> Models {
    let mut all = Models::new();
    parts.iter().for_each(|part| all.merge(part));
    all
}

/// Few ids and dates, so that the same run comes several times, also with different contents.
fn some_models() -> impl Strategy<Value = Models> {
    let run = (0_u64..12, 0_u64..6, 1_u32..4, 0_usize..3, any::<bool>(), 1_u32..3);
    prop::collection::vec(run, 0..20).prop_map(|runs| {
        let mut models = Models::new();
        for (id, date, micros, name, is_cold, workers) in runs {
            let name = ["conv2d", "dense", "sgd"][name];
            let run = run_on(id, date, f64::from(micros) * 1e-6);
            models.add(key(name, "4"), 1.0, 4, Condition { is_cold, workers }, run);
        }
        models
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_and_number_of_merges_makes_no_difference(a in some_models(), b in some_models(), c in some_models()) {
        let all = merged(&[&a, &b, &c]);
        prop_assert_eq!(&merged(&[&c, &a, &b]), &all);
        prop_assert_eq!(&merged(&[&merged(&[&a, &b]), &c]), &all);
        prop_assert_eq!(&merged(&[&a, &merged(&[&b, &c])]), &all);
        prop_assert_eq!(&merged(&[&all, &b, &a, &all]), &all);
        for history in all.entries().flat_map(|(_, entry)| entry.histories.values()) {
            prop_assert!((1..=N_RUNS).contains(&history.runs().len()));
            prop_assert!(history.runs().windows(2).all(|pair| pair[0].date >= pair[1].date));
        }
    }

    #[test]
    fn an_estimate_lies_between_the_runs(seconds in prop::collection::vec(1_u32..1000, 1..20)) {
        let mut history = History::default();
        for (i, seconds) in seconds.iter().enumerate() {
            history.add(run(i as u64, f64::from(*seconds)));
        }
        let kept = history.runs().iter().map(|run| run.summary.typical);
        let (least, most) = kept.fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
        let estimate = history.seconds().expect("runs");
        prop_assert!(least <= estimate && estimate <= most);
        prop_assert!(history.deviation() >= 0.0);
    }
}

fn history(seconds: &[f64]) -> History {
    let mut history = History::default();
    seconds.iter().enumerate().for_each(|(i, &seconds)| history.add(run(i as u64, seconds)));
    history
}

#[test]
fn one_noisy_run_spoils_nothing_and_a_lasting_change_is_followed() {
    let at = |seconds: &[f64]| history(seconds).seconds();
    assert_eq!(history(&[]).seconds(), None);
    assert_eq!(at(&[1.0]), Some(1.0));
    // Nobody can tell which of two is right: the newer.
    assert_eq!((at(&[1.0, 9.0]), at(&[9.0, 1.0])), (Some(9.0), Some(1.0)));
    for noisy in 0..5 {
        let mut seconds = [1.0, 1.01, 0.99, 1.0, 1.02];
        seconds[noisy] = 40.0;
        assert!(at(&seconds).is_some_and(|seconds| seconds < 1.05), "run {noisy}");
    }
    // However long it was otherwise.
    let mut changed = vec![1.0; 50];
    changed.extend([1.7; 3]);
    assert!(at(&changed).is_some_and(|seconds| (seconds - 1.7).abs() < 1e-9));
    assert!(history(&[1.0, 1.7, 1.0, 1.7]).deviation() > 0.3);
}

#[test]
fn a_run_of_one_execution_does_not_outweigh_a_long_one() {
    let mut history = history(&[1.0]);
    history.add(Run { id: RunId(7), date: 7, summary: Summary::of(&[5.0]).expect("one") });
    assert_eq!(history.seconds(), Some(1.0));
    assert_eq!(history.n(), 101);
}

#[test]
fn learning_twice_from_the_same_run_changes_nothing() {
    let once = models(&[("conv2d", WARM, run(1, 1e-6))]);
    let mut twice = once.clone();
    twice.merge(&once);
    assert_eq!(twice, once);
    assert!(Models::new().is_empty() && !once.is_empty());
    assert!(once.get(&key("conv2d", "16x3")).is_some() && once.get(&key("dense", "16x3")).is_none());
}

#[test]
fn what_is_no_measurement_is_left_out() {
    let sound = Summary::of(&[1.0; 3]).expect("three times");
    for wrong in [
        Summary { n: 0, ..sound },
        Summary { typical: f64::NAN, ..sound },
        Summary { mean: f64::INFINITY, ..sound },
        Summary { minimum: -1.0, ..sound },
    ] {
        assert!(
            models(&[("conv2d", WARM, Run { id: RunId(1), date: 1, summary: wrong })]).is_empty(),
            "{wrong:?}"
        );
    }
}
