//! What the exit codes of the command mean; `dahl --help` lists them.

use std::fmt;
use std::process::ExitCode;

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked to do.
    Done,
    /// It was interrupted, and ended in good order.
    Interrupted,
}

/// The command failed; a sentence on standard error says why.
pub const FAILED: u8 = 1;

/// The arguments make no sense.
pub const MISUSED: u8 = 2;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            // What a shell reports for a program that Ctrl-C has ended.
            Exit::Interrupted => ExitCode::from(130),
        }
    }
}

/// Arguments make no sense together: an error that ends the command with [`MISUSED`], like clap's own.
#[derive(Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}
