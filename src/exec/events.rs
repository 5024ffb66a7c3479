//! An attempt's `events.jsonl`: its writer in the worker, and how to read off how the attempt ended.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{RwLock, RwLockWriteGuard, TryLockError},
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use crate::{
    base::{Context, Exit, Result, clock, files, lease::Fence},
    event::{Event, Outcome, SEAL, Sink},
};

/// Room that is kept for the last line of an attempt, in bytes: why it failed, and a hint.
const LAST_WORDS: u64 = 8 << 10;

/// Room that is set aside at a time beyond what is needed, so that this is not asked for with each line.
const AHEAD: u64 = 16 << 10;

/// How long a full disk is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Appends events to a file, each as one line in one write, and shows each to a mirror; none once the run is another
/// worker's.
pub struct EventLog<'a> {
    file: File,
    path: PathBuf,
    fence: Fence,
    /// A write failed, so that the file may end in half a line.
    torn: bool,
    /// What stands in the file, in bytes, and how far the disk has room set aside for it.
    length: u64,
    reserved: u64,
    /// Of what stands in the file; `None` once that is not known.
    hasher: Option<blake3::Hasher>,
    mirror: &'a mut dyn FnMut(&Event),
}

impl<'a> EventLog<'a> {
    /// Makes the file, which must not exist, durable in its folder.
    pub fn create(path: PathBuf, fence: Fence, mirror: &'a mut dyn FnMut(&Event)) -> Result<Self> {
        fence.check()?;
        let create = || {
            let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
            path.parent().map_or(Ok(()), files::sync_folder)?;
            Ok::<_, std::io::Error>(file)
        };
        let file = create().doing(Exit::Store, || format!("making {}", path.display()))?;
        Ok(Self { file, path, fence, torn: false, length: 0, reserved: 0, hasher: Some(blake3::Hasher::new()), mirror })
    }

    /// Sees to it that after a line of `bytes` there is still room for the last one, so that an attempt that ends at a
    /// full disk can say so. Waits a little where there is none, since whoever fills a disk often frees some again.
    fn reserve(&mut self, bytes: u64) -> std::io::Result<()> {
        let begin = Instant::now();
        while self.length + bytes + LAST_WORDS > self.reserved {
            let ahead = self.length + bytes + LAST_WORDS + AHEAD;
            match set_aside(&self.file, ahead) {
                Ok(()) => self.reserved = ahead,
                Err(Errno::INTR) => {}
                Err(full @ (Errno::NOSPC | Errno::DQUOT)) if begin.elapsed() >= PATIENCE => return Err(full.into()),
                Err(Errno::NOSPC | Errno::DQUOT) => thread::sleep(Duration::from_millis(100)),
                Err(_) => self.reserved = u64::MAX, // this file system sets nothing aside
            }
        }
        Ok(())
    }

    /// An event as a line without its end; the last one seals what stands before it.
    fn line(&self, event: &Event) -> serde_json::Result<Vec<u8>> {
        let seal = self.hasher.as_ref().filter(|_| matches!(event, Event::Finished { .. }));
        let Some(hasher) = seal else { return serde_json::to_vec(event) };
        let mut event = serde_json::to_value(event)?;
        event[SEAL] = hasher.finalize().to_hex().as_str().into();
        serde_json::to_vec(&event)
    }

    fn write(&mut self, line: &[u8], event: &Event, sync: bool) -> std::io::Result<()> {
        let is_last = matches!(event, Event::Finished { .. });
        if !is_last {
            self.reserve(line.len() as u64)?;
        }
        let mut hasher = self.hasher.take(); // what a write that fails leaves is not known
        self.file.write_all(line)?;
        self.length += line.len() as u64;
        if let Some(hasher) = &mut hasher {
            hasher.update(line);
        }
        self.hasher = hasher;
        if is_last {
            // Gives back what was set aside and not used; what is kept too much is in nobody's way.
            let _ = self.file.metadata().and_then(|file| self.file.set_len(file.len()));
        }
        if sync { self.file.sync_data() } else { Ok(()) }
    }
}

/// Sees to it that a file can grow to so many bytes, and leaves it as long as it is.
#[cfg(target_os = "linux")]
fn set_aside(file: &File, bytes: u64) -> Result<(), Errno> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes)
}

#[cfg(not(target_os = "linux"))]
fn set_aside(_: &File, _: u64) -> Result<(), Errno> {
    Err(Errno::NOTSUP)
}

impl Sink for EventLog<'_> {
    /// The mirror sees the event even where the file could not take it. After that a line is begun anew, lest what
    /// is said next become part of a half line.
    fn emit(&mut self, event: &Event, sync: bool) -> Result<()> {
        let _may_write = WRITING.read();
        self.fence.check()?;
        let mut line = self.line(event).doing(Exit::Unexpected, || "writing an event".into())?;
        line.push(b'\n');
        if self.torn {
            line.insert(0, b'\n');
        }
        let written = self.write(&line, event, sync);
        self.torn = written.is_err();
        let written = written.doing(Exit::Store, || format!("writing {}", self.path.display()));
        (self.mirror)(event);
        written
    }
}

/// How the attempt ended, where its events say so. A line without its end is not there yet, here as in the index.
pub fn outcome(path: &Path) -> Option<Outcome> {
    end(path).map(|(outcome, _)| outcome)
}

/// How the attempt ended, and the most memory that it had.
pub fn end(path: &Path) -> Option<(Outcome, Option<u64>)> {
    let tail = tail(path)?;
    let whole = &tail[..tail.rfind('\n')?];
    match serde_json::from_str(last(whole, |line| !line.is_empty())?) {
        Ok(Event::Finished { outcome, peak_bytes, .. }) => Some((outcome, peak_bytes)),
        _ => None,
    }
}

/// Shared by all threads of this process that write an event.
static WRITING: RwLock<()> = RwLock::new(());

/// No thread of this process writes an event any more, so that its [last words](last_words) are the last: for a thread that
/// is about to end it. Waits for one that is at it, but not for long: it may be this very thread.
pub fn silence() -> Option<RwLockWriteGuard<'static, ()>> {
    for _ in 0..100 {
        match WRITING.try_write() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Poisoned(alone)) => return Some(alone.into_inner()),
            Ok(alone) => return Some(alone),
        }
    }
    None
}

/// Appends how an attempt ended to its events, for a process that is about to end and has no [`EventLog`] at hand; on a
/// line of its own, whatever another thread was writing. Changes nothing where there are no events yet, or where they tell
/// of an end already.
pub fn last_words(path: &Path, said: Outcome) -> std::io::Result<()> {
    if outcome(path).is_some() {
        return Ok(());
    }
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let mut line = serde_json::to_vec(&Event::Finished { at: clock::now(), outcome: said, peak_bytes: None })?;
    line.push(b'\n');
    if tail(path).is_some_and(|tail| !tail.is_empty() && !tail.ends_with('\n')) {
        line.insert(0, b'\n');
    }
    file.write_all(&line)?;
    file.sync_data()
}

/// The last line of a text file that is not blank; of a line beyond 64 KiB, its end.
pub fn last_line(path: &Path) -> Option<String> {
    last_line_that(path, |line| !line.is_empty())
}

/// The last line of a text file's last 64 KiB that is like that, trimmed.
pub fn last_line_that(path: &Path, is_it: impl Fn(&str) -> bool) -> Option<String> {
    Some(last(&tail(path)?, is_it)?.to_owned())
}

fn last(text: &str, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| is_it(line))
}

/// The last 64 KiB of a text file.
fn tail(path: &Path) -> Option<String> {
    const TAIL: u64 = 1 << 16;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    Some(String::from_utf8_lossy(&tail).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(outcome: Outcome) -> Event {
        Event::Finished { at: 1, outcome, peak_bytes: None }
    }

    #[test]
    fn the_outcome_is_the_last_line_or_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(outcome(&path), None);
        let mut seen = 0;
        let mut mirror = |_: &Event| seen += 1;
        let mut log = EventLog::create(path.clone(), Fence::default(), &mut mirror).unwrap();
        log.emit(&Event::Warning { at: 1, message: "x".repeat(100_000) }, false).unwrap();
        assert_eq!(outcome(&path), None);
        log.emit(&finished(Outcome::Interrupted { step: 3 }), true).unwrap();
        assert_eq!(outcome(&path), Some(Outcome::Interrupted { step: 3 }));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert_eq!(seen, 2);
    }

    #[test]
    fn what_follows_a_failed_write_stands_on_its_own_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut mirror = |_: &Event| ();
        let mut log = EventLog::create(path.clone(), Fence::default(), &mut mirror).unwrap();
        let half = std::mem::replace(&mut log.file, File::options().write(true).open("/dev/full").unwrap());
        assert!(log.emit(&Event::Warning { at: 1, message: "x".into() }, false).is_err());
        log.file = half;
        std::fs::write(&path, "{\"event\":\"ste").unwrap();
        let failed = Outcome::Failed { why: "no space left".into(), retry: false };
        log.emit(&finished(failed.clone()), true).unwrap();
        log.emit(&Event::Warning { at: 1, message: "x".into() }, false).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "{\"event\":\"ste"), "and no line more is begun anew");
        assert!(matches!(serde_json::from_str(lines[1]), Ok(Event::Finished { outcome, .. }) if outcome == failed));
    }

    #[test]
    fn a_last_line_without_its_end_is_no_outcome() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let done = serde_json::to_string(&finished(Outcome::Done)).unwrap();
        let step = "{\"event\":\"warning\",\"at\":1,\"message\":\"x\"}";
        for (text, want) in [
            (done.clone(), None),
            (format!("{step}\n{done}"), None),
            (format!("{step}\n{done}\n"), Some(Outcome::Done)),
            (format!("{step}\n{done}\n{{\"ev"), Some(Outcome::Done)),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(outcome(&path), want, "{text}");
        }
    }

    #[test]
    fn last_words_stand_on_their_own_line_and_make_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let failed = || Outcome::Failed { why: "panicked at a.rs:7: no".into(), retry: true };
        assert!(last_words(&path, failed()).is_err() && !path.exists());
        for before in ["", "{\"event\":\"ste", "{}\n"] {
            std::fs::write(&path, before).unwrap();
            last_words(&path, failed()).unwrap();
            assert_eq!(outcome(&path), Some(failed()), "after {before:?}");
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!(lines, 1 + before.lines().count(), "after {before:?}");
            last_words(&path, Outcome::Done).unwrap();
            assert_eq!(outcome(&path), Some(failed()), "an end is told once");
        }
    }

    #[test]
    fn an_attempt_is_never_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        std::fs::write(&path, "").unwrap();
        assert!(EventLog::create(path, Fence::default(), &mut |_| ()).is_err());
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.txt");
        std::fs::write(&path, "first\nmemory allocation failed\n\n").unwrap();
        assert_eq!(last_line(&path).unwrap(), "memory allocation failed");
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(last_line(&path), None);
    }
}
