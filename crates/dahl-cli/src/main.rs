//! The `dahl` command: the only place with argument parsing and printing.
//!
//! A file or folder per command, each with its `Args` (what `--help` says, examples included) and its `run`.
//!
//! - A value that makes no sense is refused as it is parsed (exit code 2). Everything that cannot be read or
//!   written is looked at before training begins (1).
//! - Names are not trusted: what is read is a regular file of a size that was looked at, up to the limit of
//!   its format (`dahl_runtime::file::Input`), so neither a pipe nor a device can keep a command waiting or
//!   fill its memory. Checksums are not trusted either: the position of a checkpoint is compared with the run
//!   that takes it up, its tensors with its model, and its plan with the graph.
//! - What a file or an argument sizes is allocated in a way that can fail, with an error that says what it
//!   was for.
//! - Speed, memory and bits of a run do not depend on whether anybody watches: the bar is drawn ten times a
//!   second from what a step tells anyway.

mod bench;
mod completions;
mod data;
mod diff;
mod eval;
mod exit;
mod machine;
mod measurements;
mod model;
mod open;
mod output;
mod parse;
mod predict;
mod shortage;
mod signal;
mod stats;
mod trace;
mod train;
mod tune;
mod trained;

use clap::{Parser, Subcommand};
use dahl::op::simd::Isa;
use exit::{Exit, FAILED, MISUSED, Misuse};
use std::process::ExitCode;
use std::time::Instant;

/// Trains neural networks as a graph of asynchronous tasks.
#[derive(Parser)]
#[command(name = "dahl", version, arg_required_else_help = true, after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Compute by the instructions of this set; the result does not depend on it
    // For tests, which see that it does not.
    #[arg(long, value_name = "SET", value_parser = parse::isa, global = true, hide = true)]
    isa: Option<Isa>,
}

/// What ends `dahl --help`.
const HELP: &str = "\
Examples:
  dahl train                       a small network on the digits that dahl brings along
  dahl train --checkpoint run/     the same, saved after each epoch and on Ctrl-C
  dahl predict run/ 0              what it makes of the first test image
  dahl train --help                all settings, with examples

Files are read and written by their names; - stands for none of them.

Exit codes:
  0    done
  1    failed; a sentence on standard error says what, where and what to do
  2    arguments that make no sense
  130  training was interrupted by Ctrl-C, or by SIGTERM, SIGHUP or SIGUSR1, as batch systems send them
  diff: 1 numbers differ, 2 a file cannot be read";

#[derive(Subcommand)]
enum Command {
    /// Train a network and test it after every epoch
    Train(Box<train::Args>),
    /// Test a trained network
    Eval(eval::Args),
    /// Tell the class of an image by a trained network
    Predict(predict::Args),
    /// List networks, or describe one: layers, shapes, parameters, flops, memory
    Model(model::Args),
    /// List data sets, or check one
    Data(data::Args),
    /// Look at a saved trace, or convert it for other programs
    Trace(trace::Args),
    /// What each codelet cost in a saved trace, why it varied, and what changed since another
    Stats(stats::Args),
    /// Compare the numbers of two files
    Diff(diff::Args),
    /// Measure how a network is best cut into tasks here, and do it so from now on
    Calibrate(tune::calibrate::Args),
    /// Measure steps cut in every way: size of tasks, batch, workers
    Sweep(tune::sweep::Args),
    /// Measure how fast networks are trained here, beside the machine's limits and PyTorch
    Bench(Box<bench::Args>),
    /// What this machine has: units, caches, memory, instructions, counters of energy
    Machine(machine::Args),
    /// Write a completion script for a shell
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let begun = Instant::now();
    shortage::watch();
    signal::take_limits_as_errors();
    // Parsing takes memory too, and this command has exit codes of its own.
    if std::env::args_os().nth(1).is_some_and(|command| command == "diff") {
        shortage::exit_with(diff::UNREAD);
    }
    let Cli { command, isa } = Cli::parse();
    if let Some(isa) = isa {
        isa.use_everywhere().expect("nothing has been computed yet");
    }
    let result = match command {
        Command::Train(args) => train::run(*args, begun),
        Command::Eval(args) => eval::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Diff(args) => return diff::run(&args),
        Command::Calibrate(args) => tune::calibrate::run(&args),
        Command::Sweep(args) => tune::sweep::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Machine(args) => machine::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        // Whoever read our output has seen enough, as in `dahl train | head -1`.
        Err(error) if is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            output::warn(format_args!("{error:#}"));
            if error.is::<Misuse>() { MISUSED.into() } else { FAILED.into() }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{CommandFactory, Parser};
    use std::any::TypeId;
    use std::path::PathBuf;

    #[test]
    fn arguments_are_declared_without_contradiction() {
        Cli::command().debug_assert();
    }

    /// Calls every argument below a command that names a file or a folder by a dash, and says how many there
    /// are.
    fn with_dash(command: &clap::Command, before: &[&str]) -> usize {
        let is_named = |argument: &&clap::Arg| {
            argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
                || argument.get_id() == "data"
                || argument.get_id() == "image"
        };
        // Not a file but a program.
        let arguments = command.get_arguments().filter(|argument| argument.get_id() != "python");
        let mut n = 0;
        for argument in arguments.filter(is_named) {
            let place = command.get_positionals().position(|other| other.get_id() == argument.get_id());
            let words = match argument.get_long() {
                Some(name) => vec![format!("--{name}=-")],
                None => [vec!["x".to_string(); place.unwrap_or(0)], vec!["-".to_string()]].concat(),
            };
            let words: Vec<&str> = before.iter().copied().chain(words.iter().map(String::as_str)).collect();
            let error = Cli::try_parse_from(&words).err().expect("a dash is refused").to_string();
            assert!(error.contains("stands for no file"), "{words:?}: {error}");
            n += 1;
        }
        for command in command.get_subcommands() {
            n += with_dash(command, &[before, &[command.get_name()]].concat());
        }
        n
    }

    #[test]
    fn no_file_is_called_by_a_dash() {
        let n = with_dash(&Cli::command(), &["dahl"]);
        assert!(n > 20, "{n} arguments name files");
    }

    #[test]
    fn the_help_begins_with_what_it_is_about() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.starts_with("Trains neural networks"), "{help}");
    }

    #[test]
    fn the_help_of_every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_default();
            let example = format!("  dahl {}", command.get_name());
            assert!(examples.contains(&example), "{}: {help}", command.get_name());
        }
    }
}
