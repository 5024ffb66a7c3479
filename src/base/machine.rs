//! What this process can tell of the machine that it runs on.

/// The CPU's model name, as `/proc/cpuinfo` has it; elsewhere its architecture.
pub fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Resident memory of this process in bytes; 0 where it cannot be told.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_resident_and_has_a_processor() {
        assert!(super::resident_bytes() > 1 << 16);
        assert!(!super::cpu_model().is_empty());
    }
}
