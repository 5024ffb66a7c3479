//! One bar for work of a known length. Where standard error is no terminal, nothing is shown.

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::{is_fancy, screen::style};

/// A bar that is gone when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for what is being done.
    pub fn new(what: impl Into<String>) -> Self {
        let target = if is_fancy() { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{prefix:.bold} [{bar:30}] {percent} %, {eta} left"));
        bar.set_prefix(what.into());
        Self(bar)
    }

    /// Shows how much of it is done.
    pub fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
