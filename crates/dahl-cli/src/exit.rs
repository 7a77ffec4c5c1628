//! What the exit codes of the command mean; `dahl --help` lists them.

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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            // What a shell reports for a program that Ctrl-C has ended.
            Exit::Interrupted => ExitCode::from(130),
        }
    }
}
