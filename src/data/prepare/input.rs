//! The files that are read: which there are, and their text as bytes, decompressed as they are read.
//!
//! What a file is compressed with is told by its first bytes, not by its name. Several members of gzip and several frames
//! of zstd one after another are one text.

use std::{
    fs::File,
    io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;

use crate::{
    base::{Context, Error, Exit, Result},
    data::text::{Found, HEAD, look_up, looks_binary, opening, passed_over, reading},
    data::tokens::META,
};

/// How much is read from a file at a time, in bytes.
const BUFFER: usize = 1 << 17;

/// The files to read, in order, and which were passed over, in words.
pub struct Inputs {
    pub files: Vec<PathBuf>,
    pub notes: Vec<String>,
}

impl Inputs {
    /// The files that are named, and those below the folders that are named, but for those that are made in `out`.
    ///
    /// # Errors
    /// [`Exit::Usage`] where `out` lies within a folder that is named, whose texts would be others the next time.
    pub fn find(paths: &[PathBuf], out: &Path) -> Result<Self> {
        let real = std::fs::canonicalize(out).ok();
        let made = ["train.bin", "val.bin", META, "prepared.json", "tokenizer.json", ".lock"];
        let is_ours = |file: &Path| {
            let name = file.file_name().unwrap_or_default();
            let folder = file.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
            made.iter().any(|ours| *ours == name) && real.is_some() && folder == real
        };
        let within = |folder: &Path| {
            let (above, below) = (std::fs::canonicalize(folder).ok()?, real.clone().or_else(|| to_be(out))?);
            (below != above && below.starts_with(&above)).then_some(())
        };
        if let Some(folder) = paths.iter().find(|path| within(path).is_some()) {
            let doing = format!("preparing tokens into {}", out.display());
            let why = format!("it lies within {}, and would be part of its texts the next time", folder.display());
            return Err(Error::new(Exit::Usage, doing, why).hint("name a folder outside of them with --out"));
        }
        let (mut files, mut notes) = (Vec::new(), Vec::new());
        for path in paths {
            let there = look_up(path)?;
            if there.is_dir() {
                let found = Found::below(path, &is_binary)?;
                files.extend(found.files.into_iter().filter(|file| !is_ours(file)));
                let binary: Vec<_> = found.binary.into_iter().filter(|file| !is_ours(file)).collect();
                notes.extend(passed_over(&binary));
            } else if there.is_file() {
                files.push(path.clone());
            } else {
                // A pipe or a device cannot be gone on with, and might never end.
                return Err(Error::new(Exit::Spec, opening(path), "it is neither a file nor a folder"));
            }
        }
        Ok(Self { files, notes })
    }
}

/// Where a folder will lie that is not there yet.
fn to_be(path: &Path) -> Option<PathBuf> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(above).ok().or_else(|| to_be(above))?.join(path.file_name()?))
}

/// Whether a file's text, decompressed where it is compressed, is none. A damaged one is for its reader to refuse.
fn is_binary(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let whole = Stream::open(path, 0, &Counter::default())?.take(HEAD).read_to_end(&mut head);
    Ok(whole.is_ok() && looks_binary(&head))
}

/// Whether a file's name says that its lines are JSON, compressed or not.
pub fn is_lines(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = [".gz", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    [".jsonl", ".ndjson"].iter().any(|end| name.ends_with(end))
}

/// What a file's bytes are.
#[derive(Clone, Copy, PartialEq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd, // or a frame to skip
            _ => Self::None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::None => "text",
            Self::Gzip => "gzip data",
            Self::Zstd => "zstd data",
        }
    }
}

/// What those who watch and those who stop the reading share with it.
#[derive(Clone, Default)]
pub struct Counter {
    /// Bytes of files read so far.
    pub read: Arc<AtomicU64>,
    /// Nobody wants more.
    pub stop: Arc<AtomicBool>,
}

/// A file whose reading is counted.
struct Counted {
    file: File,
    counter: Counter,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.counter.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The bytes of a file's text.
pub struct Stream {
    path: PathBuf,
    packing: Packing,
    bytes: Box<dyn Read + Send>,
    /// How many bytes of the text were read or skipped.
    at: u64,
}

impl Stream {
    /// A file's text from byte `from` on.
    pub fn open(path: &Path, from: u64, counter: &Counter) -> Result<Self> {
        let mut file = File::open(path).doing(Exit::Spec, || opening(path))?;
        let mut head = Vec::new();
        (&mut file).take(4).read_to_end(&mut head).doing(Exit::Spec, || reading(path))?;
        let packing = Packing::of(&head);
        let start = if packing == Packing::None { from } else { 0 };
        file.seek(SeekFrom::Start(start)).doing(Exit::Spec, || reading(path))?;
        counter.read.fetch_add(start, Ordering::Relaxed);
        let file = BufReader::with_capacity(BUFFER, Counted { file, counter: counter.clone() });
        let bytes: Box<dyn Read + Send> = match packing {
            Packing::None => Box::new(file),
            Packing::Gzip => Box::new(MultiGzDecoder::new(file)),
            Packing::Zstd => {
                Box::new(zstd::stream::read::Decoder::with_buffer(file).doing(Exit::Spec, || opening(path))?)
            }
        };
        let mut stream = Self { path: path.into(), packing, bytes, at: start };
        stream.skip(from - start, &counter.stop)?;
        Ok(stream)
    }

    fn skip(&mut self, mut count: u64, stop: &AtomicBool) -> Result<()> {
        let mut scratch = vec![0; BUFFER];
        while count > 0 && !stop.load(Ordering::Relaxed) {
            let some = scratch.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            match self.read(&mut scratch[..some]).map_err(|e| self.fault(&e))? {
                0 => return Err(Error::new(Exit::Spec, reading(&self.path), "it is shorter than it was")),
                read => count -= read as u64,
            }
        }
        Ok(())
    }

    /// What an error means that reading met.
    pub fn fault(&self, error: &io::Error) -> Error {
        let (path, at, what) = (self.path.display(), self.at, self.packing.word());
        if self.packing == Packing::None || error.kind() == ErrorKind::PermissionDenied {
            return Error::new(Exit::Spec, reading(&self.path), error).io(error.kind());
        }
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!("{path}: its {what} ends too early, after {at} bytes of text: it was cut off")
            }
            _ => format!("{path}: its {what} cannot be read on after {at} bytes of text: {error}"),
        };
        Error::new(Exit::Spec, reading(&self.path), why)
            .hint("fetch or make the file again; `gzip -t` and `zstd -t` test one")
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}
