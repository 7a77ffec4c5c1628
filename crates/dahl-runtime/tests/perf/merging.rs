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
    history.add(Run { id: RunId(7), date: Date(7), summary: Summary::of(&[5.0]).expect("one") });
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
            models(&[("conv2d", WARM, Run { id: RunId(1), date: Date(1), summary: wrong })]).is_empty(),
            "{wrong:?}"
        );
    }
}

#[test]
fn the_rounds_of_a_command_become_one_run() {
    let mut rounds = models(&[("conv2d", WARM, run_on(1, 5, 7e-6))]);
    for i in 0..5 {
        rounds.merge(&models(&[("conv2d", WARM, run_on(10 + i, 10 + i, 1e-6))]));
    }
    rounds.merge(&models(&[("dense", COLD, run_on(2, 9, 2e-6))]));
    let once = rounds.since(Date(10)).condensed(RunId(77), Date(20));
    assert_eq!(once.entries().count(), 1, "the other one is older");
    let history = &once.get(&key("conv2d", "16x3")).expect("learned").histories[&WARM];
    assert_eq!(
        history.runs().iter().map(|run| (run.id, run.date)).collect::<Vec<_>>(),
        [(RunId(77), Date(20))]
    );
    assert_eq!((history.n(), history.seconds()), (500, Some(1e-6)));
    let entry = once.get(&key("conv2d", "16x3")).expect("learned");
    assert_eq!((entry.flops, entry.bytes), (1e6, 4096));
    assert!(Models::new().condensed(RunId(1), NOW).is_empty() && rounds.since(NOW).is_empty());
}

#[test]
fn runs_within_a_second_are_in_order() {
    let mut history = History::default();
    let start = Date::of_seconds(1_794_700_800);
    // The older ones have larger ids.
    for i in 0..3 {
        history.add(Run { date: Date(start.0 + i), ..run(100 - i, 1.0 + i as f64) });
    }
    let order: Vec<f64> = history.runs().iter().map(|run| run.summary.typical).collect();
    assert_eq!(order, [3.0, 2.0, 1.0]);
    assert_eq!(history.newest().seconds(), 1_794_700_800);
}
