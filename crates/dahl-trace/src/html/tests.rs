//! What the page contains, read back as a browser would.

use super::*;
use dahl_runtime::graph::{Edge, EdgeKind};
use dahl_runtime::trace::{BlockInfo, Event, Release, Scene, TaskInfo, Transfer, WorkerInfo};
use std::sync::Arc;

fn page(trace: &Trace) -> String {
    let mut out = Vec::new();
    Page::default().write(trace, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The data, as the browser finds it: up to the first end of a script.
fn data(page: &str) -> &str {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    after.split_once("</script>").unwrap().0
}

/// Whether a text is JSON: every bracket and string ends where it should, and nothing is left over.
fn is_json(text: &str) -> bool {
    fn value(rest: &str) -> Option<&str> {
        let rest = match rest.chars().next()? {
            '{' => return members(&rest[1..], '}', |rest| value(string(rest)?.strip_prefix(':')?)),
            '[' => return members(&rest[1..], ']', value),
            '"' => string(rest)?,
            _ => {
                let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
                let (word, rest) = rest.split_at(end);
                (word == "null" || word.parse::<f64>().is_ok_and(f64::is_finite)).then_some(rest)?
            }
        };
        Some(rest)
    }
    fn members(mut rest: &str, end: char, member: impl Fn(&str) -> Option<&str>) -> Option<&str> {
        if let Some(rest) = rest.strip_prefix(end) {
            return Some(rest);
        }
        loop {
            rest = member(rest)?;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.strip_prefix(end),
            }
        }
    }
    fn string(rest: &str) -> Option<&str> {
        let mut chars = rest.strip_prefix('"')?.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Some(&rest[at + 2..]),
                '\\' => drop(chars.next()?),
                c if (c as u32) < 0x20 => return None,
                _ => {}
            }
        }
        None
    }
    value(text.trim()).is_some_and(|rest| rest.is_empty())
}

fn event(task: u32, step: u32, start: u64, end: u64) -> Event {
    Event { task, step, start, end }
}

/// Two workers; the second waits for the first. A tick is a microsecond.
fn small() -> Trace {
    let task =
        |codelet: &str| TaskInfo { codelet: codelet.into(), tile: (1, 4), flops: 8e3, ..TaskInfo::default() };
    let scene = Scene {
        workers: vec![WorkerInfo::default(); 2],
        memories: vec!["host".into()],
        tasks: vec![task("never"), task("conv2d"), task("relu")],
        edges: vec![Edge { from: 1, to: 2, distance: 0, kind: EdgeKind::Data }],
        ..Scene::default()
    };
    Trace {
        scene: Arc::new(scene),
        workers: vec![
            vec![event(1, 7, 100, 130), event(1, 8, 131, 160)],
            vec![event(1, 6, 102, 110), event(2, 7, 133, 140)],
        ],
        transfers: vec![Vec::new(); 3],
        n_dropped: vec![5, 0, 0],
        releases: vec![Release { steps: 9, ticks: 0 }],
        ticks_per_second: 1e6,
    }
}

#[test]
fn columns_say_what_happened() {
    let page = page(&small());
    let data = data(&page);
    assert!(is_json(data), "{data}");
    // Two executions; overhead between them is not written down.
    assert!(data.contains(r#""k":[0,0],"g":[0,1000],"d":[30000,29000],"x":[7,1]"#), "{data}");
    // An execution, a gap that waited for the first task, and, after overhead, the next.
    assert!(data.contains(r#""k":[0,-1,1],"g":[2000,0,3000],"d":[8000,20000,7000],"x":[6,1,1]"#), "{data}");
    // Only tasks that are met.
    assert!(data.contains(r#""codelets":["conv2d","relu"],"codelet":[0,1]"#), "{data}");
    assert!(data.contains(r#""kept":4,"events":4,"dropped":5"#), "{data}");
}

#[test]
fn nothing_is_a_page_too() {
    let empty = page(&Trace::default());
    assert!(is_json(data(&empty)) && data(&empty).contains(r#""rows":[]"#), "{}", data(&empty));
    let idle = Trace { workers: vec![Vec::new(); 3], ..Trace::default() };
    assert_eq!(data(&page(&idle)).matches(r#""k":[]"#).count(), 3);
    // A clock that does not go is no reason to fail.
    for ticks_per_second in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
        assert!(is_json(data(&page(&Trace { ticks_per_second, ..small() }))));
    }
}

#[test]
fn names_may_contain_anything() {
    let nasty = "</script><script>alert(1)</script> \"'&<!-- \\ \u{2028}\n{{ 数 🦀";
    let mut trace = small();
    let scene = Arc::make_mut(&mut trace.scene);
    scene.tasks[1].codelet = nasty.into();
    scene.memories[0] = nasty.into();
    scene.workers[0].kind = nasty.into();
    scene.tasks[1].flops = f64::INFINITY;
    let plain = Page { title: "x".into(), ..Page::default() };
    let pair = || vec![(nasty.to_string(), nasty.to_string())];
    let series = vec![Series::of(nasty, [(0.0, 1.0)])];
    let named = Page {
        title: nasty.into(),
        figures: pair(),
        facts: pair(),
        plots: vec![Plot { title: nasty.into(), x: nasty.into(), unit: nasty.into(), series }],
        memories: vec![MemoryUse { in_use: vec![(nasty.into(), 3)], ..MemoryUse::default() }],
    };
    let text = |page: &Page| {
        let mut out = Vec::new();
        page.write(&trace, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (plain, named) = (text(&plain), text(&named));
    assert!(is_json(data(&named)));
    assert_eq!(named.matches("</script").count(), plain.matches("</script").count());
    assert_eq!(named.matches("<script").count(), 2);
    assert!(named.contains("<title>&lt;/script&gt;"));
}

#[test]
fn the_newest_events_stay() {
    let mut trace = small();
    let n = 3 * MAX_EVENTS as u64 / 4;
    trace.workers = vec![
        (0..n).map(|i| event(1, i as u32, 10 * i, 10 * i + 9)).collect(),
        (0..n).map(|i| event(2, i as u32, 10 * i, 10 * i + 4)).collect(),
    ];
    let page = page(&trace);
    let data = data(&page);
    assert!(
        data.contains(&format!("\"kept\":{MAX_EVENTS},\"events\":{}", 2 * n)),
        "{}",
        &data[data.len() - 200..]
    );
    // A row begins with its oldest event, whose step counts from 0.
    assert!(data.contains(&format!("\"x\":[{},1,", n - MAX_EVENTS as u64 / 2)));
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}

#[test]
fn copies_are_shown_where_they_were_made() {
    let mut trace = small();
    Arc::make_mut(&mut trace.scene).blocks = vec![BlockInfo { name: "w".into(), bytes: 64 }];
    let copy = |start, end| Transfer { to: 0, start, end, ..Transfer::default() };
    trace.transfers = vec![vec![copy(200, 205)], vec![copy(112, 113)], vec![copy(90, 95)]];
    let page = page(&trace);
    let data = data(&page);
    assert!(is_json(data));
    // After the last execution, in a gap, and by the program.
    assert!(
        data.contains(r#""k":[0,0,-4],"g":[10000,1000,40000],"d":[30000,29000,5000],"x":[7,1,1]"#),
        "{data}"
    );
    assert!(
        data.contains(
            r#""name":"program","detail":"copies","dropped":0,"k":[-4],"g":[0],"d":[5000],"x":[3]"#
        )
    );
    assert!(
        data.contains(r#""names":["w"],"bytes":[64]"#) && data.contains(r#""kept":7,"events":7"#),
        "{data}"
    );
}

#[test]
fn the_page_asks_for_nothing() {
    let page = page(&small());
    let found: Vec<&str> =
        ["http:", "https:", "//cdn", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML"]
            .into_iter()
            .filter(|word| page.contains(word))
            .collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(page.contains("default-src 'none'"));
    for mark in ["<!--title-->", "/*styles*/", "/*data*/", "/*scripts*/"] {
        assert!(PAGE.contains(mark) && !page.contains(mark), "{mark}");
    }
}
