//! An attempt's `events.jsonl`: its writer in the worker, and how to read off how the attempt ended.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{
    base::{Context, Exit, Result, files},
    event::{Event, Outcome, Sink},
};

/// Appends events to a file, each as one line in one write, and shows each to a mirror.
pub struct EventLog<'a> {
    file: File,
    path: PathBuf,
    /// A write failed, so that the file may end in half a line.
    torn: bool,
    mirror: &'a mut dyn FnMut(&Event),
}

impl<'a> EventLog<'a> {
    /// Makes the file, which must not exist, durable in its folder.
    pub fn create(path: PathBuf, mirror: &'a mut dyn FnMut(&Event)) -> Result<Self> {
        let create = || {
            let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
            path.parent().map_or(Ok(()), files::sync_folder)?;
            Ok::<_, std::io::Error>(file)
        };
        let file = create().doing(Exit::Store, || format!("making {}", path.display()))?;
        Ok(Self { file, path, torn: false, mirror })
    }
}

impl Sink for EventLog<'_> {
    /// The mirror sees the event even where the file could not take it. After that a line is begun anew, lest what
    /// is said next become part of a half line.
    fn emit(&mut self, event: &Event, sync: bool) -> Result<()> {
        let mut line = serde_json::to_vec(event).doing(Exit::Unexpected, || "writing an event".into())?;
        line.push(b'\n');
        if self.torn {
            line.insert(0, b'\n');
        }
        let mut write = || {
            self.file.write_all(&line)?;
            if sync { self.file.sync_data() } else { Ok(()) }
        };
        let written = write();
        self.torn = written.is_err();
        let written = written.doing(Exit::Store, || format!("writing {}", self.path.display()));
        (self.mirror)(event);
        written
    }
}

/// How the attempt ended, where its events say so.
pub fn outcome(path: &Path) -> Option<Outcome> {
    match serde_json::from_str(&last_line(path)?) {
        Ok(Event::Finished { outcome, .. }) => Some(outcome),
        _ => None,
    }
}

/// The last line of a text file that is not blank; of a line beyond 64 KiB, its end.
pub fn last_line(path: &Path) -> Option<String> {
    last_line_that(path, |line| !line.is_empty())
}

/// The last line of a text file's last 64 KiB that is like that, trimmed.
pub fn last_line_that(path: &Path, is_it: impl Fn(&str) -> bool) -> Option<String> {
    const TAIL: u64 = 1 << 16;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    String::from_utf8_lossy(&tail).lines().map(str::trim).rfind(|line| is_it(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(outcome: Outcome) -> Event {
        Event::Finished { at: 1, outcome }
    }

    #[test]
    fn the_outcome_is_the_last_line_or_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(outcome(&path), None);
        let mut seen = 0;
        let mut mirror = |_: &Event| seen += 1;
        let mut log = EventLog::create(path.clone(), &mut mirror).unwrap();
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
        let mut log = EventLog::create(path.clone(), &mut mirror).unwrap();
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
    fn an_attempt_is_never_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        std::fs::write(&path, "").unwrap();
        assert!(EventLog::create(path, &mut |_| ()).is_err());
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
