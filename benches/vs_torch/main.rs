//! exp's training step against PyTorch's.
mod worker;

/// One model and batch.
#[derive(Clone, Debug)]
pub struct Case {
    pub layers: usize,
    pub heads: usize,
    pub d_model: usize,
    pub context: usize,
    pub batch: usize,
    pub vocab: usize,
    pub dropout: f64,
}

/// The most memory that this process has had resident, in KiB.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let n = |i: usize| args[i].parse::<usize>().unwrap();
    let case = Case {
        layers: n(1),
        heads: n(2),
        d_model: n(3),
        context: n(4),
        batch: n(5),
        vocab: n(6),
        dropout: args[7].parse().unwrap(),
    };
    worker::run(&case, n(8));
}
