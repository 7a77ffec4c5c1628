//! The file in which choices stay: nothing but choosing and forgetting changes it.

use super::store::{Folder, identity, some, sound, store};
use super::*;
use dahl_runtime::perf::{Choice, Loaded, Store};
use std::collections::BTreeMap;
use std::fs;

fn choice(text: &str, date: u64) -> Choice {
    Choice { text: text.into(), date: Date(date), note: "calibrated, 3 runs\n".into() }
}

fn chosen(store: &Store) -> BTreeMap<String, Choice> {
    let Loaded { known, warnings } = store.choices();
    assert_eq!(warnings, []);
    known
}

#[test]
fn choices_change_only_when_somebody_chooses() {
    let folder = Folder::new("choices");
    let store = store(&folder.0);
    store.forget("what was never chosen").expect("forgotten");
    assert!(chosen(&store).is_empty() && folder.names().is_empty());
    store.choose("graph 1, batch 64", choice("tiles n=16 %\n", 5)).expect("chosen");
    store.choose("", Choice::default()).expect("chosen");
    let bytes = fs::read(store.choices_path()).expect("a file");
    store.add(&some(), NOW).expect("added");
    assert_eq!(fs::read(store.choices_path()).expect("a file"), bytes);
    assert_eq!(chosen(&store).len(), 2);
    assert_eq!(chosen(&store)["graph 1, batch 64"], choice("tiles n=16 %\n", 5));
    assert_eq!(sound(&store), some());
    store.choose("graph 1, batch 64", choice("tiles n=32", 6)).expect("chosen");
    store.forget("").expect("forgotten");
    assert_eq!(chosen(&store).into_values().collect::<Vec<_>>(), [choice("tiles n=32", 6)]);
}

#[test]
fn damaged_measurements_lose_no_choice() {
    let folder = Folder::new("apart");
    let store = store(&folder.0);
    store.choose("graph", choice("tiles", 1)).expect("chosen");
    fs::write(store.path(), "damage").expect("written");
    assert_eq!(chosen(&store)["graph"], choice("tiles", 1));
    assert_eq!(store.add(&some(), NOW).expect("added").len(), 1);
    assert_eq!(chosen(&store)["graph"], choice("tiles", 1));
}

#[test]
fn every_run_hears_of_damaged_choices_until_somebody_chooses() {
    let folder = Folder::new("damaged-choices");
    let store = store(&folder.0);
    store.choose("graph", choice("tiles", 1)).expect("chosen");
    let whole = fs::read(store.choices_path()).expect("a file");
    let is_noticed = |bytes: &[u8], what: &str| {
        fs::write(store.choices_path(), bytes).expect("written");
        let Loaded { known, warnings } = store.choices();
        assert!(known.is_empty() && warnings.len() == 1, "{what}: {warnings:?}");
        let text = warnings[0].to_string();
        assert!(text.contains("cannot be used, and results will have other bits"), "{what}: {text}");
        assert_eq!(text.matches(&store.choices_path().display().to_string()).count(), 1, "{text}");
        assert_eq!(fs::read(store.choices_path()).expect("it stays"), bytes, "{what}");
    };
    for n in 0..whole.len() {
        is_noticed(&whole[..n], &format!("the first {n} bytes"));
        let mut changed = whole.clone();
        changed[n] ^= 1;
        is_noticed(&changed, &format!("byte {n} changed"));
    }
    // Whatever measurements do meanwhile.
    store.add(&some(), NOW).expect("added");
    is_noticed(b"damage", "damage");
    let warnings = store.choose("other", choice("tiles", 2)).expect("chosen");
    assert!(warnings.len() == 1 && warnings[0].message.contains("it was moved to"), "{warnings:?}");
    assert_eq!(chosen(&store).into_keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(folder.names().iter().filter(|name| name.ends_with(".damaged")).count(), 1);
}

#[test]
fn choices_of_another_version_or_machine_are_neither_used_nor_changed() {
    let folder = Folder::new("refused-choices");
    let store = store(&folder.0);
    store.choose("graph", choice("tiles", 1)).expect("chosen");
    let newer =
        fs::read_to_string(store.choices_path()).expect("text").replacen("choices 1\n", "choices 2\n", 1);
    let elsewhere = Store::at(folder.0.join("elsewhere"), identity("another processor"));
    elsewhere.choose("graph", choice("tiles", 1)).expect("chosen");
    let other = fs::read_to_string(elsewhere.choices_path()).expect("text");
    for (text, why) in [(newer, "format version 2"), (other, "another machine")] {
        fs::write(store.choices_path(), &text).expect("written");
        let Loaded { known, warnings } = store.choices();
        assert!(known.is_empty() && warnings.len() == 1, "{warnings:?}");
        let message = &warnings[0].message;
        assert!(message.contains(why) && message.contains("other bits"), "{message}");
        for error in [store.choose("a", choice("b", 1)), store.forget("graph")] {
            assert!(error.expect_err("refused").message().contains(why));
        }
        assert_eq!(fs::read_to_string(store.choices_path()).expect("untouched"), text);
    }
}
