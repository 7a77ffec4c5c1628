//! `dahl completions`.

use crate::Cli;
use crate::exit::Exit;
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use std::io::{Write, stdout};

/// Which shell to write a completion script for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dahl completions bash > ~/.local/share/bash-completion/completions/dahl
  dahl completions zsh > ~/.zfunc/_dahl              with ~/.zfunc in fpath
  dahl completions fish > ~/.config/fish/completions/dahl.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> Result<Exit> {
    // By way of memory: the generator would panic where nobody reads on.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "dahl", &mut script);
    stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
