//! The guide is true: its commands run and print what it shows, its links lead somewhere, and it leaves out
//! no layer, no setting of a layer, no option of a command and no line that training prints.
//!
//! `DAHL_DATA` names a folder with `fashion-mnist/` in it, `PYTHON` an interpreter with torch and
//! safetensors, as for `.ci/full`; what needs one that is not there is skipped, visibly.

#[path = "../command/mod.rs"]
mod command;
mod compare;
mod page;
mod run;

use command::{Folder, success};
use dahl::model::Sequential;
use page::{Page, root};
use run::{Reader, with_data, with_torch};
use std::fs;
use std::path::PathBuf;

const SOURCE: &str = "docs/guide/src";

/// The pages of the guide, in the order of their names.
fn pages() -> Vec<Page> {
    let entries = fs::read_dir(root().join(SOURCE)).expect("the guide");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    names.sort_unstable();
    names.iter().map(|name| Page::read(&format!("{SOURCE}/{name}"))).collect()
}

/// Fails with all that is wrong.
fn refuse(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults\n\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn commands_print_what_is_shown() {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let data = with_data(named("DAHL_DATA").map(PathBuf::from));
    let python = named("PYTHON").and_then(|python| python.into_string().ok());
    let python = with_torch(python.as_deref().unwrap_or("python3"));
    let mut faults = Vec::new();
    for page in pages().into_iter().chain([Page::read("README.md")]) {
        let mut reader = Reader::new(&page, data.clone(), python.clone());
        for block in page.blocks() {
            faults.extend(reader.follow(&page, &block));
        }
    }
    refuse(&faults);
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = Page::read(&format!("{SOURCE}/SUMMARY.md"));
    let links = summary.links();
    let is_listed = |page: &Page| {
        let name = page.name.rsplit('/').next().unwrap_or_default();
        name == "SUMMARY.md" || links.iter().any(|link| link == name)
    };
    let missing: Vec<String> =
        pages().iter().filter(|page| !is_listed(page)).map(|page| page.name.clone()).collect();
    refuse(&missing);
}

#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for page in pages() {
        let folder = root().join(&page.name).parent().expect("a folder").to_path_buf();
        for link in page.links().iter().filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { root().join(&page.name) } else { folder.join(file) };
            let Ok(path) = path.canonicalize() else {
                faults.push(format!("{}: there is no {link}", page.name));
                continue;
            };
            if anchor.is_empty() {
                continue;
            }
            let name = path.strip_prefix(root()).expect("in the repository").display().to_string();
            if !Page::read(&name).anchors().iter().any(|known| known == anchor) {
                faults.push(format!("{}: {file} has no heading for #{anchor}", page.name));
            }
        }
    }
    refuse(&faults);
}

/// What is wrong with a model file.
fn error_of(text: &str) -> String {
    let read = Sequential::from_toml(text, "model", Some([1, 8, 8]), Some(10));
    read.err().map_or(String::new(), |error| error.to_string())
}

/// The words after `label` in a message, without commas.
fn listed(message: &str, label: &str) -> Vec<String> {
    let (_, list) = message.split_once(label).unwrap_or_else(|| panic!("no '{label}' in: {message}"));
    list.split(',').map(|word| word.trim().to_string()).collect()
}

/// The settings of a kind of layer, which it lists where it does not know one.
fn settings_of(kind: &str) -> Vec<String> {
    let mut text = format!("[[layer]]\nkind = \"{kind}\"\nno_such_setting = 1\n");
    loop {
        let message = error_of(&text);
        // What must be there is asked for first.
        match message.split_once("needs a line '").and_then(|(_, line)| line.split_once(" = ")) {
            Some((needed, _)) => text += &format!("{needed} = 1\n"),
            None => return listed(&message, "settings: "),
        }
    }
}

/// The rows of a table of settings, by their first cell.
fn rows<'a>(section: &[&'a str]) -> Vec<&'a str> {
    let cells = section.iter().filter_map(|line| line.strip_prefix("| `"));
    cells.filter_map(|rest| rest.split_once('`').map(|(name, _)| name)).collect()
}

#[test]
fn every_layer_has_an_entry_with_all_its_settings() {
    let page = Page::read(&format!("{SOURCE}/model-files.md"));
    let mut faults = Vec::new();
    let kinds = listed(&error_of("[[layer]]\nkind = \"no_such_layer\"\n"), "layers: ");
    assert!(kinds.len() > 5, "{kinds:?}");
    let file = listed(&error_of("no_such_setting = 1\n"), "settings: ");
    let entries = kinds.iter().map(|kind| (format!("### `{kind}`"), settings_of(kind)));
    for (heading, settings) in entries.chain([("## The file".to_string(), file)]) {
        let Some(section) = page.section(&heading) else {
            faults.push(format!("there is no heading {heading}"));
            continue;
        };
        let rows = rows(&section);
        let known: Vec<&str> = settings.iter().map(String::as_str).filter(|name| *name != "kind").collect();
        let missing = known.iter().filter(|name| !rows.contains(name));
        faults.extend(missing.map(|name| format!("{heading} has no row for {name}")));
        let unknown = rows.iter().filter(|name| !known.contains(name));
        faults.extend(unknown.map(|name| format!("{heading} has a row for {name}, which is no setting")));
    }
    refuse(&faults);
}

#[test]
fn every_option_of_every_command_is_explained() {
    let all: Vec<String> = pages().into_iter().map(|page| page.text).collect();
    let all = all.join("\n");
    let is_explained = |option: &str| {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        all.match_indices(option).any(|(at, _)| ends(&all[at + option.len()..]))
    };
    let commands = success(&["--help"]);
    let commands = commands.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| line.starts_with("  "));
    let commands = commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut faults = Vec::new();
    let mut n = 0;
    for command in commands {
        if !all.contains(&format!("dahl {command}")) {
            faults.push(format!("dahl {command} is nowhere"));
        }
        for line in success(&[command, "--help"]).lines().map(str::trim_start) {
            let option = line.split_whitespace().find(|word| word.starts_with("--"));
            let begins = line.starts_with("--") || line.starts_with("-o, --");
            let Some(option) = option.filter(|option| begins && *option != "--help") else { continue };
            n += 1;
            if !is_explained(option) {
                faults.push(format!("{option} of dahl {command} is nowhere"));
            }
        }
    }
    assert!(n > 80, "only {n} options");
    refuse(&faults);
}

#[test]
fn every_line_that_training_prints_is_explained() {
    let folder = Folder::new("guide-lines");
    let files = ["run", "run.json", "run.html"].map(|name| folder.file(name));
    let options = ["--epochs", "5", "--checkpoint", &files[0], "--trace", &files[1], "--report", &files[2]];
    let printed = success(&[&["train"], &options[..]].concat());
    let page = Page::read(&format!("{SOURCE}/getting-started.md"));
    let section = page.section("## What every line means").expect("the section");
    let cells: Vec<&str> = section.iter().filter_map(|line| line.split('|').nth(1)).collect();
    let is_explained = |line: &&str| {
        let first = format!("`{}", line.split_whitespace().next().unwrap_or_default());
        cells.iter().any(|cell| cell.contains(&first))
    };
    let unexplained = printed.lines().filter(|line| !line.is_empty() && !is_explained(line));
    let unexplained: Vec<String> = unexplained.map(String::from).collect();
    assert!(printed.lines().count() > 10, "{printed}");
    refuse(&unexplained);
}

#[test]
fn no_line_is_too_wide_to_read() {
    let mut faults = Vec::new();
    for page in pages() {
        let is_free = |line: &str| line.starts_with('|') || line.contains("](");
        let mut is_inside = false;
        for (i, line) in page.text.lines().enumerate() {
            is_inside ^= line.starts_with("```");
            if line.chars().count() > 120 && !is_inside && !is_free(line) {
                faults.push(format!("{}:{}: {} characters", page.name, i + 1, line.chars().count()));
            }
        }
    }
    refuse(&faults);
}
