//! What a checkpoint remembers of the command that made it, and going on with that.
//!
//! Settings are kept as arguments, spelt as a user would. A run that goes on parses them first and its own arguments after
//! them, so everything that is not said again is as it was.

use super::{Args, rate};
use crate::Cli;
use crate::Command;
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use dahl::train::Checkpoint;
use dahl_runtime::plan::CutOptions;
use std::ffi::OsString;

/// The note under which a checkpoint keeps the arguments, one per line.
pub const ARGUMENTS: &str = "arguments";

/// The arguments that a run consists of, whatever machine it is continued on.
pub fn arguments(args: &Args, n_epochs: usize) -> String {
    let rate = args.learning_rate();
    let mut lines = vec![
        format!("--data={}", args.data),
        format!("--batch={}", args.batch),
        format!("--optimizer={}", spelt(args.optimizer)),
        format!("--lr={}", rate.base),
        format!("--lr-schedule={}", rate::text(rate.decay)),
        format!("--warmup={}", rate.warm_up),
        format!("--dtype={}", spelt(args.dtype)),
        format!("--seed={}", args.seed),
    ];
    // Where only steps were asked for, more of them may be asked for later.
    let is_counted = args.epochs.is_some() || args.steps.is_none();
    lines.extend(is_counted.then(|| format!("--epochs={n_epochs}")));
    lines.extend(args.limit.map(|limit| format!("--limit={limit}")));
    lines.extend(args.input.map(|[c, h, w]| format!("--input={c}x{h}x{w}")));
    lines.extend(args.steps.map(|steps| format!("--steps={steps}")));
    lines.extend(args.momentum.map(|momentum| format!("--momentum={momentum}")));
    lines.extend(args.weight_decay.map(|decay| format!("--weight-decay={decay}")));
    lines.extend(args.tiles.as_ref().map(|tiles| format!("--tiles={tiles}")));
    lines.extend(args.group.map(|tiles| format!("--group={tiles}")));
    lines.extend(args.implementations.as_ref().map(|names| format!("--impl={names}")));
    lines.extend(args.no_fusion.then(|| "--no-fusion".to_string()));
    lines.extend(args.checkpoint_every.map(|steps| format!("--checkpoint-every={steps}")));
    lines.join("\n")
}

fn spelt(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

/// The arguments of this command with those of a checkpoint before them.
pub fn merged(checkpoint: &Checkpoint) -> Result<Args> {
    let own: Vec<OsString> = std::env::args_os().collect();
    let kept = checkpoint.settings.get(&format!("note.{ARGUMENTS}")).context(
        "the checkpoint does not say with which arguments it was made: it was not written by dahl train",
    )?;
    // `dahl train`, what was said then, what is said now.
    let (command, own) = own.split_at(own.len().min(2));
    let kept = still_valid(kept, own).map(OsString::from);
    let all = command.iter().cloned().chain(kept).chain(own.iter().cloned());
    match Cli::try_parse_from(all).context("the arguments of the checkpoint are not understood")?.command {
        Command::Train(args) => Ok(*args),
        _ => bail!("only dahl train goes on from a checkpoint"),
    }
}

/// The kept arguments without those that what is said now takes the place of. Epochs and steps both say when a run ends, so
/// whoever asks for more of the one does not mean to be held up by the other.
fn still_valid<'a>(kept: &'a str, own: &[OsString]) -> impl Iterator<Item = &'a str> {
    let is_said = |name: &str| {
        own.iter().any(|word| {
            let word = word.as_encoded_bytes();
            word.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
        })
    };
    let mut dropped = match (is_said("--epochs"), is_said("--steps")) {
        (true, false) => vec!["--steps="],
        (false, true) => vec!["--epochs="],
        _ => Vec::new(),
    };
    // A plan says by itself how tasks are cut.
    if is_said("--plan") {
        dropped.extend(CUT);
    }
    kept.lines().filter(move |line| !dropped.iter().any(|name| line.starts_with(name)))
}

/// The arguments that say how tasks are cut.
const CUT: [&str; 3] = ["--tiles=", "--group=", "--impl="];

/// How the tasks of a run were cut, by the arguments that its checkpoint keeps; as the heuristic does where they do not say.
pub fn cut(checkpoint: &Checkpoint) -> Result<CutOptions> {
    let kept = checkpoint.settings.get(&format!("note.{ARGUMENTS}")).map_or("", String::as_str);
    let mut cut = CutOptions::default();
    for line in kept.lines() {
        match line.split_once('=') {
            Some(("--tiles", tiles)) => cut.set_tiles(tiles)?,
            Some(("--impl", names)) => cut.set_impls(names)?,
            Some(("--group", tiles)) => cut.tiles_per_group = tiles.parse().unwrap_or(cut.tiles_per_group),
            _ => {}
        }
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_end_takes_the_place_of_the_old_one() {
        let kept = "--data=digits\n--epochs=2\n--steps=30";
        let left = |own: &[&str]| {
            let own: Vec<OsString> = own.iter().map(OsString::from).collect();
            still_valid(kept, &own).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left(&[]), "--data=digits --epochs=2 --steps=30");
        assert_eq!(left(&["--steps", "9"]), "--data=digits --steps=30");
        assert_eq!(left(&["--epochs=9"]), "--data=digits --epochs=2");
        let cut = "--tiles=n=16\n--group=1\n--impl=lanes\n--seed=1";
        let own = ["--plan=x".into()];
        assert_eq!(still_valid(cut, &own).collect::<Vec<_>>(), ["--seed=1"]);
        // Whoever says both means both, and other names are other arguments.
        assert_eq!(left(&["--epochs=9", "--steps=9"]), "--data=digits --epochs=2 --steps=30");
        assert_eq!(left(&["--stepsize", "--resume", "--epochs2"]), "--data=digits --epochs=2 --steps=30");
    }
}
