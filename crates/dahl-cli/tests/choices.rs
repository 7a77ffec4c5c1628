//! Calibrated cuts that cannot be used: results would silently have other bits.

mod command;

use command::{Folder, command};
use dahl::dataset;
use dahl::model::Sequential;
use dahl::op::simd::Isa;
use dahl::tune::choice_key;
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::{Hardware, Machine};
use dahl_runtime::perf::{Choice, Identity, Store};
use serde_json::Value;

/// The store that the command finds in a folder.
fn store(folder: &Folder) -> Store {
    Store::at(folder.file("cache"), Identity::new(&Hardware::detect(), &Isa::current().to_string()))
}

/// What a short run says on standard error, and where its plan comes from.
fn train(folder: &Folder) -> (String, String) {
    let train = command(&["train", "--limit", "128", "--epochs", "1", "--json"]);
    let output = { train }.env("DAHL_CACHE", folder.file("cache")).output().expect("dahl runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    (errors, last["summary"]["plan_origin"].as_str().expect("text").to_string())
}

fn key() -> String {
    let digits = dataset::digits();
    let model = Sequential::builtin("seed", digits.shape, digits.classes).expect("a model by name");
    choice_key(&model, 64, Dtype::F32, &Machine::with_workers(1))
}

#[test]
fn a_choice_is_used_and_one_that_means_nothing_is_said_loudly() {
    let folder = Folder::new("choices");
    let choice = |text: &str| Choice { text: text.into(), ..Choice::default() };
    store(&folder)
        .choose(&key(), choice("tiles:n=32 impl:lanes,flat,reference group:1 groups:16"))
        .expect("chosen");
    assert_eq!(train(&folder), (String::new(), "calibrated on 1970-01-01".to_string()));
    store(&folder).choose(&key(), choice("what nobody understands")).expect("chosen");
    // Every time.
    for _ in 0..2 {
        let (errors, origin) = train(&folder);
        assert!(
            errors.starts_with("dahl: WARNING: the calibrated cut 'what nobody understands'"),
            "{errors}"
        );
        assert!(errors.contains("results will have other bits") && errors.contains("--forget"), "{errors}");
        assert_eq!(origin, "heuristic");
    }
}

#[test]
fn damaged_choices_are_said_loudly_and_damaged_times_lose_none() {
    let folder = Folder::new("damaged-choices");
    let store = store(&folder);
    store
        .choose(
            &key(),
            Choice {
                text: "tiles:n=32 impl:lanes,flat,reference group:1 groups:16".into(),
                ..Choice::default()
            },
        )
        .expect("chosen");
    train(&folder);
    std::fs::write(store.path(), "damage").expect("written");
    let (errors, origin) = train(&folder);
    assert!(errors.contains("measuring begins anew") && !errors.contains("WARNING"), "{errors}");
    assert_eq!(origin, "calibrated on 1970-01-01");
    std::fs::write(store.choices_path(), "damage").expect("written");
    for _ in 0..2 {
        let (errors, origin) = train(&folder);
        assert!(errors.starts_with("dahl: WARNING: ") && errors.contains("other bits"), "{errors}");
        assert_eq!(origin, "heuristic");
    }
}
