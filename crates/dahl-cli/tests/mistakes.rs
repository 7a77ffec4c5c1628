//! Wrong input of every kind: a sentence, an exit code, and no panic.

mod command;

use command::{Folder, failure, misuse, sentence, skipped, success};
use std::process::Command;

#[test]
fn numbers_that_make_no_sense_are_refused_at_once() {
    for (arguments, part) in [
        (&["--batch", "0"][..], "from 1 up"),
        (&["--batch", "-3"], "from 1 up"),
        (&["--lr", "-0.1"], "from 0 up"),
        (&["--lr", "nan"], "from 0 up"),
        (&["--momentum", "1"], "below 1"),
        (&["--weight-decay", "-1"], "from 0 up"),
        (&["--epochs", "0"], "from 1 up"),
        (&["--steps", "0"], "from 1 up"),
        (&["--limit", "0"], "from 1 up"),
        (&["--workers", "0"], "from 1 up"),
        (&["--workers", "100000"], "at most"),
        (&["--checkpoint-every", "0"], "from 1 up"),
        (&["--lr-schedule", "step:0:0.1"], "expected constant"),
        (&["--lr-schedule", "sinus"], "expected constant"),
        (&["--warmup", "-1"], "a whole number from 0"),
        (&["--seed", "-1"], "a whole number from 0 to 18446744073709551615"),
        (&["--seed", "x"], "a whole number from 0"),
        (&["--tiles", "q=3"], "no task has an axis 'q': there are a, b, c,"),
        (&["--report", "run.pdf"], "must end in .html or .htm"),
        (&["--report", "run"], "must end in .html or .htm"),
        (&["--trace", "run.foo"], "use .perfetto"),
        (&["--metrics", "-"], "stands for no file"),
        (&["--watchdog", "0"], "above 0"),
        (&["--optimizer", "adagrad"], "adamw"),
        (&["--dtype", "f16"], "f32"),
        (&["--input", "3x32"], "3x32x32"),
        (&["--batches", "b.safetensors", "--epochs", "2"], "cannot be used with"),
        (&["--resume", "run", "--init", "w.safetensors"], "cannot be used with"),
    ] {
        let text = misuse(&[&["train"], arguments].concat());
        assert!(text.contains(part), "{part} in {text}");
    }
    for (arguments, part) in [
        (["--batch", "99999999999"], "at most 1048576 images"),
        (["--classes", "257"], "at most 256 classes"),
        (["--classes", "0"], "from 1 up"),
    ] {
        let text = misuse(&[&["model", "seed"][..], &arguments].concat());
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = misuse(&["train", "--optimizer", "adam", "--momentum", "0.9"]);
    assert!(text.contains("--momentum is for sgd"), "{text}");
    let text = misuse(&["train", "--checkpoint-every", "5"]);
    assert!(text.contains("--checkpoint <DIR>"), "{text}");
}

#[test]
fn names_that_do_not_exist_are_answered_with_those_that_do() {
    for arguments in
        [&["train", "--model", "lenet"][..], &["model", "lenet"], &["eval", "run", "--model", "lenet"]]
    {
        let text = misuse(arguments);
        assert!(text.contains("lenet5"), "{text}");
    }
    let text = failure(&["train", "--data", "no/such/folder"]);
    let cause = "dahl: cannot load the data: no/such/folder: there is no such folder; check the path";
    assert!(text.starts_with(cause) && text.len() < 240, "{text}");
    let text = failure(&["train", "--data", "synthetic:3x0x4"]);
    assert!(text.contains("synthetic:"), "{text}");
    let text = failure(&["train", "--data", "synthetic:67108864x1x1x256"]);
    assert!(text.contains("67108864 channels"), "{text}");
    let text = failure(&["train", "--data", "synthetic:1x1x1:4294967295"]);
    assert!(text.contains("4294967295 images"), "{text}");
    let text = failure(&["train", "--model", "no/such/model.toml"]);
    assert!(text.contains("no/such/model.toml") && text.contains("check the path"), "{text}");
    let text = failure(&["train", "--resume", "no/such/run"]);
    assert!(text.contains("no/such/run"), "{text}");
    let text = failure(&["eval", "no/such/run"]);
    assert!(text.contains("no/such/run"), "{text}");
    let text = failure(&["train", "--init", "no/such/weights.safetensors"]);
    assert!(text.contains("no/such/weights.safetensors"), "{text}");
    let text = failure(&["train", "--batches", "no/such/batches.safetensors"]);
    assert!(text.contains("no/such/batches.safetensors"), "{text}");
}

/// What is possible, and yet not what was meant.
#[test]
fn more_than_there_is_to_have_is_remarked() {
    let warning = |arguments: &[&str]| {
        let output = command::dahl(&[&["train", "--epochs", "1", "--limit", "20"], arguments].concat());
        sentence(&format!("{arguments:?}"), &output, 0)
    };
    let text = warning(&["--batch", "99999999999"]);
    assert!(text.contains("a batch of 99,999,999,999 is more than there are: a step takes all 20"), "{text}");
    let text = warning(&["--workers", "300"]);
    assert!(text.contains("300 workers take turns on "), "{text}");
    // Nobody asked for more.
    let output = command::dahl(&["train", "--epochs", "1", "--limit", "20"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_run_that_diverges_ends_with_the_reason() {
    let folder = Folder::new("diverges");
    let run = folder.file("run");
    let text = failure(&["train", "--lr", "1e10", "--checkpoint", &run]);
    assert!(text.contains("training has diverged; use a smaller learning rate than 10000000000"), "{text}");
    assert!(!folder.0.join("run").read_dir().is_ok_and(|mut run| {
        run.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().contains("step-")))
    }));
}

#[test]
fn a_model_file_is_refused_with_the_line() {
    let folder = Folder::new("model-file");
    let good = success(&["model", "seed", "--toml"]);
    let path = folder.write("good.toml", &good);
    success(&["train", "--model", &path, "--epochs", "1"]);
    let line = good.lines().position(|line| line.contains("relu")).expect("a line with relu") + 1;
    let path = folder.write("bad.toml", good.replace("relu", "rellu"));
    let text = failure(&["train", "--model", &path]);
    assert!(text.contains("bad.toml") && text.contains("rellu"), "{text}");
    assert!(
        text.contains(&format!("line {line}")) || text.contains(&format!(":{line}")),
        "line {line} in {text}"
    );
    let path = folder.write("worse.toml", "[[layer\n");
    let text = failure(&["train", "--model", &path]);
    assert!(text.contains("worse.toml"), "{text}");
    let path = folder.write("bytes.toml", [0xff, 0xfe, 0x00]);
    failure(&["train", "--model", &path]);
}

#[test]
fn a_network_that_says_how_many_classes_it_tells_apart_is_described() {
    let folder = Folder::new("model-classes");
    let text = success(&["model", "seed", "--toml"]).replace("\"classes\"", "3");
    assert!(text.contains("outputs = 3"), "{text}");
    let text = success(&["model", &folder.write("three.toml", text)]);
    assert!(text.contains("3 classes"), "{text}");
}

#[test]
fn weights_that_do_not_fit_are_listed_one_by_one() {
    let folder = Folder::new("weights");
    let dump = folder.file("dump");
    success(&["train", "--epochs", "1", "--limit", "64", "--dump", &dump]);
    let weights = folder.file("dump/final.safetensors");
    success(&["train", "--epochs", "1", "--init", &weights]);
    // The same names with other shapes: the images are larger.
    let text = failure(&["train", "--data", "synthetic:3x16x16", "--init", &weights]);
    for part in ["conv1.weight", "fc1.weight", "[8, 1, 3, 3]", "[8, 3, 3, 3]"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = failure(&["train", "--model", "mlp", "--init", &weights]);
    assert!(text.contains("is missing") && text.contains("conv1.weight is not in the model"), "{text}");
    // Cut off, and something else altogether.
    let bytes = folder.read("dump/final.safetensors");
    let cut = folder.write("cut.safetensors", &bytes[..bytes.len() / 2]);
    let text = failure(&["train", "--init", &cut]);
    assert!(text.contains("cut.safetensors"), "{text}");
    let other = folder.write("other.safetensors", "not tensors at all");
    failure(&["train", "--init", &other]);
    failure(&["eval", &other]);
    // Weights are no batches.
    let text = failure(&["train", "--batches", &weights]);
    assert!(text.contains("'indices'"), "{text}");
}

#[test]
fn data_that_is_damaged_is_refused() {
    let folder = Folder::new("data");
    let data = folder.file("idx");
    std::fs::create_dir_all(&data).expect("a folder");
    let image = |magic: u8, n: u8| {
        [vec![0, 0, 8, magic, 0, 0, 0, n, 0, 0, 0, 4, 0, 0, 0, 4], vec![7; 16 * n as usize]].concat()
    };
    let labels = |classes: &[u8]| [&[0, 0, 8, 1, 0, 0, 0, classes.len() as u8], classes].concat();
    let write = |train: Vec<u8>, classes: &[u8], test: u8| {
        folder.write("idx/train-images-idx3-ubyte", train);
        folder.write("idx/train-labels-idx1-ubyte", labels(classes));
        folder.write("idx/t10k-images-idx3-ubyte", image(3, 1));
        folder.write("idx/t10k-labels-idx1-ubyte", labels(&[test]));
    };
    write(image(3, 2), &[0, 1], 1);
    success(&["train", "--data", &data]);
    for (train, classes, test, file) in [
        // Truncated, of another kind, with a label too few, with a class that is none.
        (image(3, 2)[..30].to_vec(), &[0, 1][..], 1, "train-images"),
        (image(9, 2), &[0, 1], 1, "train-images"),
        (image(3, 2), &[0], 0, "train-labels"),
        (image(3, 2), &[0, 1], 2, "t10k-labels"),
    ] {
        write(train, classes, test);
        let text = failure(&["train", "--data", &data]);
        assert!(text.contains(file), "{file} in {text}");
    }
    // Images of another size than the model takes.
    write(image(3, 2), &[0, 1], 1);
    let text = failure(&["train", "--data", &data, "--model", "lenet5"]);
    assert!(text.contains("conv2") && text.contains("does not fit"), "{text}");
    let model = folder.write("mine.toml", success(&["model", "seed", "--toml", "--input", "1x8x8"]));
    let text = failure(&["train", "--data", &data, "--model", &model]);
    assert!(text.contains("[1, 8, 8]") && text.contains("[1, 4, 4]"), "{text}");
    // An image file that is none.
    folder.write("photo.png", "not an image");
    let run = folder.file("run");
    success(&["train", "--epochs", "1", "--checkpoint", &run]);
    let text = failure(&["predict", &run, &folder.file("photo.png")]);
    assert!(text.contains("photo.png"), "{text}");
    let text = failure(&["predict", &run, "296"]);
    assert!(text.contains("from 0 to 295"), "{text}");
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = Folder::new("unwritable");
    let file = folder.write("file", "");
    let inside = format!("{file}/inside");
    for argument in ["--metrics", "--save-plan", "--trace", "--dump", "--checkpoint"] {
        let path = if argument == "--trace" { format!("{inside}.json") } else { inside.clone() };
        let text = failure(&["train", "--epochs", "1", "--limit", "64", argument, &path]);
        assert!(text.contains(&path), "{argument}: {text}");
        assert!(text.contains("a file"), "{argument}: {text}");
    }
    let text = failure(&["train", "--metrics", &folder.file("no/such/metrics.csv")]);
    assert!(text.contains("its folder does not exist: create it"), "{text}");
    let text = failure(&["train", "--checkpoint", &file]);
    assert!(text.contains("a file is in its place"), "{text}");
    let text = failure(&["train", "--data", "digits", "--model", &folder.file("")]);
    assert!(text.contains("folder"), "{text}");
    let text = misuse(&["eval", "run", "--input", "1x8x8"]);
    assert!(text.contains("--model"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_and_what_was_saved_stays() {
    let folder = Folder::new("full");
    let disk = folder.file("disk");
    std::fs::create_dir_all(&disk).expect("a folder");
    // A disk of a few pages in a name space of our own, so that nobody else sees it.
    let script = "mount -t tmpfs -o size=$3 dahl \"$1\" || exit 77
        \"$2\" train --epochs 2 --limit 64 --checkpoint \"$1/run\"; code=$?
        ls -A \"$1/run\" | sed '/^[.]dahl-lock$/d; s/^/left: /' >&2; exit $code";
    let run = |size: &str| {
        let program = env!("CARGO_BIN_EXE_dahl");
        Command::new("unshare")
            .env("DAHL_CACHE", command::CACHE)
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh", &disk, program, size])
            .output()
    };
    match run("4M") {
        Err(error) => return skipped(format_args!("no unshare ({error})")),
        Ok(output) if !output.status.success() => {
            return skipped(format_args!("no disk of our own ({})", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(_) => {}
    }
    let output = run("4k").expect("it ran before");
    let text = sentence("a full disk", &output, 1);
    assert!(text.contains("disk") && text.contains("space"), "{text}");
    // Nothing half-written is left.
    assert!(!text.contains("left: "), "{text}");
}

/// Every command that writes a file, on a disk without room, where that file has been before.
#[test]
#[cfg(target_os = "linux")]
fn what_was_there_before_is_still_there_when_the_disk_is_full() {
    let folder = Folder::new("no-room");
    let (disk, trace, saved) = (folder.file("disk"), folder.file("trace.json"), folder.file("run"));
    std::fs::create_dir_all(&disk).expect("a folder");
    success(&["train", "--epochs", "1", "--limit", "64", "--trace", &trace, "--checkpoint", &saved]);
    // A disk in a name space of our own, on which files lie, and then something that takes all the room that
    // is left.
    let script = "mount -t tmpfs -o size=4M dahl \"$1\" || exit 77
        cd \"$1\" || exit 77
        mkdir dump && cp -r \"$2\" run && rm -f run/.dahl-lock || exit 77
        for name in out.json out.html out.csv out.svg dump/losses.json dump/step1.safetensors dump/final.safetensors
        do echo old > $name || exit 77; done
        cat /dev/zero > fill 2> /dev/null
        find . -type f ! -name fill -exec cksum {} + | sort > \"$3\"
        shift 3; \"$@\"; code=$?
        find . -type f ! -name fill ! -name .dahl-lock -exec cksum {} + | sort >&2
        exit $code";
    let before = folder.file("before");
    let run = |arguments: &[&str]| {
        Command::new("unshare")
            .env("DAHL_CACHE", command::CACHE)
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh", &disk, &saved, &before])
            .arg(env!("CARGO_BIN_EXE_dahl"))
            .args(arguments)
            .output()
    };
    match run(&["model"]) {
        Err(error) => return skipped(format_args!("no unshare ({error})")),
        Ok(output) if !output.status.success() => {
            return skipped(format_args!("no disk of our own ({})", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(_) => {}
    }
    let sweep = "sweep --tiles n=16 --workers 1 --rounds 1 --seconds 0.001 --plot out.svg";
    for arguments in [
        "train --limit 64 --epochs 1 --save-plan out.json",
        "train --limit 64 --epochs 1 --trace out.json",
        "train --limit 64 --epochs 1 --trace out.html",
        "train --limit 64 --epochs 1 --report out.html",
        "train --limit 64 --epochs 1 --metrics out.csv",
        "train --limit 64 --epochs 1 --dump dump",
        "train --resume run --epochs 2",
        "machine -o out.json",
        &format!("trace {trace} --to html -o out.html"),
        sweep,
    ] {
        let output = run(&arguments.split(' ').collect::<Vec<_>>()).expect("it ran before");
        let text = sentence(arguments, &output, 1);
        assert!(text.contains("make room on the disk"), "{arguments}: {text}");
        let files = String::from_utf8(folder.read("before")).expect("text");
        assert!(text.ends_with(&files) && files.lines().count() > 7, "{arguments}: {text}\nbefore:\n{files}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_is_known_before_the_training() {
    let folder = Folder::new("read-only");
    let (disk, saved) = (folder.file("disk"), folder.file("run"));
    std::fs::create_dir_all(&disk).expect("a folder");
    success(&["train", "--epochs", "1", "--limit", "64", "--checkpoint", &saved]);
    let script =
        "mount -t tmpfs dahl \"$1\" && cp -r \"$2/.\" \"$1\" && mount -o remount,$3 dahl \"$1\" || exit 77
        exec \"$4\" train --resume \"$1\" --epochs 2";
    let run = |options: &str| {
        Command::new("unshare")
            .env("DAHL_CACHE", command::CACHE)
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh", &disk, &saved, options])
            .arg(env!("CARGO_BIN_EXE_dahl"))
            .output()
    };
    match run("rw") {
        Err(error) => return skipped(format_args!("no unshare ({error})")),
        Ok(output) if !output.status.success() => {
            return skipped(format_args!("no disk of our own ({})", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(_) => {}
    }
    let output = run("ro").expect("it ran before");
    let text = sentence("a folder that cannot be written", &output, 1);
    assert!(text.contains("nothing can be written there: name another place"), "{text}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What is printed is lost with a full disk, too.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_for_what_is_printed_is_an_error() {
    for arguments in [
        "train --limit 64 --epochs 1",
        "model",
        "model seed --toml",
        "data list",
        "data check digits",
        "machine",
        "completions bash",
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = command::command(&arguments.split(' ').collect::<Vec<_>>()).stdout(full).output();
        sentence(arguments, &output.expect("dahl runs"), 1);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = command::command(&["train", "--epochs", "3"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    assert!(child.wait().expect("ended").success());
}
