//! One bar for work of a known length. Where standard error is no terminal, nothing is shown.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::{is_fancy, screen::style};
use crate::base::progress::Show;

/// A bar that is gone when it is dropped, and whether anything was shown yet.
pub struct Bar(ProgressBar, Cell<bool>);

impl Bar {
    /// A bar for what is being done.
    pub fn new(what: &str) -> Self {
        let target = if is_fancy() { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{prefix:.bold} [{bar:30}] {percent} %, {eta} left"));
        bar.set_prefix(what.to_owned());
        Self(bar, Cell::new(false))
    }
}

impl Show for Bar {
    fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
        if !self.1.replace(true) {
            self.0.reset_eta(); // what was done before it began says nothing of how long the rest takes
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
