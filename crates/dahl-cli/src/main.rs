//! The `dahl` command: the only place with argument parsing and printing.

mod diff;
mod trace;
mod train;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Trains neural networks as a graph of asynchronous tasks.
#[derive(Parser)]
#[command(name = "dahl", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a network and test it after every epoch
    Train(train::Args),
    /// Look at a saved trace, or convert it for other programs
    Trace(trace::Args),
    /// Compare the numbers of two files
    Diff(diff::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Train(args) => train::run(&args),
        Command::Trace(args) => trace::run(&args),
        // It has exit codes of its own.
        Command::Diff(args) => return diff::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as in `dahl train | head -1`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dahl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
