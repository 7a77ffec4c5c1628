//! What a checkpoint remembers of the command that made it, and going on with that.
//!
//! Settings are kept as arguments, spelt as a user would. A run that goes on parses them first and its own
//! arguments after them, so everything that is not said again is as it was. A checkpoint may come from
//! anybody: what is not among the arguments that are written is refused, and none of those names anything
//! that is written to.
//!
//! So there is no second format of settings to keep in step: one list says what is noted and what is
//! accepted.

use super::{Args, rate};
use crate::Cli;
use crate::Command;
use crate::parse;
use anyhow::{Result, anyhow, bail, ensure};
use clap::{Parser, ValueEnum};
use dahl::op::default_cut;
use dahl::optim::{Adam, AdamW, LearningRate, Sgd};
use dahl::train::Checkpoint;
use dahl_runtime::graph::CutOptions;
use std::ffi::OsString;

/// The note under which a checkpoint keeps the arguments, one per line.
pub const ARGUMENTS: &str = "arguments";

/// What follows the name of an argument in a run of so many epochs, or nothing where it is not said.
type Value = fn(&Args, usize) -> Option<String>;

/// The arguments that a run consists of, whatever machine it is continued on: all that are written, and all
/// that are accepted.
const NOTED: [(&str, Value); 20] = [
    ("--data=", |args, _| Some(args.data.clone())),
    ("--batch=", |args, _| Some(args.batch.to_string())),
    ("--optimizer=", |args, _| Some(spelt(args.optimizer))),
    ("--lr=", |args, _| Some(args.learning_rate().base.to_string())),
    ("--lr-schedule=", |args, _| Some(rate::text(args.lr_schedule))),
    ("--warmup=", |args, _| Some(args.warmup.to_string())),
    ("--dtype=", |args, _| Some(spelt(args.dtype))),
    ("--seed=", |args, _| Some(args.seed.to_string())),
    // Where only steps were asked for, more of them may be asked for later.
    ("--epochs=", |args, n| (args.epochs.is_some() || args.steps.is_none()).then(|| n.to_string())),
    ("--limit=", |args, _| args.limit.map(|limit| limit.to_string())),
    ("--input=", |args, _| args.input.map(|[c, h, w]| format!("{c}x{h}x{w}"))),
    ("--steps=", |args, _| args.steps.map(|steps| steps.to_string())),
    ("--momentum=", |args, _| args.momentum.map(|momentum| momentum.to_string())),
    ("--weight-decay=", |args, _| args.weight_decay.map(|decay| decay.to_string())),
    ("--tiles=", |args, _| args.tiles.clone()),
    ("--group=", |args, _| args.group.map(|tiles| tiles.to_string())),
    ("--impl=", |args, _| args.implementations.clone()),
    ("--no-fusion", |args, _| args.no_fusion.then(String::new)),
    ("--checkpoint-every=", |args, _| args.checkpoint_every.map(|steps| steps.to_string())),
    ("--classes=", |args, _| args.classes.map(|classes| classes.to_string())),
];

/// The text that a checkpoint of this run notes. Fails where a value has lines of its own, which would be
/// read as arguments.
pub fn arguments(args: &Args, n_epochs: usize) -> Result<String> {
    let mut lines = Vec::new();
    for (name, value) in NOTED {
        let Some(value) = value(args, n_epochs) else { continue };
        ensure!(
            !value.contains('\n'),
            "checkpoints cannot note {name}{value:?}, which is more than one line: rename it, or train without --checkpoint"
        );
        lines.push(format!("{name}{value}"));
    }
    Ok(lines.join("\n"))
}

/// The arguments that a checkpoint notes; none if it has no such note.
fn noted(checkpoint: &Checkpoint) -> Result<Option<Vec<&str>>> {
    let Some(text) = checkpoint.settings.get(&format!("note.{ARGUMENTS}")) else { return Ok(None) };
    // Not `lines`, which would take more than a line break away.
    let lines: Vec<&str> = text.split('\n').collect();
    for line in &lines {
        let is_known = |(name, _): &(&str, Value)| match name.ends_with('=') {
            true => line.starts_with(name),
            false => line == name,
        };
        ensure!(
            NOTED.iter().any(is_known),
            "the checkpoint notes the argument {line:?}, which dahl train never notes: it was not written by this version of \
             dahl; do not go on from it unless you know where it comes from"
        );
    }
    Ok(Some(lines))
}

fn spelt(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

/// The arguments of this command with those of a checkpoint before them.
pub fn merged(checkpoint: &Checkpoint) -> Result<Args> {
    let own: Vec<OsString> = std::env::args_os().collect();
    // `dahl train`, what was said then, what is said now.
    let (command, own) = own.split_at(own.len().min(2));
    let kept = match noted(checkpoint)? {
        Some(kept) => kept.into_iter().map(String::from).collect(),
        None => implied(checkpoint, own)?,
    };
    let kept = still_valid(kept, own).map(OsString::from);
    let all = command.iter().cloned().chain(kept).chain(own.iter().cloned());
    // What is said now was understood before.
    let misunderstood = |error: clap::Error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow!("the arguments of the checkpoint are not understood: {}", first.trim_start_matches("error: "))
    };
    match Cli::try_parse_from(all).map_err(misunderstood)?.command {
        Command::Train(args) => Ok(*args),
        _ => bail!("only dahl train goes on from a checkpoint"),
    }
}

/// The arguments that come to the settings of a checkpoint that a program wrote, which notes none. What they
/// leave open is as everywhere; whatever is not as it was is refused when the run is taken up, with what it
/// was.
fn implied(checkpoint: &Checkpoint, own: &[OsString]) -> Result<Vec<String>> {
    let setting = |key: &str| checkpoint.settings.get(key).map_or("", String::as_str);
    let mut kept = Vec::new();
    // Built in, and found wherever it is.
    if setting("data").starts_with("digits with ") {
        kept.push("--data=digits".to_string());
    } else if !is_said(own, "--data") {
        bail!(
            "the checkpoint was written by a program that did not say where its data is ('{}'): add --data",
            setting("data")
        );
    }
    for key in ["batch", "seed", "dtype"] {
        kept.extend(checkpoint.settings.get(key).map(|value| format!("--{key}={value}")));
    }
    let optimizer = setting("optimizer");
    let sgd = optimizer.parse().map(|Sgd { momentum, weight_decay, .. }| ("sgd", momentum, weight_decay));
    let known = sgd
        .or_else(|_| optimizer.parse().map(|Adam(moments)| ("adam", 0.0, moments.weight_decay)))
        .or_else(|_| optimizer.parse().map(|AdamW(moments)| ("adamw", 0.0, moments.weight_decay)));
    if let Ok((name, momentum, weight_decay)) = known {
        kept.extend([format!("--optimizer={name}"), format!("--weight-decay={weight_decay}")]);
        kept.extend((momentum != 0.0).then(|| format!("--momentum={momentum}")));
    }
    if let Ok(LearningRate { base, warm_up, decay }) = setting("learning rate").parse() {
        kept.extend([format!("--lr={base}"), format!("--warmup={warm_up}")]);
        kept.push(format!("--lr-schedule={}", rate::text(decay)));
    }
    kept.extend(checkpoint.settings.get("steps in all").map(|steps| format!("--steps={steps}")));
    Ok(kept)
}

/// Whether an argument is among these words.
fn is_said(words: &[OsString], name: &str) -> bool {
    words.iter().any(|word| {
        let word = word.as_encoded_bytes();
        word.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
    })
}

/// The kept arguments without those that what is said now takes the place of. Epochs and steps both say when
/// a run ends, so whoever asks for more of the one does not mean to be held up by the other.
fn still_valid(kept: Vec<String>, own: &[OsString]) -> impl Iterator<Item = String> {
    let mut dropped = match (is_said(own, "--epochs"), is_said(own, "--steps")) {
        (true, false) => vec!["--steps="],
        (false, true) => vec!["--epochs="],
        _ => Vec::new(),
    };
    // A plan says by itself how tasks are cut.
    if is_said(own, "--plan") {
        dropped.extend(CUT);
    }
    kept.into_iter().filter(move |line| !dropped.iter().any(|name| line.starts_with(name)))
}

/// The arguments that say how tasks are cut.
const CUT: [&str; 3] = ["--tiles=", "--group=", "--impl="];

/// What a checkpoint says beside its model.
#[derive(Debug)]
pub struct Kept {
    /// How the tasks of the run were cut; as the heuristic does where that is not noted.
    pub cut: CutOptions,
    /// How many classes its data was said to have.
    pub classes: Option<usize>,
}

/// What the arguments of a checkpoint say to those who do not go on with it.
pub fn kept(checkpoint: &Checkpoint) -> Result<Kept> {
    let mut kept = Kept { cut: default_cut(), classes: None };
    for line in noted(checkpoint)?.unwrap_or_default() {
        let misunderstood =
            |why: String| anyhow!("the argument {line:?} of the checkpoint is not understood: {why}");
        match line.split_once('=') {
            Some(("--tiles", tiles)) => kept.cut.set_tiles(tiles)?,
            Some(("--impl", names)) => kept.cut.set_impls(&parse::impls(names).map_err(misunderstood)?)?,
            Some(("--group", tiles)) => {
                kept.cut.tiles_per_group = parse::at_least_one(tiles).map_err(misunderstood)?
            }
            Some(("--classes", n)) => kept.classes = Some(parse::classes(n).map_err(misunderstood)?),
            _ => {}
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split('\n').map(String::from).collect()
    }

    #[test]
    fn a_new_end_takes_the_place_of_the_old_one() {
        let kept = "--data=digits\n--epochs=2\n--steps=30";
        let left = |own: &[&str]| {
            let own: Vec<OsString> = own.iter().map(OsString::from).collect();
            still_valid(lines(kept), &own).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left(&[]), "--data=digits --epochs=2 --steps=30");
        assert_eq!(left(&["--steps", "9"]), "--data=digits --steps=30");
        assert_eq!(left(&["--epochs=9"]), "--data=digits --epochs=2");
        let cut = "--tiles=n=16\n--group=1\n--impl=lanes\n--seed=1";
        let own = ["--plan=x".into()];
        assert_eq!(still_valid(lines(cut), &own).collect::<Vec<_>>(), ["--seed=1"]);
        // Whoever says both means both, and other names are other arguments.
        assert_eq!(left(&["--epochs=9", "--steps=9"]), "--data=digits --epochs=2 --steps=30");
        assert_eq!(left(&["--stepsize", "--resume", "--epochs2"]), "--data=digits --epochs=2 --steps=30");
    }

    fn checkpoint(arguments: &str) -> Checkpoint {
        let settings = [(format!("note.{ARGUMENTS}"), arguments.to_string())];
        Checkpoint { settings: settings.into(), ..Checkpoint::default() }
    }

    #[test]
    fn only_what_is_written_is_accepted() {
        for line in
            ["--save-plan=x", "--data", "--no-fusion=x", "--datas=x", "x", "--data=x\n-h", "--data=x\r\n", ""]
        {
            let refused = line.split('\n').next_back().unwrap();
            let error = noted(&checkpoint(line)).unwrap_err().to_string();
            assert!(error.contains(&format!("the argument {refused:?}")), "{line:?}: {error}");
        }
        let kept = checkpoint("--data=a\r\n--no-fusion");
        assert_eq!(noted(&kept).unwrap().unwrap(), ["--data=a\r", "--no-fusion"]);
        assert_eq!(noted(&Checkpoint::default()).unwrap(), None);
    }

    #[test]
    fn everything_that_is_written_is_an_argument_and_none_is_a_path_to_write_to() {
        let said = "dahl train --data=x --limit=9 --input=1x2x3 --steps=4 --epochs=2 --momentum=0.5 --weight-decay=0.1 \
            --tiles=n=8 --group=2 --impl=lanes --no-fusion --checkpoint=run --checkpoint-every=3 --metrics=m --dump=d --classes=3 \
            --trace=t.json --report=r.html --save-plan=p";
        let train = |words: Vec<&str>| match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Train(args)) => args,
            Ok(_) => panic!("another command"),
            Err(error) => panic!("{error}"),
        };
        let args = train(said.split_whitespace().collect());
        let text = arguments(&args, 2).unwrap();
        // All of them are said, so all of them are written, and read again.
        let written = checkpoint(&text);
        let kept = noted(&written).unwrap().unwrap();
        assert_eq!(kept.len(), NOTED.len(), "{text}");
        let again = train(["dahl", "train", "--checkpoint=run"].into_iter().chain(kept).collect());
        assert_eq!(arguments(&again, 2).unwrap(), text);
        assert!(again.save_plan.is_none() && again.report.is_none() && again.trace.is_none());
        assert!(again.metrics.is_none() && again.dump.is_none());
    }

    #[test]
    fn the_settings_of_a_program_are_arguments_as_far_as_there_are_any() {
        let settings = |data: &str| {
            let rate = "0.003 after 5 steps of warm-up, by a cosine down to 0.0001";
            let settings = [
                ("data", data),
                ("batch", "50"),
                ("dtype", "f64"),
                ("optimizer", "sgd momentum 0.9 weight decay 0.01"),
                ("learning rate", rate),
                ("steps in all", "300"),
            ];
            let settings = settings.map(|(key, value)| (key.to_string(), value.to_string()));
            Checkpoint { settings: settings.into(), ..Checkpoint::default() }
        };
        let digits = settings("digits with 333 training images, 0123");
        let expected = "--data=digits --batch=50 --dtype=f64 --optimizer=sgd --weight-decay=0.01 --momentum=0.9 --lr=0.003 \
            --warmup=5 --lr-schedule=cosine:0.0001 --steps=300";
        assert_eq!(implied(&digits, &[]).unwrap().join(" "), expected);
        let elsewhere = settings("photos with 9 training images, 0123");
        let error = implied(&elsewhere, &[]).unwrap_err().to_string();
        assert!(error.contains("'photos with 9") && error.contains("add --data"), "{error}");
        assert!(implied(&elsewhere, &["--data=x".into()]).unwrap().contains(&"--batch=50".to_string()));
    }

    #[test]
    fn a_value_with_lines_of_its_own_is_not_noted() {
        let words = ["dahl", "train", "--data=a\n--save-plan=b"];
        let Ok(Command::Train(args)) = Cli::try_parse_from(words).map(|cli| cli.command) else { panic!() };
        let error = arguments(&args, 1).unwrap_err().to_string();
        assert!(error.contains(r#"--data="a\n--save-plan=b""#), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--group=0", "--group=many", "--impl=none", "--tiles=?", "--classes=0", "--classes=257"]
        {
            assert!(kept(&checkpoint(line)).is_err(), "{line}");
        }
        let kept = kept(&checkpoint("--group=7\n--classes=27")).unwrap();
        assert_eq!((kept.cut.tiles_per_group, kept.classes), (7, Some(27)));
    }
}
