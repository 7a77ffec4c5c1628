//! Reports in a real browser: they are opened, zoomed, pointed at and read, as a user would.
//!
//! `cargo test -p dahl-cli --test browser -- --ignored` makes the pictures in `docs/` anew.

mod chromium;
#[path = "../command/mod.rs"]
mod command;
mod pictures;
mod scenes;

use chromium::Chromium;
use command::{Folder, failure, skipped, success};
use dahl_runtime::graph::TaskId;
use dahl_runtime::trace::{BlockInfo, Event, Scene, Trace, Transfer, WorkerInfo};
use serde_json::{Value, json};
use std::path::Path;

/// A browser with a page of this size, unless there is none here.
fn browser(name: &str, width: u32, height: u32) -> Option<Chromium> {
    match chromium::find() {
        Some(program) => Some(Chromium::start(&program, name, width, height)),
        None => {
            skipped("no chromium, which reads reports in this test");
            None
        }
    }
}

/// The label-text pairs of the tooltip.
fn tooltip(page: &mut Chromium) -> Value {
    page.get(
        "(() => { const t = document.getElementById('tooltip'); if (t.hidden) return null;
         const pairs = [...t.querySelectorAll('dt')].map(dt => [dt.textContent, dt.nextSibling.textContent]);
         return { title: t.querySelector('strong').textContent, ...Object.fromEntries(pairs) }; })()",
    )
}

/// The number at the beginning of a duration, in nanoseconds.
fn nanos(text: &str) -> f64 {
    let (number, unit) = text.rsplit_once(' ').unwrap_or((text, "ns"));
    let size = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "µs" => 1e3,
        "ns" => 1.0,
        _ => panic!("{text} is no duration"),
    };
    number.replace(',', "").parse::<f64>().unwrap_or_else(|_| panic!("{text} is no duration")) * size
}

fn point(page: &mut Chromium, worker: usize, i: usize) -> (f64, f64, bool) {
    let place = page.get(&format!("dahlReport.placeOf({worker}, {i})"));
    (place["x"].as_f64().expect("x"), place["y"].as_f64().expect("y"), place["isInView"] == json!(true))
}

fn view(page: &mut Chromium) -> (f64, f64) {
    let view = page.get("dahlReport.view()");
    (view["from"].as_f64().expect("from"), view["until"].as_f64().expect("until"))
}

/// Brings something into the middle of the window, and waits until that has happened.
fn scroll_to(page: &mut Chromium, selector: &str) {
    page.get(&format!("document.querySelector({}).scrollIntoView({{ block: 'center' }})", json!(selector)));
    page.next_frame();
}

/// Points at a worker's i-th execution, turning the wheel there until it is wide enough to be met, and
/// compares what the page says about it with the trace.
fn check_execution(page: &mut Chromium, trace: &Trace, worker: usize, i: usize) {
    let event = trace.workers[worker][i];
    let per_nano = 1e9 / trace.ticks_per_second;
    let took = (event.end - event.start) as f64 * per_nano;
    scroll_to(page, "#gantt");
    let width = page.number("document.getElementById('gantt').clientWidth");
    let mut n_turns = 0;
    loop {
        let (from, until) = view(page);
        if took / (until - from) * width > 12.0 {
            break;
        }
        let (x, y, is_in_view) = point(page, worker, i);
        assert!(is_in_view, "zooming lost what is under the mouse");
        page.wheel(x, y, -240.0);
        page.next_frame();
        let (narrower, wider) = (view(page), until - from);
        let length = narrower.1 - narrower.0;
        assert!(
            (length / wider - (-0.6_f64).exp()).abs() < 1e-6,
            "a turn of the wheel took {wider} to {length}"
        );
        let (after, _, _) = point(page, worker, i);
        assert!((after - x).abs() < 1.5, "what is under the mouse went from {x} to {after}");
        n_turns += 1;
        assert!(n_turns < 60, "the wheel does not zoom");
    }
    let (x, y, _) = point(page, worker, i);
    page.mouse("mouseMoved", x, y, false);
    let (shown, hit) = (tooltip(page), page.get(&format!("dahlReport.hitAt({x}, {y})")));
    let task = &trace.scene.tasks[event.task as usize];
    assert_eq!(hit["title"], json!(task.codelet), "{hit}");
    assert_eq!(shown["title"], json!(task.codelet), "{shown}");
    assert_eq!(shown["implementation"], json!(task.implementation), "{shown}");
    let layer = trace.scene.scopes_of(task).collect::<Vec<_>>().join("+");
    assert_eq!(shown.get("layer").and_then(Value::as_str).unwrap_or_default(), layer, "{shown}");
    assert_eq!(shown["tile"], json!(format!("{} of {}", task.tile.0 + 1, task.tile.1)), "{shown}");
    assert_eq!(
        shown["step"].as_str().map(|step| step.replace(',', "")),
        Some(event.step.to_string()),
        "{shown}"
    );
    assert_eq!(shown["on"], json!(format!("worker {worker}")), "{shown}");
    let says = nanos(shown["duration"].as_str().expect("a duration"));
    assert!((says - took).abs() <= 1.0 + 1e-3 * took, "{says} instead of {took} ns");
    if task.flops > 0.0 {
        let rate = shown["compute"].as_str().and_then(|text| text.strip_suffix(" GFLOP/s")).expect("a rate");
        let (rate, expected): (f64, f64) =
            (rate.replace(',', "").parse().expect("a number"), task.flops / took);
        assert!((rate - expected).abs() <= 0.02 * expected, "{rate} instead of {expected} GFLOP/s");
    }
}

#[test]
fn a_report_of_training_shows_what_happened() {
    let Some(mut page) = browser("training", 1280, 1000) else { return };
    let folder = Folder::new("browser-training");
    let (html, saved) = (folder.file("run.html"), folder.file("run.json"));
    let printed = success(&[
        "train",
        "--epochs",
        "3",
        "--workers",
        "2",
        // Whatever else the machine does, both workers work.
        "--schedule",
        "replay",
        "--watchdog",
        "60",
        "--report",
        &html,
        "--trace",
        &saved,
    ]);
    assert!(printed.contains("report: "), "{printed}");
    let trace = dahl_trace::load(&saved).expect("a trace");
    page.prefer("light");
    page.open(Path::new(&html));
    assert_eq!(page.text("document.querySelector('h1').textContent"), "seed on digits");

    // By wheel and mouse: executions at the beginning, in the middle and at the end.
    for worker in 0..2 {
        for i in [0, trace.workers[worker].len() / 2, trace.workers[worker].len() - 1] {
            page.get("document.querySelector('[data-do=all]').click()");
            page.next_frame();
            check_execution(&mut page, &trace, worker, i);
        }
    }
    // Dragging moves time with the mouse.
    let (x, y, _) = point(&mut page, 1, trace.workers[1].len() - 1);
    page.mouse("mousePressed", x, y, true);
    page.mouse("mouseMoved", x - 100.0, y, true);
    page.mouse("mouseReleased", x - 100.0, y, false);
    page.mouse("mouseMoved", x, y, false);
    let (before, (from, until)) = (x - 100.0, view(&mut page));
    let (after, _, _) = point(&mut page, 1, trace.workers[1].len() - 1);
    assert!(
        (after - before).abs() < 100.0 && after < x,
        "dragged to {before}, but it is at {after} of {from} to {until}"
    );
    // Keys: everything, nearer, later.
    page.get("document.getElementById('gantt').focus()");
    page.key("0");
    let whole = view(&mut page);
    page.key("+");
    let near = view(&mut page);
    assert!(((near.1 - near.0) / (whole.1 - whole.0) - 1.0 / 1.5).abs() < 1e-6, "{whole:?} to {near:?}");
    page.key("ArrowRight");
    assert!(view(&mut page).0 > near.0);

    // What is counted is what is in the trace.
    let rows = page.get("[...document.querySelectorAll('#codelets tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))");
    let count = |codelet: &str| {
        let is_such = |event: &&Event| trace.scene.tasks[event.task as usize].codelet == codelet;
        trace.workers.iter().flatten().filter(is_such).count()
    };
    let rows = rows.as_array().expect("rows");
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let (codelet, shown) = (row[0].as_str().expect("a name"), row[3].as_str().expect("a count"));
        assert_eq!(shown.replace(',', ""), count(codelet).to_string(), "{codelet}");
    }
    // Sorted by name, then the other way round.
    let names = "[...document.querySelectorAll('#codelets tbody .named')].map(n => n.textContent).join()";
    page.click("#codelets th button");
    let up = page.text(names);
    page.click("#codelets th button");
    let mut names: Vec<String> = page.text(names).split(',').map(str::to_string).collect();
    names.reverse();
    assert_eq!(up, names.join(","));
    assert!(names.is_sorted(), "{names:?}");

    // The same by layer, which begin with the largest and are else in the order of the network.
    let layers = "[...document.querySelectorAll('#layers tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))";
    let name = |event: &Event| {
        trace.scene.scopes_of(&trace.scene.tasks[event.task as usize]).collect::<Vec<_>>().join("+")
    };
    let rows = page.get(layers);
    for row in rows.as_array().expect("rows") {
        let (layer, shown) = (row[0].as_str().expect("a name"), row[3].as_str().expect("a count"));
        let n = trace.workers.iter().flatten().filter(|event| name(event) == layer).count();
        assert_eq!(shown.replace(',', ""), n.to_string(), "{layer}");
    }
    assert_eq!(rows[0][0], json!("conv1+relu1+pool1"), "{rows}");
    // Which of the two took longer is the machine's business.
    let codelets = rows[0][1].as_str().expect("names");
    assert!(codelets.split(", ").any(|name| name == "conv2d_relu_max_pool_dw"), "{rows}");
    assert!(codelets.split(", ").any(|name| name == "conv2d_relu_max_pool"), "{rows}");
    page.click("#layers th button");
    let names: Vec<Value> =
        page.get(layers).as_array().expect("rows").iter().map(|row| row[0].clone()).collect();
    let order = ["load", "conv1+relu1+pool1", "conv1+relu1+pool1+fc1", "fc1", "loss", "update"];
    assert_eq!(Value::from(names), json!(order));

    // Curves and memory say what they show, here at their right ends.
    let n_tasks = printed
        .split("for what its ")
        .nth(1)
        .and_then(|text| text.split(' ').next())
        .expect("a number of tasks");
    for (part, label, text) in [
        ("#curves figure:nth-child(3) svg", "title", "epoch 3".to_string()),
        ("#memory svg", "task", format!("{n_tasks} of {n_tasks}")),
    ] {
        scroll_to(&mut page, part);
        let at = page.get(&format!(
            "(() => {{ const r = document.querySelector('{part}').getBoundingClientRect(); return [r.right - 15, r.top + 80]; }})()"
        ));
        page.mouse("mouseMoved", at[0].as_f64().expect("x"), at[1].as_f64().expect("y"), false);
        let shown = tooltip(&mut page);
        assert_eq!(shown[label], json!(text), "{part}: {shown}");
    }
    let facts = page.text("document.querySelector('#facts dl').textContent");
    let hash = printed.lines().find_map(|line| line.strip_prefix("plan: ")).expect("a plan");
    assert!(facts.contains(hash.split(' ').next().expect("a hash")), "{facts}");

    // Highlighting fades what is not meant.
    page.click("#legend button");
    assert_eq!(page.text("document.querySelector('#legend button').getAttribute('aria-pressed')"), "true");

    check_themes(&mut page);
    assert_eq!((page.problems(), page.n_requests()), (Vec::new(), 1));
}

/// Colours follow the system, and the button.
fn check_themes(page: &mut Chromium) {
    let colours = |page: &mut Chromium| {
        page.next_frame();
        // The first pixel of the chart is its background; it is read from a copy.
        let colours = "(() => { const copy = document.createElement('canvas').getContext('2d');
            copy.drawImage(document.getElementById('gantt'), 0, 0);
            const style = getComputedStyle(document.body);
            return [style.backgroundColor, style.color, copy.getImageData(4, 4, 1, 1).data.join()].join(' '); })()";
        page.text(colours)
    };
    let light = colours(page);
    page.prefer("dark");
    let dark = colours(page);
    assert!(
        light != dark && light.contains("255,255,255,255") && !dark.contains("255,255,255,255"),
        "{light}, {dark}"
    );
    page.click("#theme");
    assert_eq!(colours(page), light);
    page.click("#theme");
    assert_eq!(colours(page), dark);
    page.prefer("light");
    assert_eq!(colours(page), light);
}

#[test]
fn two_hundred_units_and_a_hundred_thousand_tasks_can_be_read() {
    let Some(mut page) = browser("many", 1280, 1000) else { return };
    let folder = Folder::new("browser-many");
    let trace = scenes::many(200, 100_000);
    assert_eq!(trace.workers.iter().map(Vec::len).sum::<usize>(), 100_000);
    let html = folder.file("many.html");
    dahl_trace::save(&trace, &html).expect("written");
    println!("200 units, 100,000 tasks: a file of {} KB", folder.read("many.html").len() / 1000);
    page.open(Path::new(&html));
    assert_eq!(page.get("dahlReport.view().rows"), json!(200));
    assert!(page.text("document.getElementById('notes').textContent").is_empty(), "nothing was left out");
    scroll_to(&mut page, "#gantt");

    // How long pictures take while everything is zoomed and moved. Printed, and never judged: machines
    // differ.
    page.get(
        "(() => { let last = 0; window.frames_ = []; const tick = now => { if (last) frames_.push(now - last); last = now;
         requestAnimationFrame(tick); }; requestAnimationFrame(tick); return true; })()",
    );
    let (x, y, _) = point(&mut page, 100, 250);
    for turn in 0..60 {
        page.wheel(x, y, if turn < 30 { -60.0 } else { 60.0 });
        page.next_frame();
    }
    page.key("0");
    page.wheel(x, y, -400.0);
    page.mouse("mousePressed", x, y, true);
    for i in 0..60 {
        page.mouse("mouseMoved", x + 4.0 * f64::from(i % 30), y + f64::from(i % 20), true);
        page.next_frame();
    }
    page.mouse("mouseReleased", x, y, false);
    for (what, times) in [("between frames", "frames_"), ("to draw one", "dahlReport.paints()")] {
        let times = page.get(&format!("(() => {{ const s = [...{times}].sort((a, b) => a - b); return [s.length, s[s.length >> 1], s[Math.floor(0.95 * s.length)], s[s.length - 1]]; }})()"));
        println!(
            "{what}: {} frames, median {:.1} ms, 95 % below {:.1} ms, longest {:.1} ms",
            times[0],
            times[1].as_f64().unwrap_or(f64::NAN),
            times[2].as_f64().unwrap_or(f64::NAN),
            times[3].as_f64().unwrap_or(f64::NAN)
        );
    }

    for (worker, i) in [(0, 0), (100, 250), (199, 499)] {
        page.get("document.querySelector('[data-do=all]').click()");
        page.next_frame();
        check_execution(&mut page, &trace, worker, i);
    }
    // Taller rows are scrolled through.
    for _ in 0..8 {
        page.get("document.querySelector('[data-do=taller]').click()");
    }
    let before = page.number("dahlReport.view().scroll");
    page.get("document.getElementById('gantt').focus()");
    page.key("ArrowDown");
    assert!(page.number("dahlReport.view().scroll") > before);
    assert_eq!((page.problems(), page.n_requests()), (Vec::new(), 1));
}

#[test]
fn odd_traces_are_pages_too() {
    let Some(mut page) = browser("odd", 800, 900) else { return };
    let folder = Folder::new("browser-odd");
    let open = |page: &mut Chromium, name: &str, trace: &Trace| {
        let html = folder.file(name);
        dahl_trace::save(trace, &html).expect("written");
        page.open(Path::new(&html));
    };
    let empty = "document.querySelector('#timeline .empty').textContent";
    open(&mut page, "empty.html", &Trace::default());
    assert_eq!(page.text(empty), "There is nothing in this trace.");
    open(&mut page, "idle.html", &Trace { workers: vec![Vec::new(); 2], ..Trace::default() });
    assert_eq!(page.text(empty), "There is nothing in this trace.");

    // One worker, one execution, no time at all before or after, and names of the worst kind.
    let name = "</script><script>alert(1)</script><b>\"'& ünï 数 🦀";
    let scene = Scene {
        workers: vec![WorkerInfo { kind: name.into(), ..WorkerInfo::default() }],
        tasks: vec![scenes::task(name, (0, 1))],
        ..Scene::default()
    };
    let event = |task: TaskId, step, start, end| Event { task, step, start, end };
    let mut one = scenes::trace(scene, vec![vec![event(0, u32::MAX, 5, 1005)]]);
    one.n_dropped[0] = 12;
    open(&mut page, "one.html", &one);
    assert_eq!(page.get("document.getElementById('layers').hidden"), json!(true));
    assert_eq!(page.text("document.querySelector('#legend button').textContent"), name);
    check_execution(&mut page, &one, 0, 0);
    assert!(page.text("document.getElementById('notes').textContent").contains("12 older ones were dropped"));
    let figures = page.text("document.getElementById('figures').textContent");
    assert!(figures.contains("newest executions1 of 13"), "{figures}");

    // Copies between memories say what was copied.
    let scene = Scene {
        workers: vec![WorkerInfo { kind: "test".into(), memory: 1, ..WorkerInfo::default() }],
        memories: vec!["host".into(), "memory 1".into()],
        tasks: vec![scenes::task("relu", (0, 1))],
        blocks: vec![BlockInfo { name: "weights".into(), bytes: 2048 }],
        ..Scene::default()
    };
    let mut copied = scenes::trace(scene, vec![vec![event(0, 3, 0, 1000), event(0, 4, 3000, 4000)]]);
    copied.transfers[0] = vec![Transfer { block: 0, from: 0, to: 1, step: 4, start: 1500, end: 2900 }];
    open(&mut page, "copies.html", &copied);
    scroll_to(&mut page, "#gantt");
    let ((left, y, _), (right, _, _)) = (point(&mut page, 0, 0), point(&mut page, 0, 1));
    // 500 is the middle of the first execution, 3500 that of the second.
    page.mouse("mouseMoved", left + (right - left) * (2200.0 - 500.0) / 3000.0, y, false);
    let shown = tooltip(&mut page);
    let expected =
        [("title", "copy"), ("data", "weights"), ("size", "2 KiB"), ("from", "host"), ("to", "memory 1")];
    assert!(expected.iter().all(|(label, text)| shown[label] == json!(text)), "{shown}");
    assert_eq!((&shown["step"], &shown["duration"]), (&json!("4"), &json!("1.4 µs")), "{shown}");

    // An execution that took no time is an execution.
    let scene = Scene { tasks: vec![scenes::task("quick", (0, 1))], ..Scene::default() };
    let quick = scenes::trace(scene, vec![vec![event(0, 0, 7, 7), event(0, 0, 9, 9)]]);
    open(&mut page, "quick.html", &quick);
    assert_eq!(page.get("document.querySelectorAll('#codelets tbody tr').length"), json!(1));
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_training() {
    let folder = Folder::new("browser-unwritable");
    let error =
        failure(&["train", "--epochs", "1000000", "--report", &folder.file("no/such/folder/run.html")]);
    assert!(error.contains("run.html"), "{error}");
}
