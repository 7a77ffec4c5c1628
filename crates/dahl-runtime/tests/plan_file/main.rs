//! Plan files: what is written is read back and executed to the letter, and whatever cannot be executed is
//! refused in a sentence with its line.

#![cfg(not(feature = "shuttle"))]

mod case;
#[path = "../kernels/mod.rs"]
mod kernels;
mod mutations;

use case::{Case, follows, options, pool};
use dahl_runtime::ErrorKind;
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::{Plan, PlanFile, Planned};
use dahl_runtime::schedule::{Eager, Policy, Scheduler, Setting};
use kernels::SHIFT;

/// The text with the first line that begins with `start` replaced, and the number of that line.
fn edited(text: &str, start: &str, change: impl Fn(&str) -> String) -> (String, usize) {
    let at = text.lines().position(|line| line.starts_with(start)).expect("the line is there");
    let line = |(i, line): (usize, &str)| if i == at { change(line) } else { line.to_string() };
    (text.lines().enumerate().map(line).collect::<Vec<_>>().join("\n"), at + 1)
}

/// The text with another word in the first line that begins with `start`.
fn with_word(text: &str, start: &str, word: usize, to: &str) -> (String, usize) {
    edited(text, start, |line| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words[word] = to;
        words.join(" ")
    })
}

/// Whether a text is refused with a sentence that has all these pieces.
#[track_caller]
fn refused(text: &str, pieces: &[&str]) {
    let error = Case::new(8).read(text).expect_err("refused");
    let sentence = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Plan);
    for piece in pieces {
        assert!(sentence.contains(piece), "{piece:?} in: {sentence}");
    }
}

fn at(line: usize) -> String {
    format!("p.plan, line {line}:")
}

fn text() -> String {
    Case::new(8).file(2).to_string()
}

#[test]
fn a_plan_is_written_read_and_executed_to_the_letter() {
    let case = Case::new(8);
    let expected = case.run(&pool(1), &case.planned(1)).0;
    for workers in [1, 2, 3] {
        let (file, planned) = (case.file(workers), case.planned(workers));
        let text = file.to_string();
        assert_eq!(text.contains(" floating\n"), workers > 1);
        let again = PlanFile::parse("again", &text).unwrap();
        assert_eq!(again.to_string(), text);
        assert_eq!((again.hash(), again.was_edited(), again.origin()), (file.hash(), false, "heuristic"));
        let read = again.plan("a step", &case.graph, &Machine::with_workers(workers)).unwrap();
        assert_eq!(read.plan.placement(), planned.plan.placement());
        assert_eq!(read.plan.memory(HOST), planned.plan.memory(HOST));
        let (seen, tasks) = case.run(&pool(workers), &read);
        assert_eq!(seen, expected);
        assert!(follows(&text, &tasks), "{text}{tasks:?}");
    }
}

#[test]
fn a_plan_names_a_scheduler_that_somebody_must_provide() {
    let case = Case::new(8);
    let machine = Machine::with_workers(2);
    let make = |setting: &Setting<'_>| -> Box<dyn Scheduler> {
        let priorities = vec![0.0; setting.lowered.tasks().len()];
        Box::new(Eager::new(&priorities, setting.n_turns))
    };
    let policy = Policy::new("mine", make);
    let planned = case.open_by(policy.clone());
    let mut file = PlanFile::new("heuristic");
    file.add("a step", &case.graph, &planned, &machine).unwrap();
    let text = file.to_string();
    assert!(text.contains("\norder mine\n"));
    refused(&text, &["nobody provides a scheduler 'mine'", "fixed, eager, steal", "line "]);
    let mut read = PlanFile::parse("p.plan", &text).unwrap();
    read.provide(policy);
    let read = read.plan("a step", &case.graph, &machine).unwrap();
    assert_eq!(case.run(&pool(2), &read).0, case.run(&pool(1), &case.planned(1)).0);
}

#[test]
fn an_open_order_is_written_and_read_too() {
    let case = Case::new(8);
    let planned = case.open();
    let mut file = PlanFile::new("heuristic");
    file.add("a step", &case.graph, &planned, &Machine::with_workers(2)).unwrap();
    let text = file.to_string();
    assert!(text.contains("order steal") && !text.contains("\nrun "));
    let read = case.read(&text).unwrap();
    assert!(read.plan.placement().is_none());
    assert_eq!(read.plan.memory(HOST), planned.plan.memory(HOST));
    assert_eq!(case.run(&pool(2), &read).0, case.run(&pool(1), &case.planned(1)).0);
    refused(&with_word(&text, "machine ", 5, "3").0, &["memories [3, 0], and these are in [0, 0]"]);
}

/// Every pair of neighbours swapped, every task moved and every task floating or no more: either refused, or
/// executed as it says.
fn try_edits(text: &str) -> (usize, usize) {
    let case = Case::new(8);
    let pool = pool(2);
    let expected = case.run(&pool, &case.planned(2)).0;
    let lines: Vec<&str> = text.lines().collect();
    let runs: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with("run ")).collect();
    let mut edits: Vec<Vec<String>> = Vec::new();
    for (i, &line) in runs.iter().enumerate() {
        let mut moved: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
        if let Some(&next) = runs.get(i + 1) {
            let mut swapped = moved.clone();
            swapped.swap(line, next);
            edits.push(swapped);
        }
        // On the other unit, and floating if it did not or the other way round.
        let words: Vec<&str> = lines[line].split(' ').collect();
        let mut floated = moved.clone();
        floated[line] = match words.len() {
            6 => format!("{} floating", lines[line]),
            _ => words[..6].join(" "),
        };
        edits.push(floated);
        let other = (1 - words[5].parse::<usize>().unwrap()).to_string();
        moved[line] = [&words[..5], &[&other], &words[6..]].concat().join(" ");
        edits.push(moved);
    }
    let (mut accepted, mut refused) = (0, 0);
    for edit in edits {
        let edit = edit.join("\n");
        let Ok(planned) = case.read(&edit) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        assert!(PlanFile::parse("edit", &edit).unwrap().was_edited());
        let (seen, tasks) = case.run(&pool, &planned);
        assert_eq!(seen, expected, "{edit}");
        assert!(follows(&edit, &tasks), "{edit}{tasks:?}");
    }
    (accepted, refused)
}

#[test]
fn an_edited_order_is_executed_as_it_says_or_refused() {
    let (accepted, refused) = try_edits(&text());
    assert!(accepted > 10 && refused > 3, "{accepted} accepted, {refused} refused");
}

#[test]
fn where_no_memory_is_shared_every_task_can_move() {
    let text = text();
    let mut end = 0;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] != "buffer" {
            lines.push(line.to_string());
            continue;
        }
        lines.push([&words[..6], &[&end.to_string()]].concat().join(" "));
        let versions = if ["x", "p%23%25", "out"].contains(&words[2]) { 2 } else { 1 };
        end += words[3].parse::<usize>().unwrap().next_multiple_of(64) * versions;
    }
    let (text, _) = with_word(&lines.join("\n"), "memory", 1, &end.to_string());
    let planned = Case::new(8).read(&text).unwrap();
    assert!(planned.plan.memory_edges().is_empty());
    assert_eq!(planned.plan.memory(HOST).bytes, planned.plan.memory(HOST).bytes_unshared);
    let n_tasks = text.lines().filter(|line| line.starts_with("run ")).count();
    let (accepted, _) = try_edits(&text);
    // Every task can move and float, and those swaps are fine between which no data flows.
    assert!(accepted > 2 * n_tasks, "{accepted} of {n_tasks} tasks");
}

#[test]
fn another_spelling_has_the_same_hash_and_another_meaning_another() {
    let text = text();
    let file = PlanFile::parse("p.plan", &text).unwrap();
    let spelled = text.replace("n=4x2", "n=2x2+2+1x2").replace("order fixed", "\n\torder  fixed # units");
    assert_ne!(spelled, text);
    let spelled = PlanFile::parse("p.plan", &spelled).unwrap();
    assert_eq!((spelled.hash(), spelled.was_edited()), (file.hash(), false));
    let elsewhere = text.replace("from heuristic", "from a planner of 2031");
    assert_eq!(PlanFile::parse("p.plan", &elsewhere).unwrap().hash(), file.hash());
    let (moved, _) = with_word(&text, "run 0 ", 5, "1");
    let moved = PlanFile::parse("p.plan", &moved).unwrap();
    assert!(moved.hash() != file.hash() && moved.was_edited());
}

#[test]
fn a_file_has_the_same_hash_on_every_platform_and_in_every_version() {
    let text = "dahl plan 1\nstep s\ngraph 00000000000000000000000000000001\nmachine 1 units in memories 0\n\
                memory 64 bytes\narray 0 x f32[8] temporary row-major\ntask 0 copy f32 reference v1 groups 1 i=2x4\n\
                order fixed\nrun 0 copy 1/2 on 0\nrun 1 copy 2/2 on 0\nbuffer 0 x 32 bytes at 0\n";
    // FNV-1a with 128 bits over an empty line and the text from "step s" on.
    let hash = PlanFile::parse("p.plan", text).unwrap().hash();
    assert_eq!(hash.to_string(), "ca690ef52c9e617df204edb73fcae66c");
}

#[test]
fn another_version_of_the_format_is_refused() {
    refused(
        &text().replace("dahl plan 1", "dahl plan 3"),
        &[&at(1), "version 3", "versions 1 and 2", "make a new"],
    );
    refused("hello", &[&at(1), "no plan file"]);
    refused("", &[&at(1), "empty"]);
}

#[test]
fn an_unknown_codelet_is_refused() {
    let (text, line) = with_word(&text(), "task 1 ", 2, "paste");
    refused(&text, &[&at(line), "task 1 is paste f32 here and copy f32 in the graph", "make a new one"]);
}

#[test]
fn an_unknown_implementation_is_refused() {
    let (text, line) = with_word(&text(), "task 1 ", 4, "quick");
    refused(&text, &[&at(line), "copy has no implementation quick for f32, only reference"]);
}

#[test]
fn another_version_of_an_implementation_is_refused() {
    let (text, line) = with_word(&text(), "task 1 ", 5, "v7");
    refused(&text, &[&at(line), "version 7 of reference", "version 1", "make a new plan"]);
}

#[test]
fn tiles_that_do_not_cover_an_axis_are_refused() {
    for (tiles, piece) in [
        ("n=3x2", "add up to 8"),
        ("n=4x2+0", "at least 1"),
        ("n=99999999999999x99999999999999", "add up to 8"),
        ("q=4x2", "no axis q, only n, k, m"),
    ] {
        let (text, line) = with_word(&text(), "task 0 ", 8, tiles);
        refused(&text, &[&at(line), piece]);
    }
    let (text, line) = edited(&text(), "task 0 ", |line| format!("{line} n=4x2"));
    refused(&text, &[&at(line), "cut twice"]);
}

#[test]
fn a_missing_task_is_refused() {
    let (without_run, _) = edited(&text(), "run 3 ", |_| String::new());
    refused(&without_run, &["task 3 matmul 4/4 is missing", "run 3 matmul 4/4 on UNIT"]);
    let (without_task, line) = edited(&text(), "task 1 ", |_| String::new());
    refused(&without_task, &[&at(line + 1), "expected task 1, found task 2"]);
    let last = text().lines().filter(|line| line.starts_with("task ")).count() - 1;
    let (without_last, _) = edited(&text(), &format!("task {last} "), |_| String::new());
    refused(&without_last, &[&format!("there are {last} tasks here and {} in the graph", last + 1)]);
}

#[test]
fn a_task_that_is_there_twice_is_refused() {
    let (text, line) = edited(&text(), "run 3 ", |line| format!("{line}\n{line}"));
    refused(&text, &[&at(line + 1), "task 3 matmul 4/4 is there twice", &format!("line {line}")]);
}

#[test]
fn a_task_that_does_not_exist_is_refused() {
    let (no_such_task, line) = with_word(&text(), "run 3 ", 1, "300");
    refused(&no_such_task, &[&at(line), "no task 300"]);
    let (other_name, line) = with_word(&text(), "run 3 ", 3, "2/4");
    refused(&other_name, &[&at(line), "task 3 is matmul 4/4, not matmul 2/4"]);
}

#[test]
fn an_order_in_which_units_wait_for_each_other_is_refused() {
    // Each unit begins with what needs the other's end: no unit can start.
    let text = text();
    let (before, after) = text.split_once("order fixed\n").unwrap();
    let (mut runs, buffers): (Vec<&str>, Vec<&str>) =
        after.lines().partition(|line| line.starts_with("run "));
    runs.reverse();
    let reversed = format!("{before}order fixed\n{}\n{}", runs.join("\n"), buffers.join("\n"));
    refused(&reversed, &["needs task", "stands below in line", "for ever", "below that line"]);
}

#[test]
fn a_unit_that_does_not_exist_is_refused() {
    let (text, line) = with_word(&text(), "run 3 ", 5, "2");
    refused(&text, &[&at(line), "no unit 2: the machine has 2"]);
    refused(&Case::new(8).file(3).to_string(), &["for 3 units, and there are 2", "make a new plan"]);
    let case = Case::new(8);
    let machine = Machine::with_workers(2).with_test_unit();
    let error = case.file(2).plan("a step", &case.graph, &machine).expect_err("refused");
    assert!(error.to_string().contains("memories [0, 0], and these are in [0, 1]"), "{error}");
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let case = Case::new(8);
    let needed = case.planned(2).plan.memory(HOST).bytes + 48;
    let machine = |bytes| Machine::with_workers(2).with_limit(0, bytes);
    assert!(case.file(2).plan("a step", &case.graph, &machine(needed)).is_ok());
    let error = case.file(2).plan("a step", &case.graph, &machine(needed - 1)).expect_err("refused");
    let sentence = error.to_string();
    assert!(
        sentence.contains(&format!("needs {needed} bytes")) && sentence.contains("memory 0"),
        "{sentence}"
    );

    let (too_little, line) = with_word(&text(), "memory ", 1, "64");
    refused(&too_little, &["64 in all", &format!("(line {line})"), "more memory"]);
    let (too_much, line) = with_word(&text(), "memory ", 1, "1000000");
    refused(&too_much, &[&at(line), "bytes, not 1000000"]);
    for offset in ["9223372036854775744", "18446744073709551552"] {
        let (far, line) = with_word(&text(), "buffer 1 ", 6, offset);
        refused(&far, &[&at(line), "in all"]);
    }
    let (crooked, line) = with_word(&text(), "buffer 1 ", 6, "4");
    refused(&crooked, &[&at(line), "not a multiple of 64"]);
}

#[test]
fn buffers_that_are_in_use_at_the_same_time_cannot_overlap() {
    // The first tile of y0 lies where the first tile of y1 lies, which is computed from it.
    let text = text();
    let line = |name: &str| text.lines().find(|line| line.split(' ').nth(2) == Some(name)).unwrap();
    let (first, second) = (line("y0.0"), line("y1.0"));
    let (text, line) = with_word(&text, second, 6, first.rsplit(' ').next().unwrap());
    refused(&text, &[&at(line), "y1.0 overlaps", "y0.0", "offset of its own"]);
    // Ports are filled while other steps run, so nothing may lie there.
    let (text, line) = with_word(&text, "buffer 4 ", 6, "0");
    refused(&text, &[&at(line), "overlaps buffer 1 x"]);
}

#[test]
fn buffers_are_those_of_the_graph() {
    let (missing, _) = edited(&text(), "buffer 4 ", |_| String::new());
    refused(&missing, &["expected buffer 4", "found buffer 5"]);
    let (longer, line) = with_word(&text(), "buffer 4 ", 3, "25");
    refused(&longer, &[&at(line), "expected buffer 4", "of 25 bytes"]);
    let last = text().lines().last().unwrap().to_string();
    refused(&text().replace(&last, ""), &["is missing"]);
    refused(&format!("{}buffer 99 more 64 bytes at 0", text()), &["no buffer 99 more"]);
}

#[test]
fn a_plan_for_another_graph_is_refused() {
    let machine = Machine::with_workers(2);
    let file = PlanFile::parse("p.plan", &text()).unwrap();
    let error = file.plan("a step", &Case::new(6).graph, &machine).expect_err("refused").to_string();
    assert!(error.contains("array 1 is x f32[8,4] port here and x f32[6,4] port in the graph"), "{error}");
    // The same arrays and codelets, but another parameter.
    let mut other = Case::new(8);
    let w = other.graph.var(0);
    let mut longer = Case::new(8);
    for (case, by) in [(&mut other, 1.0), (&mut longer, 2.0)] {
        case.graph.task(&SHIFT, Dtype::F32, &[], &[w], &[], &[by]).unwrap();
    }
    let error = file.plan("a step", &other.graph, &machine).expect_err("refused").to_string();
    assert!(error.contains("5 tasks here and 6 in the graph"), "{error}");
    let mut file = PlanFile::new("");
    let planned =
        Planned::new(&other.graph, &options(), |lowered| Plan::fixed(lowered, &Machine::with_workers(2)))
            .unwrap();
    file.add("a step", &other.graph, &planned, &machine).unwrap();
    assert!(file.plan("a step", &other.graph, &machine).is_ok());
    let error = file.plan("a step", &longer.graph, &machine).expect_err("refused").to_string();
    assert!(error.contains("another graph") && error.contains("make a new one"), "{error}");
}

#[test]
fn layouts_are_checked() {
    for (layout, pieces) in [
        ("lanes:16", "shared with the program"),
        ("lanes:0", "use 1 to 16"),
        ("lanes:17", "use 1 to 16"),
        ("upside-down", "expected row-major or lanes:16"),
    ] {
        let (text, _) = with_word(&text(), "array 1 ", 5, layout);
        refused(&text, &[pieces]);
    }
}

#[test]
fn a_file_holds_one_plan_per_step_and_names_those_it_has() {
    let (a, b) = (Case::new(8), Case::new(6));
    let machine = Machine::with_workers(2);
    let mut file = a.file(2);
    file.add("b", &b.graph, &b.planned(2), &machine).unwrap();
    assert_eq!(file.add("b", &b.graph, &b.planned(2), &machine).unwrap_err().kind(), ErrorKind::Usage);
    let path = std::env::temp_dir().join(format!("dahl-{}.plan", std::process::id()));
    file.save(&path).unwrap();
    let file = PlanFile::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(file.steps().collect::<Vec<_>>(), ["a%20step", "b"]);
    assert!(file.plan("a step", &a.graph, &machine).is_ok() && file.plan("b", &b.graph, &machine).is_ok());
    let error = file.plan("c", &a.graph, &machine).expect_err("refused").to_string();
    assert!(error.contains("the step c, only for a%20step, b"), "{error}");
    let error = PlanFile::load(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("cannot read the plan"), "{error}");
}
