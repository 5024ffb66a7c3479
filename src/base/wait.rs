//! Waiting for a lock that others hold for a while: those who make something once for all. What is waited for is said
//! after a second. Whoever waits can be asked to stop, and does not wait for ever: a holder may have been stopped, or hang.
//!
//! A holder shows that it gets on by [touching](Lock::touch) its lock. As with [leases](super::lease) no two clocks are
//! compared, and a waiter that was itself stopped has not waited meanwhile.

use std::{
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use super::{Error, Exit, Result, clock, files, lock::Lock, machine::Identity};

/// After which it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// How often the lock is tried. The first tries follow each other faster.
const LOOK: Duration = Duration::from_millis(100);

/// What to wait for.
pub struct Wait<'a> {
    /// What the holder does: `tokenizes the corpus playbook`.
    pub what: &'a str,
    /// How long a holder is waited for that does not touch its lock.
    pub patience: Duration,
    /// Whether somebody has asked that this be given up.
    pub is_asked: &'a dyn Fn() -> bool,
}

impl Wait<'_> {
    /// Takes the lock at `path`, and notes in it who does; `None` once its holder has shown for so long no sign of life.
    ///
    /// # Errors
    ///
    /// [`Exit::Interrupted`] where somebody asks to stop meanwhile, [`Exit::Store`] where the lock cannot be tried.
    pub fn take(&self, path: &Path) -> Result<Option<Lock>> {
        let begun = Instant::now();
        let (mut pause, mut was_said) = (Duration::from_millis(1), false);
        let (mut seen, mut at, mut still) = (clock::modified(path), begun, Duration::ZERO);
        loop {
            if let Some(lock) = Lock::try_take(path)? {
                let me = serde_json::to_string(&Identity::me()).unwrap_or_default();
                let _ = lock.note(&(me + "\n")); // where that cannot be written the lock has no name, and holds
                return Ok(Some(lock));
            }
            let (now, touched) = (Instant::now(), clock::modified(path));
            still = if touched == seen { still + (now - at).min(LOOK * 5) } else { Duration::ZERO };
            (seen, at) = (touched, now);
            if still >= self.patience {
                return Ok(None);
            }
            if (self.is_asked)() {
                return Err(Error::new(
                    Exit::Interrupted,
                    format!("waiting for {}", self.holder(path)),
                    "asked to stop",
                ));
            }
            if begun.elapsed() >= SILENCE && !was_said {
                was_said = true;
                say(&format!("waiting for {}", self.holder(path)));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }

    /// `process 17 on vega, which tokenizes the corpus playbook (runs/cache/tokens/3f2a.lock)`.
    pub fn holder(&self, path: &Path) -> String {
        let who = match files::read_json::<Identity>(path) {
            Ok(Identity { pid, host, .. }) if pid != 0 => format!("process {pid} on {host}"),
            _ => "another process".into(),
        };
        format!("{who}, which {} ({})", self.what, path.display())
    }
}

static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// Who hears what is waited for, and what else to [`say`]: a layer that knows this process's screen says so, once. Until
/// then nobody does.
pub fn say_with(say: fn(&str)) {
    let _ = SAY.set(say);
}

/// Says what a person should know before the work goes on.
pub fn say(line: &str) {
    SAY.get().inspect(|say| say(line));
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, atomic::AtomicBool, atomic::Ordering::SeqCst};

    use super::*;

    fn wait(patience: f64, is_asked: &dyn Fn() -> bool) -> Wait<'_> {
        Wait { what: "counts the stars", patience: Duration::from_secs_f64(patience), is_asked }
    }

    #[test]
    fn who_waits_gets_the_lock_when_its_holder_lets_go_however_long_that_takes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = wait(9.0, &|| false).take(&path).unwrap().unwrap();
        let has_it = AtomicBool::new(false);
        thread::scope(|s| {
            let waiting = s.spawn(|| {
                let lock = wait(2.0, &|| false).take(&path).unwrap();
                has_it.store(true, SeqCst);
                lock
            });
            for _ in 0..60 {
                lock.touch().unwrap();
                thread::sleep(Duration::from_millis(50));
                assert!(!has_it.load(SeqCst) && !waiting.is_finished(), "its holder gets on");
            }
            drop(lock);
            assert!(waiting.join().unwrap().is_some());
        });
    }

    #[test]
    fn a_holder_that_does_not_stir_is_named_and_not_waited_for_for_ever() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        say_with(|line| SAID.lock().unwrap().push(line.to_owned()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = wait(9.0, &|| false).take(&path).unwrap().unwrap();
        assert!(wait(1.5, &|| false).take(&path).unwrap().is_none());
        let me = Identity::me();
        let line =
            format!("waiting for process {} on {}, which counts the stars ({})", me.pid, me.host, path.display());
        assert_eq!(SAID.lock().unwrap().iter().filter(|said| **said == line).count(), 1);
        held.note("").unwrap();
        assert!(wait(1.0, &|| false).holder(&path).starts_with("another process, which"));
    }

    #[test]
    fn who_waits_can_be_asked_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = Lock::try_take(&path).unwrap().unwrap();
        let error = wait(600.0, &|| true).take(&path).unwrap_err();
        assert_eq!((error.exit, error.why.as_str()), (Exit::Interrupted, "asked to stop"));
    }
}
