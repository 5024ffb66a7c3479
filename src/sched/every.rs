//! Something to do every so often.

use std::time::{Duration, Instant};

/// When it is to be done next.
pub struct Every {
    period: Duration,
    next: Instant,
}

impl Every {
    /// Due at once, then after every `period`.
    pub fn new(period: Duration) -> Self {
        Self { period, next: Instant::now() }
    }

    /// Whether it is due; then it is taken to be done now.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.period;
        }
        due
    }

    /// The time until it is due.
    pub fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}
