//! Text from files: one UTF-8 file, or a folder of them.
//!
//! In a folder, all regular files count as text, in subfolders too, but for those whose name (or a folder's on the way)
//! begins with a dot and those with a NUL in their first 8000 bytes, which is how git and grep tell binary files; the
//! latter are noted. Links to files are followed, links to folders are not. Files are read in the order of their relative
//! paths, compared folder by folder, and joined with a line end where a file does not end with one.
//!
//! Characters are kept as they are: line ends, NUL, any script. Only a byte-order mark at the beginning of a file is left
//! out, since it says how the file is encoded and is no character of its text.

use std::{
    fs,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use super::corpus::{Corpus, Text};
use crate::base::{Context, Error, Exit, Result};

/// Files whose contents make one text.
pub struct TextFiles {
    name: String,
    path: PathBuf,
    /// In the order of reading.
    files: Vec<PathBuf>,
    binary: Vec<PathBuf>,
}

impl TextFiles {
    /// One file; a folder is an error.
    pub fn file(name: &str, path: &Path) -> Result<Self> {
        let file = look_up(path)?;
        if !file.is_file() {
            let why = if file.is_dir() {
                "it is a folder; a file is wanted here"
            } else {
                "it is neither a file nor a folder"
            };
            return Err(Error::new(Exit::Spec, opening(path), why));
        }
        Ok(Self { name: name.into(), path: path.into(), files: vec![path.into()], binary: Vec::new() })
    }

    /// One file, or all text files of a folder.
    pub fn file_or_folder(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if !look_up(path)?.is_dir() {
            return Self::file(&name, path);
        }
        let Found { files, binary } = Found::below(path, &is_binary)?;
        Ok(Self { name, path: path.into(), files, binary })
    }

    /// Hands the text on, piece by piece.
    fn each(&self, mut take: impl FnMut(&str)) -> Result<()> {
        let (mut empty, mut ended) = (true, true);
        for path in &self.files {
            let piece = read_utf8(path)?;
            if piece.is_empty() {
                continue;
            }
            if !ended {
                take("\n");
            }
            take(&piece);
            (empty, ended) = (false, piece.ends_with('\n'));
        }
        if empty {
            return Err(Error::new(Exit::Spec, reading(&self.path), "there is no text in it"));
        }
        Ok(())
    }
}

impl Corpus for TextFiles {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn key(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        self.each(|piece| {
            hasher.update(piece.as_bytes());
        })?;
        Ok(hasher.finalize().to_hex().to_string())
    }

    fn read(&self) -> Result<Text> {
        let mut text = String::new();
        self.each(|piece| text.push_str(piece))?;
        Ok(Text { text, costs: None })
    }

    fn notes(&self) -> Vec<String> {
        passed_over(&self.binary).into_iter().collect()
    }
}

/// The files of a folder, in the order of their relative paths.
pub(super) struct Found {
    /// Text.
    pub files: Vec<PathBuf>,
    /// What was passed over.
    pub binary: Vec<PathBuf>,
}

impl Found {
    /// The files below a folder; `is_binary` tells which of them are no text. An error where there is no text.
    pub fn below(folder: &Path, is_binary: &dyn Fn(&Path) -> Result<bool>) -> Result<Self> {
        let mut found = Self { files: Vec::new(), binary: Vec::new() };
        found.search(folder, is_binary)?;
        if found.files.is_empty() {
            let why = match found.binary.len() {
                0 => "the folder has no files".to_owned(),
                n => format!("the folder has no text, only binary files ({n})"),
            };
            return Err(
                Error::new(Exit::Spec, opening(folder), why).hint("files whose names begin with a dot do not count")
            );
        }
        found.files.sort();
        found.binary.sort();
        Ok(found)
    }

    fn search(&mut self, folder: &Path, is_binary: &dyn Fn(&Path) -> Result<bool>) -> Result<()> {
        for entry in fs::read_dir(folder).doing(Exit::Spec, || opening(folder))? {
            let entry = entry.doing(Exit::Spec, || opening(folder))?;
            let (path, kind) = (entry.path(), entry.file_type().doing(Exit::Spec, || opening(&entry.path()))?);
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                self.search(&path, is_binary)?;
            } else if look_up(&path)?.is_file() {
                let list = if is_binary(&path)? { &mut self.binary } else { &mut self.files };
                list.push(path);
            }
        }
        Ok(())
    }
}

/// Says that files were passed over, if any were.
pub(super) fn passed_over(binary: &[PathBuf]) -> Option<String> {
    let (first, others) = binary.split_first()?;
    let more = match others.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!("passed over as binary: {}{more}", first.display()))
}

/// Whether a text's beginning says that it is none, as git and grep go by.
pub(super) fn looks_binary(head: &[u8]) -> bool {
    head.contains(&0)
}

/// How much of a text's beginning is looked at for that, in bytes.
pub(super) const HEAD: u64 = 8000;

/// Says that a file has a byte that is no UTF-8.
pub(super) fn not_utf8(path: &Path, at: u64, byte: u8) -> Error {
    let why = format!("{} is not UTF-8: byte {at} is {byte:#04x}", path.display());
    let hint = match (at, byte) {
        (0, 0xff | 0xfe) => "it looks like UTF-16: iconv -f utf-16 -t utf-8 converts it",
        (1, 0x8b) => "it looks like gzip: `exp data prepare` reads it, or gunzip",
        (1, 0xb5) => "it looks like zstd: `exp data prepare` reads it, or unzstd",
        _ => "convert it, for example with iconv -f latin1 -t utf-8",
    };
    Error::new(Exit::Spec, reading(path), why).hint(hint)
}

pub(super) fn opening(path: &Path) -> String {
    format!("opening the text {}", path.display())
}

pub(super) fn reading(path: &Path) -> String {
    format!("reading the text {}", path.display())
}

pub(super) fn look_up(path: &Path) -> Result<fs::Metadata> {
    fs::metadata(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::new(Exit::Spec, opening(path), "there is no such file or folder"),
        _ => Error::new(Exit::Spec, opening(path), e),
    })
}

fn is_binary(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = fs::File::open(path).doing(Exit::Spec, || opening(path))?;
    file.take(HEAD).read_to_end(&mut head).doing(Exit::Spec, || reading(path))?;
    Ok(looks_binary(&head))
}

/// A file's text without a byte-order mark.
fn read_utf8(path: &Path) -> Result<String> {
    if !look_up(path)?.is_file() {
        // A pipe or a device might never end.
        return Err(Error::new(Exit::Spec, opening(path), format!("{} is no regular file", path.display())));
    }
    let bytes = fs::read(path).doing(Exit::Spec, || reading(path))?;
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        not_utf8(path, at as u64, e.as_bytes()[at])
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}
