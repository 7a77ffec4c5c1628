//! `dahl stats`, as a user calls it.

mod command;

use command::{Folder, command, failure, misuse, success};
use serde_json::Value;

/// A trace of the digits, of two workers.
fn trained(folder: &Folder, name: &str) -> String {
    let path = folder.file(name);
    success(&[
        "train",
        "--no-fusion",
        "--epochs",
        "2",
        "--workers",
        "2",
        "--watchdog",
        "60",
        "--trace",
        &path,
    ]);
    path
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON object")
}

/// The output of the command with a folder of its own for what it keeps.
fn with_cache(folder: &Folder, arguments: &[&str]) -> String {
    let output = command(arguments).env("DAHL_CACHE", folder.file("cache")).output().expect("dahl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A trace with the times of one codelet changed by a factor.
fn changed(trace: &str, codelet: &str, factor: f64) -> String {
    let mut tasks = Vec::new();
    let mut text = String::new();
    for line in trace.lines() {
        let mut fields: Vec<Value> = serde_json::from_str(line).expect("a line of a trace");
        match fields[0].as_str() {
            Some("task") => tasks.push(fields[1] == codelet),
            Some("event") if tasks[fields[2].as_u64().expect("a task") as usize] => {
                let [start, end] = [4, 5].map(|i: usize| fields[i].as_u64().expect("ticks"));
                fields[5] = (start + ((end - start) as f64 * factor) as u64).into();
            }
            _ => {}
        }
        text.push_str(&format!("{}\n", Value::from(fields)));
    }
    text
}

#[test]
fn a_trace_is_described_in_words_and_for_programs() {
    let folder = Folder::new("stats");
    let trace = trained(&folder, "run.json");
    let words = with_cache(&folder, &["stats", &trace]);
    for part in [
        "executions of 59 tasks on 2 workers",
        "median µs",
        "GFLOP/s",
        "GB/s",
        "conv2d_dw",
        "outside of kernels",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    assert!(words.contains("dahl machine --measure"), "how to get peaks: {words}");
    // Columns are aligned.
    let table: Vec<&str> = words.lines().filter(|line| line.contains(" lanes ")).collect();
    assert!(
        table.len() > 10 && table.iter().all(|line| line.find(" lanes ") == table[0].find(" lanes ")),
        "{words}"
    );

    let json = json(&with_cache(&folder, &["stats", &trace, "--json"]));
    assert_eq!((&json["tasks"], &json["workers"], &json["peaks"]), (&59.into(), &2.into(), &Value::Null));
    let rows = json["rows"].as_array().expect("rows");
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
    let shares: Vec<f64> = rows.iter().map(|row| number(row, "share")).collect();
    assert!(shares.windows(2).all(|pair| pair[0] >= pair[1]), "sorted by share: {shares:?}");
    let outside =
        number(&json, "idle_seconds") / (number(&json, "idle_seconds") + number(&json, "kernel_seconds"));
    assert!((shares.iter().sum::<f64>() + outside - 1.0).abs() < 1e-6, "{json}");
    let counts: f64 = rows.iter().map(|row| number(row, "count")).sum();
    assert_eq!(counts, number(&json, "executions"));
    for row in rows {
        for name in ["mean_seconds", "median_seconds", "bytes_per_second"] {
            assert!(number(row, name) > 0.0, "{row}");
        }
        assert!(row["peak_fraction"].is_null(), "{row}");
    }
    for name in ["slow_workers", "phases", "slow_implementations", "variations"] {
        assert!(json["why"][name].is_array(), "{name} in {json}");
    }
}

#[test]
fn finer_tables_have_more_rows_with_the_same_sum() {
    let folder = Folder::new("stats-by");
    let trace = trained(&folder, "run.json");
    let table = |by: &str| json(&success(&["stats", &trace, "--by", by, "--json"]));
    let rows = |json: &Value| json["rows"].as_array().expect("rows").len();
    let sum = |json: &Value| {
        let rows = json["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["count"].as_u64().expect("a count")).sum::<u64>()
    };
    let coarse = table("codelet");
    for by in ["shape", "worker", "tile", "temperature"] {
        let fine = table(by);
        assert!(rows(&fine) >= rows(&coarse), "{by}");
        assert_eq!(sum(&fine), sum(&coarse), "{by}");
        assert!(fine["rows"][0]["by"].as_str().is_some_and(|text| !text.is_empty()), "{by}: {fine}");
    }
    assert!(rows(&table("tile")) > 40, "tiles");
    assert!(success(&["stats", &trace, "--by", "worker"]).contains("worker 1"));
    misuse(&["stats", &trace, "--by", "colour"]);
    misuse(&["stats", &trace, "--by", "shape", "--against", &trace]);
}

#[test]
fn layers_have_rows_with_the_same_sum_and_what_several_share_has_its_own() {
    let folder = Folder::new("stats-layers");
    let trace = folder.file("run.json");
    success(&["train", "--epochs", "2", "--workers", "2", "--watchdog", "60", "--trace", &trace]);
    let found = json(&success(&["stats", &trace, "--by", "layer", "--json"]));
    let rows = found["rows"].as_array().expect("rows");
    let sum = |name: &str| rows.iter().map(|row| row[name].as_f64().expect("a number")).sum::<f64>();
    assert_eq!(sum("count"), found["executions"].as_f64().expect("a number"));
    let kernels = found["kernel_seconds"].as_f64().expect("a number");
    assert!((sum("seconds") - kernels).abs() < 1e-6 * kernels, "{found}");
    let by_codelet = json(&success(&["stats", &trace, "--json"]));
    let share = by_codelet["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["share"].as_f64().expect("a share"));
    assert!((sum("share") - share.sum::<f64>()).abs() < 1e-6, "{found}");
    let codelets = |layers: &[&str]| {
        let row = rows.iter().find(|row| row["layers"] == Value::from(layers));
        row.unwrap_or_else(|| panic!("{layers:?} in {found}"))["codelets"].clone()
    };
    let both = ["conv2d_relu_max_pool", "conv2d_relu_max_pool_dw"];
    assert_eq!(codelets(&["conv1", "relu1", "pool1"]), Value::from(&both[..]));
    for (layer, codelet) in [("load", "load"), ("fc1", "dense"), ("loss", "softmax_ce"), ("update", "sgd")] {
        assert_eq!(codelets(&[layer])[0], codelet, "{found}");
    }

    let words = success(&["stats", &trace, "--by", "layer"]);
    let row = words.lines().find(|line| line.starts_with("conv1+relu1+pool1 ")).unwrap_or_default();
    assert!(row.ends_with("  conv2d_relu_max_pool, conv2d_relu_max_pool_dw"), "{words}");
    assert!(words.contains("outside of kernels") && !words.contains("no task names"), "{words}");

    // A trace of the version before.
    let text = String::from_utf8(folder.read("run.json")).expect("text");
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut fields: Vec<Value> = serde_json::from_str(line).expect("a line of a trace");
        match fields[0].as_str() {
            Some("dahl-trace") => fields[1] = 2.into(),
            Some("scope") => continue,
            Some("task") => fields.truncate(13),
            Some("end") => fields[1] = lines.len().into(),
            _ => {}
        }
        lines.push(Value::from(fields).to_string());
    }
    let old = folder.write("old.json", lines.join("\n") + "\n");
    let words = success(&["stats", &old, "--by", "layer"]);
    assert!(words.contains("no task names its layer: save the trace again"), "{words}");
    // Times are rounded when a file is written, so only what is counted is the same to the last digit.
    let counted = |rows: &Value| -> Vec<(Value, Value)> {
        let rows = rows.as_array().expect("rows").iter();
        let mut counted: Vec<_> = rows.map(|row| (row["codelet"].clone(), row["count"].clone())).collect();
        counted.sort_by_key(|(codelet, _)| codelet.to_string());
        counted
    };
    assert_eq!(counted(&json(&success(&["stats", &old, "--json"]))["rows"]), counted(&by_codelet["rows"]));
    misuse(&["stats", "--by", "layer"]);
}

#[test]
fn a_run_against_itself_has_not_changed_and_a_slower_one_has() {
    let folder = Folder::new("stats-against");
    let trace = trained(&folder, "run.json");
    let words = success(&["stats", &trace, "--against", &trace]);
    assert!(words.contains("no change beyond noise"), "{words}");
    let found = json(&success(&["stats", &trace, "--against", &trace, "--json"]));
    assert_eq!(found["changed"], 0, "{found}");

    // Times of a thousandth of what they were cannot be noise, whatever the machine was doing.
    let text = String::from_utf8(folder.read("run.json")).expect("text");
    let slower = folder.write("slower.json", changed(&text, "conv2d_dw", 1000.0));
    let found = json(&success(&["stats", &slower, "--against", &trace, "--json"]));
    let changes = found["changes"].as_array().expect("changes").iter();
    let changed: Vec<&Value> = changes.filter(|change| change["changed"] == true).collect();
    assert_eq!(changed.len(), 1, "{found}");
    assert_eq!(changed[0]["of"]["codelet"], "conv2d_dw");
    assert!((changed[0]["ratio"].as_f64().expect("a ratio") - 1000.0).abs() < 20.0, "{found}");
    let words = success(&["stats", &slower, "--against", &trace]);
    assert!(
        words.contains("changed beyond noise: 1 of") && words.contains("conv2d_dw (lanes) is"),
        "{words}"
    );
    assert!(words.contains("times slower in A, in 1 of 1 shape"), "{words}");
    let words = success(&["stats", &trace, "--against", &slower]);
    assert!(words.contains("times faster in A"), "{words}");

    // Another batch size has other shapes.
    let other = folder.file("other.json");
    success(&["train", "--no-fusion", "--epochs", "1", "--batch", "40", "--trace", &other]);
    let words = success(&["stats", &trace, "--against", &other]);
    assert!(words.contains("only in A") && words.contains("only in B"), "{words}");
}

#[test]
fn a_planted_worker_is_named() {
    let folder = Folder::new("stats-worker");
    trained(&folder, "run.json");
    let text = String::from_utf8(folder.read("run.json")).expect("text");
    // Everything that worker 1 does takes a hundred times as long.
    let mut slow = String::new();
    for line in text.lines() {
        let mut fields: Vec<Value> = serde_json::from_str(line).expect("a line of a trace");
        if fields[0] == "event" && fields[1] == 1 {
            let [start, end] = [4, 5].map(|i: usize| fields[i].as_u64().expect("ticks"));
            fields[5] = (start + 100 * (end - start)).into();
        }
        slow.push_str(&format!("{}\n", Value::from(fields)));
    }
    let path = folder.write("slow.json", slow);
    let words = success(&["stats", &path]);
    let sentence = words.lines().find(|line| line.contains("times slower than worker 0")).unwrap_or_default();
    assert!(sentence.contains("worker 1 is") && sentence.contains("a noisy or slower core"), "{words}");

    // The same by workers 0 and 2, with one between them that has nothing to do.
    let mut lines: Vec<Vec<Value>> = Vec::new();
    for line in String::from_utf8(folder.read("slow.json")).expect("text").lines() {
        let mut fields: Vec<Value> = serde_json::from_str(line).expect("a line of a trace");
        match fields[0].as_str() {
            // In front of the first.
            Some("worker") if !lines.iter().any(|line| line[0] == "worker") => lines.push(fields.clone()),
            Some("task") if fields[11] == 1 => fields[11] = 2.into(),
            Some("event") if fields[1] == 1 => fields[1] = 2.into(),
            Some("dropped" | "transfer") if fields[1] != 0 => {
                fields[1] = (fields[1].as_u64().expect("a list") + 1).into();
            }
            Some("end") => fields[1] = lines.len().into(),
            _ => {}
        }
        lines.push(fields);
    }
    let text: String = lines.into_iter().map(|line| format!("{}\n", Value::from(line))).collect();
    let words = success(&["stats", &folder.write("apart.json", text)]);
    let sentence = words.lines().find(|line| line.contains("worker 2 is")).unwrap_or_default();
    assert!(sentence.contains("times slower than worker 0 in"), "{words}");
}

#[test]
fn peaks_come_from_a_machine_file() {
    let folder = Folder::new("stats-peaks");
    let trace = trained(&folder, "run.json");
    let machine = folder.write(
        "machine.txt",
        "dahl-machine 1\ninstructions plain\nmemory 0 - -\nunit cpu 0 -\nmeasured 2026-01-02T03:04:05Z 2\n\
         flops f32 1e12 2e12\nflops f64 1e11 2e11\nbandwidth memory - shared 2 1000 1e11 2e11 1e11 2e11 1e11 2e11\nend 8 -\n",
    );
    let words = success(&["stats", &trace, "--machine", &machine]);
    assert!(words.contains("of peak") && words.contains("measured 2026-01-02T03:04:05Z"), "{words}");
    let found = json(&success(&["stats", &trace, "--machine", &machine, "--json"]));
    let rows = found["rows"].as_array().expect("rows");
    let conv = rows.iter().find(|row| row["codelet"] == "conv2d").expect("a row");
    let [peak, flops, bytes] = ["peak_fraction", "flops_per_second", "bytes_per_second"]
        .map(|name| conv[name].as_f64().expect("a number"));
    assert!((peak - (flops / 1e12).max(bytes / 1e11)).abs() < 1e-9, "{conv}");

    // Without a trace there is nothing to compare with peaks.
    assert!(misuse(&["stats", "--machine", &machine]).contains("FILE"));
    let bare =
        folder.write("bare.txt", "dahl-machine 1\ninstructions plain\nmemory 0 - -\nunit cpu 0 -\nend 4 -\n");
    let text = failure(&["stats", &trace, "--machine", &bare]);
    assert!(text.contains("bare.txt") && text.contains("--measure"), "{text}");
    let newer = folder.write("newer.txt", "dahl-machine 2\n");
    let text = failure(&["stats", &trace, "--machine", &newer]);
    assert!(text.contains("newer.txt") && text.contains("version 2"), "{text}");
}

#[test]
fn mistakes_are_sentences() {
    let folder = Folder::new("stats-mistakes");
    let text = failure(&["stats", &folder.file("nothing.json")]);
    assert!(text.contains("nothing.json"), "{text}");
    let other = folder.write("other.json", "{}");
    assert!(failure(&["stats", &other]).contains("not a trace of dahl"));
    let trace = trained(&folder, "run.json");
    assert!(failure(&["stats", &trace, "--against", &other]).contains("other.json"));
}

#[test]
fn an_implementation_that_is_slower_than_it_needs_to_be_is_named() {
    let folder = Folder::new("stats-slow");
    let path = folder.file("run.json");
    success(&[
        "train",
        "--no-fusion",
        "--epochs",
        "1",
        "--impl",
        "conv2d=reference,lanes,reference",
        "--trace",
        &path,
    ]);
    let words = success(&["stats", &path]);
    let sentence = words.lines().find(|line| line.contains("slow implementation: 'reference' of conv2d,"));
    assert!(sentence.is_some_and(|line| line.contains("where there is 'flat', 'lanes'")), "{words}");
    let found = json(&success(&["stats", &path, "--json"]));
    let slow = found["why"]["slow_implementations"].as_array().expect("a list");
    let conv = slow.iter().find(|it| it["codelet"] == "conv2d").expect("it is found");
    assert_eq!(conv["faster"], serde_json::json!(["flat", "lanes"]), "{conv}");
}

#[test]
fn what_is_known_is_summed_up_by_codelet_unless_all_is_asked_for() {
    let folder = Folder::new("stats-known");
    with_cache(&folder, &["train", "--epochs", "2", "--no-fusion", "--model", "mlp"]);
    with_cache(&folder, &["train", "--epochs", "2", "--dtype", "f64", "--no-fusion"]);
    with_cache(&folder, &["train", "--epochs", "2", "--impl", "reference", "--no-fusion"]);
    let known = json(&with_cache(&folder, &["stats", "--json"]));
    let n = known["models"].as_array().expect("models").len();
    let all = with_cache(&folder, &["stats", "--all"]);
    assert!(all.contains(&format!("{n} rows")) && all.lines().count() == n + 3, "{n}: {all}");
    let short = with_cache(&folder, &["stats"]);
    assert!(short.starts_with("codelet") && short.contains("of the time"), "{short}");
    assert!(short.contains("dahl stats --all") && short.lines().count() <= 24, "{short}");
    // The rows that are left out are counted.
    let more =
        short.lines().find_map(|line| line.strip_prefix("and ")?.split(' ').next()?.parse::<usize>().ok());
    assert!(more.is_some_and(|more| more > 0), "{short}");
    misuse(&["stats", "run.json", "--all"]);
}
