//! Rules for the source itself, beside those that the compiler and its lints keep.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the repository")
}

/// A document of the repository.
fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a document of the repository")
}

/// The workspace's Rust sources, with their text.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a text file");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    collect(&root().join("crates"), &mut found);
    collect(&root().join("fuzz/src"), &mut found);
    assert!(found.len() > 100, "only {} sources", found.len());
    found
}

/// Fails with every place that breaks a rule: file, line, and what is there.
fn refuse(rule: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{rule}:\n{}", offences.join("\n"));
}

#[test]
fn no_file_is_longer_than_800_lines() {
    let sources = sources();
    let long = sources.iter().filter(|(_, text)| text.lines().count() > 800);
    refuse("past 800 lines a file is two ideas", long.map(|(path, _)| path.display().to_string()).collect());
}

#[test]
fn comments_keep_to_the_width_of_the_code() {
    let settings = document("rustfmt.toml");
    let width = settings.lines().find_map(|line| line.strip_prefix("max_width = ")).expect("a max_width");
    let width: usize = width.trim().parse().expect("a number of columns");
    let mut offences = Vec::new();
    for (path, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > width && line.trim_start().starts_with("//") {
                offences.push(format!("{}:{}: {columns} columns", path.display(), i + 1));
            }
        }
    }
    refuse(&format!("comments keep to {width} columns, as the code does"), offences);
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_block = code.contains("unsafe {") || code.contains("unsafe impl");
            // The reason stands above, at most as far away as the statement is long.
            let has_reason = || lines[i.saturating_sub(8)..i].iter().any(|above| above.contains("SAFETY:"));
            if is_block && !has_reason() && !path.ends_with("tests/tidy.rs") {
                offences.push(format!("{}:{}: {line}", path.display(), i + 1));
            }
        }
    }
    refuse("an unsafe block needs a comment that begins with SAFETY", offences);
}

#[test]
fn programs_in_texts_are_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let list = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dahl/src/texts.rs"))
        .expect("the list");
    let is_missing = |page: &PathBuf| {
        let text = fs::read_to_string(page).expect("a text file");
        let name = page.strip_prefix(&root).expect("below the root").display().to_string();
        let has_rust = text.lines().any(|line| line.trim_start().starts_with("```rust"));
        (has_rust && !list.contains(&format!("\"../../../{name}\""))).then_some(name)
    };
    let missing = pages.iter().filter_map(is_missing).collect();
    refuse("pages with Rust in them are listed in crates/dahl/src/texts.rs", missing);
}

#[test]
fn environment_variables_are_read_in_one_source() {
    // A test may run for longer than it does by itself, and that of the guide with data and a Python from
    // elsewhere.
    let allowed = ["tests/tidy.rs", "tests/fuzz/main.rs", "tests/guide/main.rs", "dahl-runtime/src/env.rs"];
    let sources = sources();
    let reads = sources.iter().filter(|(path, text)| {
        let is_allowed = allowed.iter().any(|allowed| path.ends_with(allowed));
        !is_allowed && (text.contains("env::var") || text.contains("option_env!"))
    });
    refuse("settings are arguments", reads.map(|(path, _)| path.display().to_string()).collect());
}

#[test]
fn files_are_opened_in_one_place() {
    let ways = [
        "File::open",
        "File::create",
        "File::options",
        "OpenOptions",
        "fs::read(",
        "fs::write(",
        "fs::copy(",
    ];
    let ways = [&ways[..], &["read_to_string", "fs::{read", "fs::{write"]].concat();
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let text_of_path = path.to_string_lossy();
        let is_test = path.ends_with("tests.rs") || text_of_path.contains("/fuzz/");
        let is_program = text_of_path.contains("/src/") && !is_test;
        let is_the_place =
            path.ends_with("dahl-runtime/src/file.rs") || text_of_path.contains("dahl-runtime/src/file/");
        if !is_program || is_the_place {
            continue;
        }
        // Tests may do as they like; they stand at the end of a file.
        let program = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (i, line) in program.lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            if is_code && ways.iter().any(|way| line.contains(way)) {
                offences.push(format!("{}:{}: {line}", path.display(), i + 1));
            }
        }
    }
    refuse("a name may stand for a device or a pipe: open files by dahl-runtime/src/file.rs", offences);
}

#[test]
fn the_command_prints_in_one_source() {
    let sources = sources();
    let prints = sources.iter().filter(|(path, text)| {
        let is_command = path.to_string_lossy().contains("dahl-cli/src/") && !path.ends_with("output.rs");
        is_command && text.contains("println!")
    });
    let prints = prints.map(|(path, _)| path.display().to_string());
    refuse("names come from anywhere: print them by dahl-cli/src/output.rs", prints.collect());
}

#[test]
fn nothing_is_left_to_do_and_no_machine_is_named() {
    // In halves, so that this file does not name them either.
    let halves = [("TO", "DO"), ("FIX", "ME"), ("/ho", "me/"), ("/ro", "ot/"), ("/t", "mp/")];
    let words = halves.map(|(first, second)| [first, second].concat());
    let mut offences = Vec::new();
    for (path, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                offences.push(format!("{}:{}: {line}", path.display(), i + 1));
            }
        }
    }
    refuse("what is left to do belongs elsewhere, and paths belong to users", offences);
}

/// The modules of `dahl-runtime`, lowest first: each uses those before it and no others. ARCHITECTURE.md
/// draws them.
const LAYERS: &[&[&str]] = &[
    &["error", "env", "date", "shown", "robust", "words", "hash", "sync", "file"],
    &["shape", "bytes"],
    &["codelet"],
    &["machine"],
    &["graph"],
    &["schedule"],
    &["plan"],
    &["progress"],
    &["trace"],
    &["engine"],
    &["runtime", "arena", "array"],
    &["perf"],
    &["conformance"],
];

#[test]
fn modules_of_the_runtime_depend_in_one_direction() {
    let layer = |module: &str| LAYERS.iter().position(|modules| modules.contains(&module));
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let path = path.to_string_lossy();
        let Some((_, inside)) = path.split_once("dahl-runtime/src/") else { continue };
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" {
            continue;
        }
        let own = layer(module).unwrap_or_else(|| panic!("{module} is in no layer: add it to LAYERS"));
        // Tests may do as they like; they stand at the end of a file, or in one of their own.
        let program = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        if path.ends_with("tests.rs") {
            continue;
        }
        for (i, line) in program.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for used in code.split("crate::").skip(1) {
                let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                if layer(used).is_some_and(|used| used > own) {
                    offences.push(format!("{inside}:{}: {}", i + 1, line.trim()));
                }
            }
        }
    }
    refuse("a lower layer does not know those above it", offences);
}

#[test]
fn crates_depend_in_one_direction() {
    let order = ["dahl-runtime", "dahl-trace", "dahl-op", "dahl", "dahl-cli"];
    for (i, name) in order.iter().enumerate() {
        let manifest = document(&format!("crates/{name}/Cargo.toml"));
        let needed = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let above = order[i..].iter().filter(|above| needed.contains(&format!("\n{above}.workspace")));
        refuse(&format!("{name} is below"), above.map(ToString::to_string).collect());
    }
}

#[test]
fn what_is_outside_knows_one_crate_and_nobody_knows_it() {
    let manifest = document("crates/outside/Cargo.toml");
    let (_, needed) = manifest.split_once("[dependencies]").expect("dependencies");
    let names =
        needed.lines().take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = names.filter_map(|line| line.split(['.', ' ']).next()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    assert_eq!(names, ["dahl"], "crates/outside is built on dahl alone");
    assert!(!manifest.contains("dev-dependencies"), "its tests are, too");
    let knows = |(path, text): &(PathBuf, String)| {
        let is_outside = path.to_string_lossy().contains("/crates/outside/");
        (!is_outside && text.contains("dahl_outside")).then(|| path.display().to_string())
    };
    let sources = sources();
    let others = sources.iter().filter(|(path, _)| !path.ends_with("tests/tidy.rs"));
    let known = others.filter_map(knows).collect();
    refuse("nothing is built for crates/outside alone", known);
}

#[test]
fn the_map_draws_the_layers_as_they_are() {
    let map = document("ARCHITECTURE.md");
    // A line of the drawing is indented: modules between single spaces, more space, and what they are for.
    let drawn = map.lines().filter_map(|line| line.strip_prefix("    ")?.split_once("  "));
    let drawn: Vec<&str> = drawn.map(|(modules, _)| modules).collect();
    let layers: Vec<String> = LAYERS.iter().map(|modules| modules.join(" ")).collect();
    let is_drawn = drawn.windows(layers.len()).any(|lines| lines == layers);
    assert!(
        is_drawn,
        "ARCHITECTURE.md must draw the layers of dahl-runtime, as in LAYERS:\n{}",
        layers.join("\n")
    );
}

#[test]
fn the_map_is_short_and_names_what_is_there() {
    let map = document("ARCHITECTURE.md");
    let n_words = map.split_whitespace().count();
    assert!(
        n_words <= 3500,
        "ARCHITECTURE.md is a map, and has {n_words} words: move details to module headers"
    );
    let sources: Vec<String> =
        sources().into_iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/starpu.md"] {
        let text = document(name);
        // Every other piece between backticks is quoted; blocks of code have three, which come in pairs too.
        let quoted = text.split('`').skip(1).step_by(2);
        let is_path = |quoted: &&str| !quoted.contains(['*', ' ']) && !quoted.contains("NAME");
        for path in quoted.filter(is_path).filter(|quoted| quoted.ends_with(".rs")) {
            let is_there = sources.iter().any(|source| source.ends_with(&format!("/{path}")));
            assert!(is_there, "{name} names {path}, which is not there");
        }
    }
}
