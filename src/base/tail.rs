//! What others append to a file of lines from now on.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

/// A file of lines that somebody else appends to, read from a point on.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Where the first line starts that has not been handed out.
    offset: u64,
}

impl Tail {
    /// From the end that the file has now; it need not exist yet.
    pub fn from_end(path: PathBuf) -> Self {
        let offset = path.metadata().map_or(0, |m| m.len());
        Self { path, offset }
    }

    /// The whole lines that were appended since the last call, without their ends. None where the file cannot be read: it
    /// is asked again next time.
    pub fn lines(&mut self) -> Vec<String> {
        let length = self.path.metadata().map_or(0, |m| m.len());
        if length <= self.offset {
            self.offset = length; // somebody took some of it: what is new starts where it ends now
            return Vec::new();
        }
        let mut new = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_end(&mut new)
        });
        let whole = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if read.is_err() || whole == 0 {
            return Vec::new();
        }
        self.offset += whole as u64;
        String::from_utf8_lossy(&new[..whole]).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn only_whole_lines_that_are_new_are_handed_out_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut early = Tail::from_end(path.clone());
        assert_eq!(early.lines(), [""; 0], "there is no file yet");
        fs::write(&path, "old\n").unwrap();
        let mut tail = Tail::from_end(path.clone());
        let append = |text: &str| File::options().append(true).open(&path).unwrap().write_all(text.as_bytes());
        append("one\ntw").unwrap();
        assert_eq!((tail.lines(), early.lines()), (vec!["one".to_owned()], vec!["old".to_owned(), "one".to_owned()]));
        assert_eq!(tail.lines(), [""; 0], "half a line waits for its end");
        append("o\n").unwrap();
        assert_eq!(tail.lines(), ["two"]);
        fs::write(&path, "old\n").unwrap();
        assert_eq!(tail.lines(), [""; 0]);
        File::options().append(true).open(&path).unwrap().write_all(b"new\n").unwrap();
        assert_eq!(tail.lines(), ["new"]);
    }
}
