//! `dahl calibrate` and `dahl sweep`, and what they change for `dahl train`.

mod command;

use command::{Folder, command, sentence};
use serde_json::Value;
use std::process::Output;

/// A user with a cache of their own.
struct User(Folder);

impl User {
    fn new(name: &str) -> User {
        User(Folder::new(name))
    }

    fn dahl(&self, arguments: &[&str]) -> Output {
        command(arguments).env("DAHL_CACHE", self.0.file("cache")).output().expect("dahl runs")
    }

    fn success(&self, arguments: &[&str]) -> String {
        let output = self.dahl(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        // Workers are as many as a test says, wherever it runs.
        let is_quiet = errors.lines().all(|line| line.contains("take turns on"));
        assert!(output.status.success() && is_quiet, "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.success(&[arguments, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The summary of a short run, and the loss that shows its bits.
    fn train(&self, arguments: &[&str]) -> (Value, Value) {
        let lines = self.json(&[&["train", "--limit", "320", "--epochs", "2"], arguments].concat());
        let (epoch, summary) = (&lines[1], &lines[2]["summary"]);
        (summary.clone(), epoch["loss"].clone())
    }
}

const QUICK: [&str; 2] = ["--seconds", "0.001"];

#[test]
fn what_is_calibrated_is_used_until_it_is_forgotten() {
    let user = User::new("calibrate");
    let (before, loss_before) = user.train(&[]);
    assert_eq!(before["plan_origin"], "heuristic");

    // A plain `dahl calibrate` is for a plain `dahl train`.
    let calibrate = [&["calibrate"], &QUICK[..]].concat();
    assert!(user.success(&["stats"]).contains("load "));
    let lines = user.json(&calibrate);
    let [calibrated] = &lines[..] else { panic!("one step, one line: {lines:?}") };
    let plans = calibrated["plans"].as_array().expect("plans");
    let cuts = |plan: &&Value| plan["cut"] == calibrated["chosen"];
    assert!(plans.iter().any(|plan| cuts(&plan)), "{calibrated}");
    assert!(plans.iter().all(|plan| plan["step_us"].as_f64().is_some_and(|us| us > 0.0)), "{calibrated}");

    // The same command gives the same bits, whatever the workers, and says where the plan comes from.
    let (after, loss) = user.train(&[]);
    let origin = after["plan_origin"].as_str().expect("text");
    assert!(origin.starts_with("calibrated on 20"), "{origin}");
    for arguments in [&["--workers", "1"][..], &["--workers", "3"], &["--schedule", "steal"]] {
        assert_eq!(user.train(arguments).1, loss, "{arguments:?}");
    }
    // Testing what was trained sums as training did.
    let run = user.0.file("run");
    let lines =
        user.json(&["train", "--limit", "320", "--epochs", "1", "--tiles", "n=40", "--checkpoint", &run]);
    assert_eq!(user.json(&["eval", &run])[0]["test_loss"], lines[0]["test_loss"]);
    // Other steps were not calibrated.
    assert_eq!(user.train(&["--batch", "32"]).0["plan_origin"], "heuristic");
    assert_eq!(user.train(&["--dtype", "f64"]).0["plan_origin"], "heuristic");
    // What is asked for counts more.
    let (asked, _) = user.train(&["--tiles", "n=16"]);
    assert_eq!(asked["plan_origin"], "as asked for");
    assert_eq!(asked["plan_hash"], before["plan_hash"]);

    let text = user.success(&["calibrate", "--data", "digits", "--forget"]);
    assert!(text.contains("by the heuristic again"), "{text}");
    let (forgotten, loss) = user.train(&[]);
    assert_eq!((&forgotten["plan_origin"], loss), (&before["plan_origin"], loss_before));
    assert_eq!(forgotten["plan_hash"], before["plan_hash"]);
}

#[test]
fn a_run_goes_on_with_its_cut_whatever_was_calibrated_since() {
    let user = User::new("calibrate-resume");
    let folder = user.0.file("run");
    let run = ["--limit", "320", "--steps", "7", "--checkpoint", &folder];
    user.success(&[&["train", "--tiles", "n=32"], &run[..]].concat());
    user.success(&[&["calibrate", "--data", "digits"], &QUICK[..]].concat());
    // A plan that is asked for says by itself how tasks are cut.
    let plan = user.0.file("a.plan");
    user.success(&[
        "train",
        "--limit",
        "320",
        "--steps",
        "7",
        "--tiles",
        "n=32",
        "--workers",
        "3",
        "--save-plan",
        &plan,
    ]);
    let copy = user.0.file("copy");
    std::fs::create_dir(&copy).expect("a folder");
    for file in std::fs::read_dir(&folder).expect("files").flatten() {
        std::fs::copy(file.path(), format!("{copy}/{}", file.file_name().display())).expect("copied");
    }
    user.success(&["train", "--resume", &copy, "--epochs", "2", "--plan", &plan, "--workers", "3"]);
    let resumed = user.json(&["train", "--resume", &folder, "--epochs", "2", "--workers", "3"]);
    let straight = user.train(&["--tiles", "n=32"]).1;
    assert_eq!(resumed.iter().rev().nth(1).expect("an epoch")["loss"], straight);
}

#[test]
fn a_sweep_measures_predicts_and_draws() {
    let user = User::new("sweep");
    let picture = user.0.file("sweep.svg");
    let sweep = ["sweep", "--data", "digits", "--batch", "16,48", "--workers", "1,2", "--rounds", "2"];
    let lines = user.json(&[&sweep[..], &QUICK, &["--plot", &picture]].concat());
    assert_eq!(lines.len(), 4);
    for case in &lines {
        let plans = case["plans"].as_array().expect("plans");
        assert!(
            !plans.is_empty() && case["default_to_best"].as_f64().is_some_and(|ratio| ratio >= 1.0),
            "{case}"
        );
        for plan in plans {
            let numbers = |key: &str| -> Vec<f64> {
                plan[key]
                    .as_array()
                    .expect("numbers")
                    .iter()
                    .map(|number| number.as_f64().expect("a number"))
                    .collect()
            };
            assert!(numbers("rounds_us").len() == 2 && numbers("predicted_us").len() == 2, "{plan}");
            assert!(
                numbers("predicted_us").iter().chain(&numbers("rounds_us")).all(|us| *us > 0.0),
                "{plan}"
            );
        }
    }
    let svg = String::from_utf8(user.0.read("sweep.svg")).expect("text");
    assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() == 4, "{svg}");
    // What was measured is there to be looked at, and for the next time.
    let known = &user.json(&["stats"])[0];
    let models = known["models"].as_array().expect("models");
    assert!(models.iter().any(|model| model["codelet"] == "conv2d" && model["workers"] == 2), "{known}");
    assert!(
        models.iter().all(|model| model["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0)),
        "{known}"
    );
    assert!(known["choices"].as_array().expect("choices").is_empty());
    let text = user.success(&["stats"]);
    assert!(text.starts_with("codelet ") && text.contains("conv2d_dw"), "{text}");
    let lines = user.json(
        &[
            &["sweep", "--data", "digits", "--batch", "48", "--workers", "2", "--default", "--rounds", "1"],
            &QUICK[..],
        ]
        .concat(),
    );
    let sources = &lines[0]["plans"][0]["predicted_from"];
    assert!(sources["history"].as_u64() > Some(0) && sources["guess"] == 0, "{sources}");
}

#[test]
fn mistakes_are_sentences() {
    let user = User::new("tune-mistakes");
    let failure = |arguments: &[&str], code| sentence(&format!("{arguments:?}"), &user.dahl(arguments), code);
    assert!(failure(&["calibrate", "--model", "nothing"], 2).contains("nothing"));
    assert!(failure(&["sweep", "--tiles", "16"], 2).contains("AXIS=16"));
    assert!(failure(&["sweep", "--rounds", "0"], 2).contains("rounds"));
    assert!(failure(&["sweep", "--plot", "no/such/folder/a.svg"], 1).contains("a.svg"));
    // One round leaves nothing to learn from.
    let text =
        user.success(&[&["sweep", "--batch", "16", "--workers", "1", "--rounds", "1"], &QUICK[..]].concat());
    assert!(text.contains("nothing was predicted") && !text.contains("NaN"), "{text}");
    // A cache that cannot be written is no reason not to train.
    let file = user.0.write("file", "");
    let output = command(&["train", "--limit", "64", "--epochs", "1"])
        .env("DAHL_CACHE", &file)
        .output()
        .expect("dahl runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("not kept"), "{errors}");
    let output = command(&["calibrate"]).env_clear().output().expect("dahl runs");
    assert!(sentence("no cache", &output, 1).contains("DAHL_CACHE"));
}
