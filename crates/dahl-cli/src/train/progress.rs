//! The live progress bar: on a terminal only, and on standard error, so that output can be redirected.

use crate::output::thousands;
use dahl::train::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// A bar over all steps of a run.
pub struct Bar {
    bar: ProgressBar,
    is_hidden: bool,
    /// When it was last drawn, and the images since then.
    drawn: Instant,
    images: usize,
}

/// Steps are far shorter than what eyes can follow.
const PAUSE: Duration = Duration::from_millis(100);

impl Bar {
    /// A bar that nobody sees where `is_quiet` or where standard error is no terminal.
    pub fn new(is_quiet: bool) -> Bar {
        let is_hidden = is_quiet || !io::stderr().is_terminal();
        let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style =
            ProgressStyle::with_template("{bar:32} step {pos}/{len}  {msg}  {elapsed}, about {eta} left");
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        Bar { bar, is_hidden, drawn: Instant::now(), images: 0 }
    }

    /// A step is over, of a run with this many in all.
    pub fn step(&mut self, progress: &Progress, n_steps: u64) {
        if self.is_hidden {
            return;
        }
        self.images += progress.n_images;
        let since = self.drawn.elapsed();
        if since < PAUSE {
            return;
        }
        let done = (progress.epoch as u64 - 1) * progress.n_steps as u64 + progress.step as u64;
        let rate = thousands((self.images as f64 / since.as_secs_f64()) as u64);
        self.bar.set_length(n_steps);
        self.bar.set_position(done);
        self.bar.set_message(format!("epoch {}  loss {:.4}  {rate} images/s", progress.epoch, progress.loss));
        (self.drawn, self.images) = (Instant::now(), 0);
    }

    /// Prints something above the bar.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
