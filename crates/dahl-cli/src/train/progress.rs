//! The live progress bar: on a terminal only, and on standard error, so that output can be redirected.

use crate::output::thousands;
use console::Term;
use dahl::train::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
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
        bar.set_style(style(0));
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
        let parts = [
            format!("step {done}/{n_steps}"),
            format!("loss {:.4}", progress.loss),
            format!("{:#} left", HumanDuration(self.bar.eta())),
            format!("epoch {}", progress.epoch),
            format!("{rate} images/s"),
        ];
        // Asked for again each time: windows change.
        let (_, width) = Term::stderr().size();
        let (bar_width, message) = fit(usize::from(width), &parts);
        self.bar.set_style(style(bar_width));
        self.bar.set_message(message);
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

/// A bar of so many columns before the message.
fn style(width: usize) -> ProgressStyle {
    let template = if width == 0 { "{msg}".to_string() } else { format!("{{bar:{width}}} {{msg}}") };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Columns of a bar: no more are needed, and fewer say nothing.
const MOST: usize = 32;
const LEAST: usize = 8;

/// What of a line has room in so many columns of a terminal: the parts from the first on that fit beside a
/// small bar, and the bar in what they leave. The last column stays free, or some terminals would begin
/// another line.
fn fit(columns: usize, parts: &[String]) -> (usize, String) {
    let room = columns.saturating_sub(1);
    let mut message = String::new();
    for part in parts {
        let gap = if message.is_empty() { "" } else { "  " };
        if LEAST + 1 + message.chars().count() + gap.len() + part.chars().count() > room {
            break;
        }
        message.push_str(gap);
        message.push_str(part);
    }
    let left = room.saturating_sub(message.chars().count() + 1);
    (left.min(MOST), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_any_terminal() {
        let parts = ["step 12/14070", "loss 0.1234", "13m left", "epoch 1", "1,512,345 images/s"];
        let parts = parts.map(String::from);
        for columns in 0..200 {
            let (bar, message) = fit(columns, &parts);
            assert!(bar + 1 + message.len() < columns.max(2), "{columns}: {bar} {message}");
        }
        let all = parts.join("  ");
        assert_eq!(fit(200, &parts), (MOST, all.clone()));
        assert_eq!(fit(80, &parts), (13, all));
        assert_eq!(fit(60, &parts), (13, parts[..4].join("  ")));
        assert_eq!(fit(24, &parts), (9, parts[0].clone()));
        assert_eq!(fit(20, &parts), (18, String::new()));
    }
}
