//! How much of the machine other processes use.

use std::{fs, time::Instant};

/// The processor time used so far by everybody and by the processes being measured.
pub struct Load {
    pids: Vec<u32>,
    begun: Instant,
    everybody: f64,
    ours: f64,
}

impl Load {
    /// Begins to watch.
    pub fn begin(pids: Vec<u32>) -> Self {
        let (everybody, ours) = (seconds_of_all(), seconds_of(&pids));
        Self { pids, begun: Instant::now(), everybody, ours }
    }

    /// Cores that others used since, on average.
    pub fn cores_of_others(self) -> f64 {
        let used = seconds_of_all() - self.everybody - (seconds_of(&self.pids) - self.ours);
        used / self.begun.elapsed().as_secs_f64()
    }
}

/// Linux counts in hundredths of a second.
const TICK: f64 = 0.01;

/// Time in which any core was not idle.
fn seconds_of_all() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> =
        stat.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let idle_and_waiting = fields.get(3..5).map_or(0.0, |f| f.iter().sum());
    (fields.iter().take(8).sum::<f64>() - idle_and_waiting) * TICK
}

/// Time that some processes and this one have used.
fn seconds_of(pids: &[u32]) -> f64 {
    pids.iter().map(|pid| pid.to_string()).chain(["self".to_owned()]).map(|pid| seconds_of_one(&pid)).sum()
}

fn seconds_of_one(pid: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in parentheses, user and system time are the 12th and 13th field, and those of children that have
    // ended the two behind them.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(4).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() * TICK
}
