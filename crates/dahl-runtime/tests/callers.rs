//! An error of an array, an arena or a runtime names the line of the program that asked, not one of ours.

#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::{Params, TileSize, Tolerance, compare, infer_shapes, submit, submit_in_place};
use dahl_runtime::codelet::{Call, Codelet};
use dahl_runtime::machine::Machine;
use dahl_runtime::runtime::Options;
use dahl_runtime::{Error, Result, Runtime};
use kernels::{COPY, MATMUL, reference};
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// What was asked for, the line that did, and what came of it.
struct Asked {
    name: &'static str,
    line: u32,
    error: Option<Error>,
}

#[track_caller]
fn ask<T>(name: &'static str, result: Result<T>) -> Asked {
    Asked { name, line: Location::caller().line(), error: result.err() }
}

/// More elements than can be counted, and more than there is memory for.
const HUGE: usize = usize::MAX / 2;

/// Shapes and counts that make no sense.
fn wrong_requests() -> Vec<Asked> {
    let runtime = Runtime::new(&Machine::with_workers(1)).unwrap();
    let arena = runtime.arena("work");
    let nobody = Machine { units: Vec::new(), ..Machine::with_workers(1) };
    let mut x = arena.zeros::<f32, 2>([4, 3]).unwrap();
    let mut y = arena.zeros::<f32, 2>([4, 3]).unwrap();
    let owned = || runtime.owned::<f32, 2>([4, 3]).unwrap();
    let none = TileSize::Size(0);
    let params = Params::default();
    vec![
        ask("Runtime::new", Runtime::new(&nobody)),
        ask("Runtime::with_options", Runtime::with_options(&nobody, Options::default())),
        ask("Runtime::owned", runtime.owned::<f32, 1>([HUGE])),
        ask("Runtime::owned_from", runtime.owned_from([2, 3], &[1.0, 2.0])),
        ask("Arena::array", arena.array::<f32, 1>([HUGE])),
        ask("Arena::zeros", arena.zeros::<f32, 1>([HUGE])),
        ask("Arena::filled", arena.filled([HUGE], 1.0)),
        ask("Arena::array_from", arena.array_from([2, 3], &[1.0, 2.0])),
        ask("Array::split", x.split(2, 1)),
        ask("Array::tiles", x.tiles(0, 0)),
        ask("Array::grid", x.grid([none, none])),
        ask("Array::split_mut", x.split_mut(0, 0)),
        ask("Array::tiles_mut", x.tiles_mut(2, 1)),
        ask("Array::grid_mut", x.grid_mut([none, none])),
        ask("Split::with_halo", x.split(0, 2).unwrap().with_halo([3, 0])),
        ask("Array::into_region", x.view_mut().into_region([0..5, 0..3])),
        ask("Array::into_stepped", x.view_mut().into_stepped(0, 0)),
        ask("Array::into_permuted", x.view_mut().into_permuted([0, 0])),
        ask("Array::into_reshaped", x.view_mut().into_reshaped([5])),
        ask("Array::into_flat", x.view_mut().into_transposed().into_flat()),
        ask("Array::into_grid", x.view_mut().into_grid([none, none])),
        ask("Part::into_region", x.view().into_region([0..5, 0..3])),
        ask("Part::into_stepped", x.view().into_stepped(2, 1)),
        ask("Part::into_permuted", x.view().into_permuted([1, 1])),
        ask("Part::into_reshaped", x.view().into_reshaped([5])),
        ask("Part::into_flat", x.view().into_transposed().into_flat()),
        ask("Part::into_grid", x.view().into_grid([none, none])),
        ask("Owned::into_reshaped", owned().into_reshaped([5])),
        ask("WriteGuard::copy_from", x.write().unwrap().copy_from(&[1.0])),
        ask("compare", compare(&x.read().unwrap(), &[1.0], Tolerance::SAME_BITS)),
        ask("submit", submit(&COPY, "reference", &[&x, &x], &mut [&mut y], params)),
        ask("submit_in_place", submit_in_place(&COPY, "reference", 3, &[&x], &mut [&mut y], params)),
        ask("infer_shapes", infer_shapes(&MATMUL, &[&x, &x], &[])),
    ]
}

/// What must not be asked for inside of a task, where it would wait for itself.
fn waits() -> Vec<Asked> {
    static SEEN: Mutex<Vec<Asked>> = Mutex::new(Vec::new());
    // Tests run at the same time, and a kernel can hand over what it saw only through what all of them share.
    static TURN: Mutex<()> = Mutex::new(());
    static OUTER: OnceLock<Runtime> = OnceLock::new();
    static NOSY: Codelet = Codelet::new("nosy", "x[i,j] -> y[i,j]", 0.0, &[reference(nosy)]);

    fn nosy(_: &Call<'_>) -> Result<()> {
        let runtime = OUTER.get().expect("set before the task was submitted");
        let (mut arena, elsewhere) = (runtime.arena("inside"), runtime.arena("elsewhere"));
        let mut all = Vec::new();
        {
            let mut x = arena.array::<f32, 2>([4, 3])?;
            all.push(ask("Runtime::wait", runtime.wait()));
            all.push(ask("Runtime::take_trace", runtime.take_trace()));
            all.push(ask("Array::read", x.read()));
            all.push(ask("Array::write", x.write()));
            all.push(ask("Array::to_vec", x.to_vec()));
            all.push(ask("Array::to_array", x.to_array(&elsewhere)));
            all.push(ask("Array::to_owned", x.to_owned()));
        }
        all.push(ask("Arena::reset", arena.reset()));
        SEEN.lock().unwrap().extend(all);
        Ok(())
    }

    let _turn = TURN.lock().unwrap();
    let runtime = OUTER.get_or_init(|| Runtime::new(&Machine::with_workers(1)).unwrap());
    let x = runtime.owned::<f32, 2>([4, 3]).unwrap();
    let mut y = runtime.owned::<f32, 2>([4, 3]).unwrap();
    submit(&NOSY, "reference", &[&x], &mut [&mut y], Params::default()).unwrap();
    y.read().unwrap();
    std::mem::take(&mut SEEN.lock().unwrap())
}

#[test]
fn errors_name_the_line_that_asked() {
    for Asked { name, line, error } in wrong_requests().into_iter().chain(waits()) {
        let error = error.unwrap_or_else(|| panic!("{name} did not fail"));
        let location = error.location().unwrap_or_else(|| panic!("{name} names no line: {error}"));
        assert_eq!((location.file(), location.line()), (file!(), line), "{name}: {error}");
        assert!(error.to_string().contains("callers.rs:"), "{name}: {error}");
    }
}

/// Functions that fail only as those that they call do; those are asked above.
const ONLY_PASS_ON: [&str; 1] = ["Owned::into_flat"];

#[test]
fn every_public_function_that_can_fail_is_asked() {
    let asked: Vec<&str> = wrong_requests().iter().chain(&waits()).map(|asked| asked.name).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("runtime.rs")];
    for folder in ["array", "arena"] {
        files.extend(fs::read_dir(source.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let mut found = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let mut of = "";
        for (i, line) in lines.iter().enumerate() {
            if let Some(rest) = line.strip_prefix("impl") {
                let rest = rest.split(" for ").last().unwrap_or_default();
                let names = rest.split(|c: char| !c.is_alphanumeric());
                let is_type = |name: &&str| name.len() > 1 && name.starts_with(char::is_uppercase);
                of = names.filter(is_type).find(|name| *name != "Element").unwrap_or_default();
            }
            let Some(rest) = line.trim_start().strip_prefix("pub fn ") else { continue };
            let n_lines = 1 + lines[i..].iter().take_while(|line| !line.ends_with('{')).count();
            let signature = lines[i..i + n_lines].join(" ");
            if !signature.contains("-> Result<") {
                continue;
            }
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            let name = if line.starts_with("pub") { name.to_string() } else { format!("{of}::{name}") };
            // What is not exported cannot be called.
            if name.starts_with("Cut::") || name.starts_with("Slabs::") {
                continue;
            }
            found += 1;
            assert_eq!(lines[i - 1].trim(), "#[track_caller]", "{}: {name}", path.display());
            let is_known = asked.contains(&name.as_str()) || ONLY_PASS_ON.contains(&name.as_str());
            assert!(is_known, "{}: {name} is not in the list of this test", path.display());
        }
    }
    assert_eq!(found, asked.len() + ONLY_PASS_ON.len(), "what is asked should be there");
}
