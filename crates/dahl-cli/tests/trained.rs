//! `dahl eval`, `dahl predict` and `dahl model`.

mod command;

use command::{Folder, failure, json_lines, success};
use dahl::Trainer;
use dahl::dataset;
use dahl::model::Sequential;
use dahl::optim::{Decay, LearningRate, Sgd};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;
use serde_json::Value;

#[test]
fn a_trained_model_is_tested_and_used() {
    let folder = Folder::new("trained");
    let (saved, dump) = (folder.file("run"), folder.file("dump"));
    let lines = json_lines(&["train", "--epochs", "20", "--checkpoint", &saved, "--dump", &dump]);
    let last = &lines[19];
    let keys =
        ["epoch", "loss", "accuracy", "test_loss", "test_accuracy", "images_per_s", "seconds", "peak_bytes"];
    for key in keys {
        assert!(last[key].is_number(), "{key} in {last}");
    }
    let tested = &json_lines(&["eval", &saved])[0];
    assert_eq!(
        (&tested["test_accuracy"], &tested["test_loss"]),
        (&last["test_accuracy"], &last["test_loss"])
    );
    // The same from the weights alone.
    let weights = folder.file("dump/final.safetensors");
    let again = &json_lines(&["eval", &weights, "--model", "seed", "--data", "digits", "--workers", "1"])[0];
    assert_eq!(again["test_accuracy"], last["test_accuracy"]);
    let text = failure(&["eval", &weights]);
    assert!(text.contains("final.safetensors"), "{text}");
    // Of data only what comes from it is missing: test images.
    let alone = [&weights[..], "--model", "seed", "--input", "1x8x8"];
    let image = folder.write("image.pgm", [b"P5 8 8 255\n".as_slice(), &[90; 64]].concat());
    let answer = &json_lines(&[&["predict"], &alone[..], &[&image]].concat())[0];
    assert_eq!(answer["class"], json_lines(&["predict", &saved, &image])[0]["class"]);
    assert_eq!(answer["name"], answer["class"].to_string());
    for arguments in [[&["predict"], &alone[..], &["0"]].concat(), [&["eval"], &alone[..]].concat()] {
        assert!(failure(&arguments).contains("add --data"), "{arguments:?}");
    }
    let text = failure(&["predict", &weights, "--model", "seed", &image]);
    assert!(text.contains("--input and --classes") && text.contains("fc1.weight"), "{text}");

    // Asked one by one, as many are right as were told.
    let is_right = |index: usize| {
        let answer = &json_lines(&["predict", &saved, &index.to_string(), "--workers", "1"])[0];
        let top = answer["top"].as_array().expect("a list");
        assert_eq!((top.len(), &top[0]["class"]), (3, &answer["class"]));
        let confidence = answer["confidence"].as_f64().expect("a number");
        assert!(confidence > 0.1 && confidence <= 1.0, "{answer}");
        answer["class"] == answer["label"]
    };
    let n_right = (0..40).filter(|&index| is_right(index)).count();
    assert!(n_right > 32, "{n_right} of 40");
    let words = success(&["predict", &saved, "0", "--top", "1"]);
    assert!(words.contains("% sure") && words.lines().count() == 1, "{words}");
}

#[test]
fn an_image_file_is_brought_to_the_models_size() {
    let folder = Folder::new("image");
    let saved = folder.file("run");
    success(&["train", "--epochs", "1", "--checkpoint", &saved]);
    // 16 x 12 greys; the digits have 8 x 8.
    let pixels: Vec<u8> = (0..192).map(|i| i as u8).collect();
    let image = folder.write("grey.pgm", [b"P5 16 12 255\n".as_slice(), &pixels].concat());
    let answer = &json_lines(&["predict", &saved, &image])[0];
    assert!(answer["class"].is_number() && answer["label"].is_null(), "{answer}");
}

#[test]
fn ones_own_images_are_learned_and_told_apart() {
    let folder = Folder::new("photos");
    // Dark cats and bright dogs, of different sizes.
    for (class, grey) in [("cat", 40), ("dog", 200)] {
        std::fs::create_dir_all(folder.file(&format!("photos/{class}"))).expect("a folder");
        for i in 0..12 {
            let (width, height) = (9 + i, 7 + i % 3);
            let pixels: Vec<u8> =
                (0..3 * width * height).map(|pixel| grey + ((pixel * 7 + i) % 30) as u8).collect();
            let header = format!("P6 {width} {height} 255\n").into_bytes();
            folder.write(&format!("photos/{class}/{i}.ppm"), [header, pixels].concat());
        }
    }
    let (photos, saved) = (folder.file("photos"), folder.file("run"));
    let run = ["--model", "resnet8", "--input", "3x12x12", "--batch", "8", "--epochs", "10", "--lr", "0.05"];
    let lines = json_lines(&[&["train", "--data", &photos, "--checkpoint", &saved], &run[..]].concat());
    assert_eq!(lines[9]["test_accuracy"], 1.0, "{}", lines[9]);
    let (words, dog) = (success(&["predict", &saved, "0"]), folder.file("photos/dog/1.ppm"));
    assert!(words.starts_with("test image 0: class cat"), "{words}");
    let answer = &json_lines(&["predict", &saved, &dog])[0];
    assert_eq!((&answer["name"], &answer["class"]), (&"dog".into(), &1.into()));
}

#[test]
fn data_is_found_from_any_folder_and_asked_for_where_it_is_gone() {
    let folder = Folder::new("moved");
    for (class, grey) in [("cat", 40), ("dog", 200)] {
        std::fs::create_dir_all(folder.file(&format!("photos/{class}"))).expect("a folder");
        for i in 0..6 {
            folder.write(
                &format!("photos/{class}/{i}.pgm"),
                [b"P5 8 8 255\n".as_slice(), &[grey + i; 64]].concat(),
            );
        }
    }
    let run = "train --data photos --epochs 1 --batch 4 --checkpoint run";
    let trained =
        command::command(&run.split(' ').collect::<Vec<_>>()).current_dir(&folder.0).output().expect("ran");
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    // From another folder than the run was begun in.
    let saved = folder.file("run");
    success(&["eval", &saved]);
    success(&["train", "--resume", &saved, "--epochs", "2"]);
    let (photos, elsewhere) = (folder.file("photos"), folder.file("elsewhere"));
    std::fs::rename(&photos, &elsewhere).expect("renamed");
    for arguments in [&["eval", &saved][..], &["predict", &saved, "0"], &["train", "--resume", &saved]] {
        let text = failure(arguments);
        assert!(text.contains("trained on /") && text.contains("add --data FOLDER"), "{text}");
    }
    success(&["eval", &saved, "--data", &elsewhere]);
    // Whoever names a folder knows where it is meant to be.
    let text = failure(&["eval", &saved, "--data", &photos]);
    assert!(!text.contains("trained on") && text.contains("no such folder"), "{text}");
}

/// Writes IDX files of 4 x 4 pixels with these labels, and says where.
fn idx(folder: &Folder, name: &str, train: &[u8], test: &[u8]) -> String {
    std::fs::create_dir_all(folder.file(name)).expect("a folder");
    for (part, labels) in [("train", train), ("t10k", test)] {
        let n = labels.len() as u8;
        let images =
            [&[0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 4, 0, 0, 0, 4], &vec![7; 16 * labels.len()][..]].concat();
        folder.write(&format!("{name}/{part}-images-idx3-ubyte"), images);
        folder
            .write(&format!("{name}/{part}-labels-idx1-ubyte"), [&[0, 0, 8, 1, 0, 0, 0, n], labels].concat());
    }
    folder.file(name)
}

#[test]
fn a_model_is_not_tested_on_other_classes_than_it_was_trained_on() {
    let folder = Folder::new("classes");
    let ten = idx(&folder, "ten", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[0, 9]);
    let three = idx(&folder, "three", &[0, 1, 2], &[0, 1]);
    let (saved, dump) = (folder.file("run"), folder.file("dump"));
    success(&["train", "--data", &ten, "--checkpoint", &saved, "--dump", &dump]);
    for command in [&["eval", &saved][..], &["predict", &saved, "0"]] {
        success(command);
        let text = failure(&[command, &["--data", &three]].concat());
        assert!(text.contains("three has 3 classes") && text.contains("trained on 10"), "{text}");
        assert!(text.contains("--classes 10"), "{text}");
        success(&[command, &["--data", &three, "--classes", "10"]].concat());
        failure(&[command, &["--data", &ten, "--classes", "11"]].concat());
    }
    // Other classes with the same number, and what has no number by itself.
    let photos = |names: [&str; 2]| {
        for name in names {
            std::fs::create_dir_all(folder.file(&format!("{}/{name}", names[0]))).expect("a folder");
            for i in 0..6 {
                let image = [b"P5 4 4 255\n".as_slice(), &[i * 9; 16]].concat();
                folder.write(&format!("{}/{name}/{i}.pgm", names[0]), image);
            }
        }
        folder.file(names[0])
    };
    let (pets, birds) = (photos(["cat", "dog"]), photos(["finch", "tit"]));
    let run = folder.file("pets");
    success(&["train", "--data", &pets, "--checkpoint", &run]);
    success(&["eval", &run]);
    let text = failure(&["eval", &run, "--data", &birds]);
    assert!(text.contains("class 0 of finch is \"finch\"") && text.contains("\"cat\""), "{text}");
    // Weights alone: the number follows from the model.
    let (weights, model) = (folder.file("dump/final.safetensors"), folder.file("ten.toml"));
    std::fs::write(&model, success(&["model", "seed", "--toml", "--data", &ten])).expect("written");
    success(&["eval", &weights, "--model", &model, "--data", &ten]);
    let text = failure(&["eval", &weights, "--model", &model, "--data", &three]);
    assert!(text.contains("has 3 classes"), "{text}");
}

#[test]
fn a_number_of_classes_is_said_once_and_kept() {
    let folder = Folder::new("kept-classes");
    let gap = idx(&folder, "gap", &[1, 2, 3, 5], &[1, 2]);
    let saved = folder.file("run");
    for command in
        [&["train", "--data", &gap][..], &["data", "check", &gap], &["model", "seed", "--data", &gap]]
    {
        let output = command::dahl(command);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {text}");
        assert!(text.contains("none of class 0 nor of 1 classes above it"), "{command:?}: {text}");
    }
    success(&["train", "--data", &gap, "--classes", "7", "--checkpoint", &saved]);
    success(&["data", "check", &gap, "--classes", "6"]);
    success(&["model", "seed", "--data", &gap, "--classes", "6"]);
    success(&["eval", &saved]);
    success(&["predict", &saved, "0"]);
    success(&["train", "--resume", &saved, "--epochs", "2"]);
    let text = failure(&["train", "--resume", &saved, "--epochs", "3", "--classes", "6"]);
    assert!(text.contains("checkpoint"), "{text}");
}

#[test]
fn models_are_listed_and_described() {
    let list = success(&["model"]);
    for name in ["seed", "lenet5", "vggish", "resnet8", "mlp"] {
        assert!(list.contains(name), "{name} in {list}");
    }
    let model = &json_lines(&["model", "lenet5", "--input", "1x28x28", "--batch", "32"])[0];
    // 6·25+6, 16·6·25+16, 400·120+120, 120·84+84, 84·10+10.
    assert_eq!(model["parameters"], 61_706);
    let layers = model["layers"].as_array().expect("a list");
    let of_layers: u64 = layers.iter().filter_map(|layer| layer["parameters"].as_u64()).sum();
    assert_eq!(of_layers, 61_706);
    let bytes = |model: &Value| model["mem_max_bytes"].as_u64().expect("a number");
    let larger = &json_lines(&["model", "lenet5", "--input", "1x28x28", "--batch", "128"])[0];
    assert!(bytes(model) > 0 && bytes(larger) > bytes(model), "{model} {larger}");
    let words = success(&["model", "lenet5"]);
    assert!(words.contains("conv1") && words.contains("61,706") && words.contains("MEM_MAX"), "{words}");
    let text = failure(&["model", "mlp", "--input", "3x4096x4096", "--batch", "64"]);
    assert!(text.contains("64 images of 3x4096x4096") && text.contains("--batch"), "{text}");
    let text = failure(&["model", "lenet5", "--input", "1x4x4"]);
    assert!(text.contains("conv2") && text.contains("does not fit"), "{text}");
}

#[test]
fn what_training_needs_is_what_was_said_before() {
    let model = &json_lines(&["model", "seed", "--data", "digits", "--workers", "2"])[0];
    let lines = json_lines(&["train", "--epochs", "1", "--workers", "2", "--memory-report"]);
    let find = |name: &str| {
        let line = lines.iter().find(|line| line.get(name).is_some());
        line.map(|line| &line[name]).unwrap_or_else(|| panic!("there is no {name}"))
    };
    let (memory, summary) = (find("memory"), find("summary"));
    // What the run took is told beside what was planned.
    let used = &find("memory_used")["memories"][0];
    assert_eq!(used["planned_bytes"], summary["planned_bytes"]);
    if cfg!(target_os = "linux") {
        let [planned, taken] =
            ["planned_bytes", "used_bytes"].map(|name| used[name].as_u64().expect("bytes"));
        assert!(taken <= planned && taken > planned / 4, "{used}");
    }
    assert_eq!(memory["mem_max_bytes"], summary["mem_max_bytes"]);
    assert_eq!(memory["mem_max_bytes"], model["mem_max_bytes"]);
    assert_eq!(memory["state_bytes"], summary["state_bytes"]);
    assert!(memory["in_use_peak_bytes"].as_u64() <= memory["mem_max_bytes"].as_u64());
    let words = success(&["train", "--epochs", "1", "--memory-report", "--test-unit", "--workers", "2"]);
    assert!(words.contains("MEM_MAX") && words.contains('█') && words.contains("memory 1"), "{words}");
    for part in ["memory at the end", "steps, in turn", "memory 1 in all", "this process at most"] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

#[test]
fn a_run_without_arguments_learns_the_digits_and_says_what_is_next() {
    let words = success(&["train"]);
    let accuracy = words
        .lines()
        .find_map(|line| line.strip_prefix("test accuracy ")?.strip_suffix(" %")?.parse::<f64>().ok());
    assert!(accuracy.expect("a number") > 97.0, "{words}");
    assert!(words.lines().last().expect("a line").starts_with("next: dahl "), "{words}");
}

#[test]
fn metrics_are_written_as_csv() {
    let folder = Folder::new("metrics");
    let path = folder.file("metrics.csv");
    let lines = json_lines(&["train", "--epochs", "2", "--metrics", &path]);
    let text = String::from_utf8(folder.read("metrics.csv")).expect("text");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 3);
    for (row, line) in rows[1..].iter().zip(&lines) {
        for (name, value) in rows[0].iter().zip(row) {
            // The reader of JSON rounds the last digit as it likes.
            let (csv, json) =
                (value.parse::<f64>().expect("a number"), line[*name].as_f64().expect("a number"));
            assert!((csv - json).abs() <= 1e-15 * json.abs(), "{name}: {csv} and {json}");
        }
    }
}

#[test]
fn a_model_file_describes_itself() {
    let folder = Folder::new("model-itself");
    for (name, input) in [("lenet5", [1, 28, 28]), ("vggish", [3, 32, 32])] {
        let file = folder.write(&format!("{name}.toml"), success(&["model", name, "--toml"]));
        let described = &json_lines(&["model", &file])[0];
        assert_eq!(described["input"], serde_json::json!(input));
        assert_eq!(described["layers"], json_lines(&["model", name])[0]["layers"]);
    }
    // Data says more.
    let file = folder.write("seed.toml", success(&["model", "seed", "--toml"]));
    assert_eq!(json_lines(&["model", &file, "--data", "digits"])[0]["input"], serde_json::json!([1, 8, 8]));
}

/// What a program saved that uses the library.
#[test]
fn the_checkpoint_of_a_program_is_tested_used_and_gone_on_with() {
    let folder = Folder::new("program");
    let (run, data) = (folder.file("run"), dataset::digits());
    let mut model = Sequential::seed(data.shape, data.classes);
    let trainer = Trainer::new(&Machine::with_workers(1)).batch(50).seed(7).dtype(Dtype::F64);
    let optimizer = Sgd { momentum: 0.8, weight_decay: 0.01, nesterov: false };
    let rate = LearningRate { base: 0.03, warm_up: 4, decay: Decay::Steps { every: 20, factor: 0.5 } };
    let trainer = trainer.optimizer(optimizer).learning_rate(rate);
    let report = trainer.clone().epochs(1).checkpoint(&run, None).fit(&mut model, &data).expect("trained");
    let told = |lines: &[Value]| (lines[0]["test_loss"].as_f64(), lines[0]["test_accuracy"].as_f64());
    let first = (Some(report.epochs[0].test_loss), Some(report.epochs[0].test_accuracy));
    assert_eq!(told(&json_lines(&["eval", &run, "--data", "digits"])), first);
    assert!(failure(&["eval", &run]).contains("add --data"));
    let image = folder.write("image.pgm", [b"P5 8 8 255\n".as_slice(), &[90; 64]].concat());
    success(&["predict", &run, &image]);
    success(&["predict", &run, "0", "--data", "digits"]);
    // On with its own settings, to the bits of the program.
    let text = failure(&["train", "--resume", &run, "--epochs", "2", "--batch", "40"]);
    assert!(text.contains("batch was '50', now it is '40'"), "{text}");
    let lines = json_lines(&["train", "--resume", &run, "--epochs", "2"]);
    let report =
        trainer.epochs(2).fit(&mut Sequential::seed(data.shape, data.classes), &data).expect("trained");
    assert_eq!(told(&lines), (Some(report.epochs[1].test_loss), Some(report.epochs[1].test_accuracy)));
    // What the command saved says all by itself.
    success(&["eval", &run]);
}
