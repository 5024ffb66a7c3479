//! What this process can tell of the machine that it runs on, and of itself.

use std::{fs::File, sync::OnceLock};

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

/// Which build of `exp` this process runs: the first 16 digits of the blake3 of its program, empty where that cannot be
/// read. Hashed once. What runs counts, whatever stands under the program's name by now.
pub fn binary() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    BINARY.get_or_init(|| {
        let hash = || -> std::io::Result<_> {
            let program = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))?;
            Ok(blake3::Hasher::new().update_reader(program)?.finalize().to_hex())
        };
        hash().map_or_else(|_| String::new(), |hex| hex[..16].to_owned())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_build_is_named_by_what_its_program_holds() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(super::binary(), &blake3::hash(&program).to_hex()[..16]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_resident_and_has_a_processor() {
        assert!(super::resident_bytes() > 1 << 16);
        assert!(!super::cpu_model().is_empty());
    }
}
