//! The live progress bar: on a terminal only, and on standard error, so that output can be redirected.

use super::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A bar over the epochs.
pub fn bar(args: &Args, epochs: usize) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:32} epoch {pos}/{len}  {elapsed} (about {eta} left)");
    let bar = ProgressBar::new(epochs as u64);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
