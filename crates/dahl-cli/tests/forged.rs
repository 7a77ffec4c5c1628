//! Checkpoints that somebody made up, with a checksum that is right: a sentence, and nothing is done that
//! they ask for.

mod command;

use command::{Folder, failure, success};
use dahl::tensors::Tensor;
use dahl::train::Checkpoint;

/// A checkpoint of a small run: 100 images, 32 at a time, stopped after the second batch of the second epoch.
fn genuine(folder: &Folder) -> Checkpoint {
    let saved = folder.file("genuine");
    success(&["train", "--limit", "100", "--batch", "32", "--steps", "6", "--checkpoint", &saved]);
    Checkpoint::load(saved).expect("a checkpoint").checkpoint
}

/// Saves a changed checkpoint alone in a folder, and says where.
fn forged(folder: &Folder, genuine: &Checkpoint, change: impl FnOnce(&mut Checkpoint)) -> String {
    let path = folder.file("forged");
    let _ = std::fs::remove_dir_all(&path);
    let mut checkpoint = genuine.clone();
    change(&mut checkpoint);
    checkpoint.save(&path).expect("saved");
    path
}

fn set(checkpoint: &mut Checkpoint, key: &str, value: &str) {
    let before = checkpoint.settings.insert(key.to_string(), value.to_string());
    assert!(before.is_some(), "{key} is no setting of a checkpoint");
}

fn note(checkpoint: &mut Checkpoint, argument: &str) {
    let text = checkpoint.settings.get_mut("note.arguments").expect("arguments");
    *text = format!("{text}\n{argument}");
}

#[test]
fn no_checkpoint_says_where_to_write() {
    let folder = Folder::new("forged-paths");
    let genuine = genuine(&folder);
    let victim = folder.write("victim.json", "precious");
    let target = folder.file("target");
    for argument in
        ["save-plan", "report", "trace", "metrics", "dump", "checkpoint", "resume", "init", "plan"]
    {
        for path in [&victim, &target] {
            let argument = format!("--{argument}={path}");
            let run = forged(&folder, &genuine, |checkpoint| note(checkpoint, &argument));
            for command in [&["train", "--resume", &run][..], &["eval", &run], &["predict", &run, "0"]] {
                let text = failure(command);
                assert!(text.contains(&argument), "{argument}: {text}");
            }
            assert_eq!(folder.read("victim.json"), b"precious", "{argument}");
            assert!(!std::path::Path::new(&target).exists(), "{argument}");
        }
    }
    for argument in ["--help", "--test-unit", "-h", "--", "", "precious", "--datas=digits", "--no-fusion=x"] {
        let run = forged(&folder, &genuine, |checkpoint| note(checkpoint, argument));
        let text = failure(&["train", "--resume", &run]);
        assert!(text.contains(&format!("the argument {argument:?}")), "{argument}: {text}");
    }
    // What may be noted is looked at like what is said.
    for argument in ["--batch=0", "--lr=nan", "--input=1x1", "--tiles=?", "--group=0", "--impl=none"] {
        let run = forged(&folder, &genuine, |checkpoint| note(checkpoint, argument));
        let text = failure(&["train", "--resume", &run]);
        assert!(text.contains("arguments of the checkpoint are not understood"), "{argument}: {text}");
    }
}

#[test]
#[cfg(unix)]
fn data_whose_name_has_two_lines_smuggles_nothing_in() {
    let folder = Folder::new("forged-lines");
    let victim = folder.write("victim", "precious");
    let data = format!("{}\n--save-plan={victim}", folder.file("data"));
    for class in ["cat", "dog"] {
        std::fs::create_dir_all(format!("{data}/{class}")).expect("a folder");
        for i in 0..6u8 {
            let image = [b"P5 4 4 255\n".as_slice(), &[i * 30; 16]].concat();
            std::fs::write(format!("{data}/{class}/{i}.pgm"), image).expect("written");
        }
    }
    let run = folder.file("run");
    let text = failure(&["train", "--data", &data, "--checkpoint", &run]);
    assert!(text.contains("more than one line"), "{text}");
    assert_eq!(folder.read("victim"), b"precious");
    // Where nothing is noted, it is a name like any other.
    success(&["train", "--data", &data]);
}

#[test]
fn no_run_goes_on_from_where_none_can_be() {
    let folder = Folder::new("forged-positions");
    let genuine = genuine(&folder);
    let many = u64::MAX.to_string();
    for (key, values) in [
        ("position.epoch", ["0", "1", "3", &many]),
        ("position.batch", ["0", "5", "4", &many]),
        ("position.step", ["0", "5", "7", &many]),
        ("position.images", ["0", "63", "65", &many]),
        ("position.correct", ["-1", "65", "NaN", "inf"]),
        ("position.loss", ["NaN", "inf", "-inf", "much"]),
        ("position.is_told", ["1", "", "yes", "True"]),
    ] {
        for value in values {
            let run = forged(&folder, &genuine, |checkpoint| set(checkpoint, key, value));
            let text = failure(&["train", "--resume", &run, "--steps", "9"]);
            assert!(text.contains("the checkpoint"), "{key} = {value}: {text}");
        }
    }
    let run = forged(&folder, &genuine, |checkpoint| checkpoint.step = 7);
    let text = failure(&["train", "--resume", &run, "--steps", "9"]);
    assert!(text.contains("of step 7 and of step 6"), "{text}");
    // More epochs than can be counted are an end that is never reached, and not a number that wraps.
    let run = forged(&folder, &genuine, |checkpoint| note(checkpoint, &format!("--epochs={many}")));
    success(&["train", "--resume", &run, "--steps", "9"]);
}

#[test]
fn what_a_model_claims_is_compared_with_its_weights() {
    let folder = Folder::new("forged-shapes");
    let genuine = genuine(&folder);
    type Change<'a> = &'a dyn Fn(&mut Checkpoint);
    let vector = |n: usize| Tensor::new(&[n], vec![0.5f32; n]).expect("fits");
    let changes: [(&str, Change<'_>); 7] = [
        ("a shape", &|checkpoint| {
            checkpoint.tensors.insert("fc1.bias", vector(11));
        }),
        ("no tensor", &|checkpoint| {
            checkpoint.tensors.remove("fc1.bias");
        }),
        ("a tensor more", &|checkpoint| {
            checkpoint.tensors.insert("fc9.bias", vector(1));
        }),
        ("whole numbers", &|checkpoint| {
            checkpoint.tensors.insert("fc1.bias", Tensor::new(&[10], vec![0i64; 10]).expect("fits"));
        }),
        ("a huge layer", &|checkpoint| {
            let model = checkpoint.settings["model"].replace("outputs = 10", "outputs = 99999999999");
            assert_ne!(model, checkpoint.settings["model"]);
            set(checkpoint, "model", &model);
        }),
        ("huge images", &|checkpoint| {
            let model = checkpoint.settings["model"].replace("[1, 8, 8]", "[1, 99999999999, 99999999999]");
            assert_ne!(model, checkpoint.settings["model"]);
            set(checkpoint, "model", &model);
        }),
        ("no model", &|checkpoint| set(checkpoint, "model", "[[layer")),
    ];
    for (what, change) in changes {
        let run = forged(&folder, &genuine, change);
        for command in
            [&["train", "--resume", &run, "--steps", "9"][..], &["eval", &run], &["predict", &run, "0"]]
        {
            let text = failure(command);
            assert!(!text.contains("memory allocation"), "{what}: {text}");
        }
    }
}

#[test]
fn what_other_programs_brought_along_is_named() {
    let folder = Folder::new("forged-outside");
    let genuine = genuine(&folder);
    let run = forged(&folder, &genuine, |checkpoint| {
        let model = checkpoint.settings["model"].replace("\"relu\"", "\"prelu\"");
        set(checkpoint, "model", &model);
    });
    for command in [&["train", "--resume", &run][..], &["eval", &run], &["predict", &run, "0"]] {
        let text = failure(command);
        assert!(text.contains("unknown layer 'prelu'; layers: avg_pool"), "{text}");
        assert!(text.contains("use the program that wrote it"), "{text}");
    }
    let run = forged(&folder, &genuine, |checkpoint| set(checkpoint, "loss", "squared error"));
    let text = failure(&["train", "--resume", &run]);
    assert!(text.contains("loss was 'squared error', now it is 'softmax cross-entropy'"), "{text}");
    success(&["eval", &run]);
    let run = forged(&folder, &genuine, |checkpoint| set(checkpoint, "optimizer", "rmsprop"));
    let text = failure(&["train", "--resume", &run]);
    assert!(text.contains("optimizer was 'rmsprop', now it is 'sgd'"), "{text}");
}

#[test]
fn a_plan_that_cannot_be_executed_is_made_anew() {
    let folder = Folder::new("forged-plans");
    let genuine = genuine(&folder);
    let dumped = |run: &str, name: &str| {
        success(&["train", "--resume", run, "--steps", "9", "--dump", &folder.file(name)]);
        folder.read(&format!("{name}/final.safetensors"))
    };
    let expected = dumped(&folder.file("genuine"), "expected");
    let plan = &genuine.plan;
    let (half, last) = (&plan[..plan.len() / 2], plan.lines().last().expect("a line"));
    for text in
        ["", "no plan", half, &plan.replace(last, ""), &format!("{plan}\n{plan}"), &plan.replace('1', "9")]
    {
        let run = forged(&folder, &genuine, |checkpoint| checkpoint.plan = text.to_string());
        assert!(dumped(&run, "anew") == expected, "other bits by {text:.40}");
    }
}

#[test]
fn names_of_classes_may_be_missing_but_not_be_more_than_the_model_has() {
    let folder = Folder::new("forged-classes");
    let genuine = genuine(&folder);
    let run = forged(&folder, &genuine, |checkpoint| {
        checkpoint.settings.remove("note.classes");
    });
    success(&["eval", &run]);
    success(&["predict", &run, "0"]);
    let text = failure(&["eval", &run, "--data", "synthetic:1x8x8x3"]);
    assert!(text.contains("3 classes") && text.contains("trained on 10"), "{text}");
    let many = format!("{:?}", ["many"; 11]);
    for names in [&many, "", "[1, 2]", "{}"] {
        let run = forged(&folder, &genuine, |checkpoint| set(checkpoint, "note.classes", names));
        for command in [&["train", "--resume", &run][..], &["eval", &run], &["predict", &run, "0"]] {
            let text = failure(command);
            assert!(text.contains("classes"), "{names}: {text}");
        }
    }
}
