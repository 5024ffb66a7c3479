//! What this process can tell of the machine that it runs on, of itself, and of other processes there: a process id alone
//! names nobody for long, since the system gives it to another process in time.

use std::{fs::File, sync::OnceLock};

use serde::{Deserialize, Serialize};

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

/// The most memory of this process that was resident at once, in bytes; `None` where it cannot be told. What it has of
/// files now is left out: those pages are shared, and forgotten where they are in the way.
pub fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        value?.parse::<u64>().ok()
    };
    Some((kilobytes("VmHWM:")?.saturating_sub(kilobytes("RssFile:").unwrap_or(0))) * 1024)
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

/// The name of this machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether this process was told from its start to ignore a signal, as `nohup` does with SIGHUP.
pub fn ignores(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// A process, told apart from all others that ever had or will have its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The name of its machine.
    pub host: String,
    /// The kernel's random name for the time since that machine was started; empty where there is none.
    pub boot: String,
    /// Its process id there.
    pub pid: u32,
    /// When it was started, in the kernel's ticks since the machine was; 0 where that cannot be told.
    pub started: u64,
}

/// Whether a process is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Alive,
    /// It ended, whoever has its number now.
    Gone,
    /// It belongs to another machine, or to this one before it was started anew: nothing can be told from here.
    Elsewhere,
}

impl Identity {
    /// This process.
    pub fn me() -> Self {
        let pid = std::process::id();
        Self { host: host(), boot: boot(), pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether the process belongs to this machine, as it runs now.
    pub fn is_here(&self) -> bool {
        self.host == host() && self.boot == boot()
    }

    /// Whether the process is still there.
    pub fn stands(&self) -> Standing {
        match self.is_here() {
            false => Standing::Elsewhere,
            true if self.started != 0 && started(self.pid) == Some(self.started) => Standing::Alive,
            true => Standing::Gone,
        }
    }

    /// Sends a signal to the process, and to all of the group that it leads. `false`, and nothing is sent, where it is
    /// gone or on another machine, or where the system cannot tell it from another process.
    pub fn signal_group(&self, signal: rustix::process::Signal) -> bool {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{PidfdFlags, getpgid, kill_process_group, pidfd_open, pidfd_send_signal};
            let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
            // Opened before anything is compared: what it stands for then can no longer change.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
            if self.stands() != Standing::Alive {
                return false;
            }
            let leads = getpgid(Some(pid)) == Ok(pid);
            // As long as one of its group is left, the system gives the group's number to nobody else. Where none is, all
            // of them have ended.
            let sent = pidfd_send_signal(&process, signal).is_ok();
            if sent && leads {
                let _ = kill_process_group(pid, signal);
            }
            sent
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = signal;
            false
        }
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// When a process was started; `None` where it has ended, waited for by its parent or not.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses is the process's own choice, and may hold spaces and parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(), // the state is field 3, this is field 22
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{os::unix::process::CommandExt, process::Command};

    use rustix::process::Signal;

    use super::*;

    #[test]
    fn a_build_is_named_by_what_its_program_holds() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(binary(), &blake3::hash(&program).to_hex()[..16]);
    }

    #[test]
    fn a_process_is_resident_and_has_a_processor() {
        assert!(resident_bytes() > 1 << 16);
        assert!(peak_resident_bytes().unwrap() >= resident_bytes() / 2, "they are not counted at the same time");
        assert!(!cpu_model().is_empty());
    }

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(std::process::Stdio::null());
        command
    }

    fn identity(pid: u32) -> Identity {
        Identity { pid, started: started(pid).unwrap(), ..Identity::me() }
    }

    #[test]
    fn this_process_stands_and_one_that_ended_does_not() {
        let me = Identity::me();
        assert!(me.started > 0 && !me.boot.is_empty() && !me.host.is_empty(), "{me:?}");
        assert_eq!(me.stands(), Standing::Alive);
        let mut child = sleep().spawn().unwrap();
        let sleeper = identity(child.id());
        assert_eq!(sleeper.stands(), Standing::Alive);
        child.kill().unwrap();
        while sleeper.stands() == Standing::Alive {
            std::thread::yield_now();
        }
        assert_eq!(sleeper.stands(), Standing::Gone, "not waited for yet");
        child.wait().unwrap();
        assert!(sleeper.stands() == Standing::Gone && !sleeper.signal_group(Signal::KILL));
    }

    #[test]
    fn a_number_that_is_another_processs_by_now_is_never_signalled() {
        let mut child = sleep().process_group(0).spawn().unwrap();
        let sleeper = identity(child.id());
        let other = |change: fn(&mut Identity)| {
            let mut other = sleeper.clone();
            change(&mut other);
            other
        };
        let others = [
            (other(|i| i.host = "elsewhere".into()), Standing::Elsewhere),
            (other(|i| i.boot = "another".into()), Standing::Elsewhere),
            (other(|i| i.started += 1), Standing::Gone),
            (other(|i| i.started = 0), Standing::Gone),
        ];
        for (other, standing) in others {
            assert_eq!(other.stands(), standing);
            assert!(!other.signal_group(Signal::KILL), "{other:?}");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "it was signalled");
        assert!(sleeper.signal_group(Signal::KILL));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn who_leads_no_group_is_signalled_alone() {
        // It is in the group of this very process.
        let mut child = sleep().spawn().unwrap();
        assert!(identity(child.id()).signal_group(Signal::TERM));
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_parentheses_is_read_past() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a) S (b");
        std::fs::copy("/bin/sleep", &odd).unwrap();
        let mut child = Command::new(&odd).arg("600").spawn().unwrap();
        let plain = Identity::me().started;
        let found = started(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found >= plain && found < plain + 1_000_000, "{found} {plain}");
    }
}
