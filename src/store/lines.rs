//! Whole lines of a file that somebody else appends to. A line without its end is not there yet.

use std::{
    cmp::Ordering,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
};

use serde::Serialize;

use crate::base::{Context, Exit, Result, files};

/// What a file has beyond the offset up to which it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// No whole line.
    Nothing,
    /// At least one whole line, or an error.
    Lines,
    /// Less than was read of it: a power cut or a person took some.
    Shrunk,
}

/// Compares a file with the offset up to which it was read. One that is absent is empty; one that cannot be read has
/// news, since that is to be said.
pub fn news(path: &Path, offset: u64) -> News {
    let first_line = || Lines::open(path, offset)?.next().map(|line| line.is_some());
    let length = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(_) => return News::Lines,
    };
    match length.cmp(&offset) {
        Ordering::Less => News::Shrunk,
        Ordering::Greater if first_line().unwrap_or(true) => News::Lines,
        _ => News::Nothing,
    }
}

/// Reads line by line, in memory that does not grow with the file.
pub struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    offset: u64,
}

impl Lines {
    /// From the byte `offset` of a file on, where a line starts.
    pub fn open(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = files::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { reader: BufReader::with_capacity(1 << 16, file), line: Vec::new(), offset })
    }

    /// Where the next line starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next whole line without its end, and where it starts.
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let start = self.offset;
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        match self.line.strip_suffix(b"\n") {
            None => Ok(None),
            Some(line) => {
                self.offset += self.line.len() as u64;
                Ok(Some((start, line)))
            }
        }
    }
}

/// Appends a value as one line of JSON, durable on return. Makes the file and its folder. A half line that somebody left
/// at the end is closed first, so that it costs nobody else's line.
pub fn append(path: &Path, value: &impl Serialize) -> Result<()> {
    let append = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        files::make_folder(folder)?;
        let mut file = File::options().create(true).read(true).append(true).open(path)?;
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        if ends_in_half_a_line(&mut file)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)?;
        file.sync_all()?;
        files::sync_folder(folder)
    };
    append().doing(Exit::Store, || format!("writing {}", path.display()))
}

fn ends_in_half_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path, offset: u64) -> Vec<(u64, String)> {
        let (mut lines, mut found) = (Lines::open(path, offset).unwrap(), Vec::new());
        while let Some((start, line)) = lines.next().unwrap() {
            found.push((start, String::from_utf8_lossy(line).into_owned()));
        }
        found
    }

    #[test]
    fn a_half_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert_eq!(news(&path, 0), News::Nothing, "no file");
        std::fs::write(&path, "one\n\ntw").unwrap();
        assert_eq!(all(&path, 0), [(0, "one".into()), (4, String::new())]);
        assert_eq!((news(&path, 0), news(&path, 5), news(&path, 8)), (News::Lines, News::Nothing, News::Shrunk));
        std::fs::write(&path, "one\n\ntwo\n").unwrap();
        assert_eq!(all(&path, 5), [(5, "two".into())]);
        assert_eq!((news(&path, 5), news(&path, 9)), (News::Lines, News::Nothing));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(news(&path, 9), News::Shrunk);
        std::os::unix::fs::symlink("events.jsonl", &path).unwrap(); // ELOOP
        assert_eq!(news(&path, 9), News::Lines, "it did not shrink, it cannot be read");
    }

    #[test]
    fn what_is_appended_stands_on_its_own_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/journal.jsonl");
        append(&path, &1).unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"{\"hal").unwrap();
        append(&path, &"x\ny").unwrap();
        append(&path, &3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n{\"hal\n\"x\\ny\"\n3\n");
    }
}
