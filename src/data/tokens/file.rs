//! Token ids in a file that is mapped into memory.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use crate::{
    base::{Context, Error, Exit, Result},
    data::tokenizer::Tokenizer,
};

/// How many tokens are decoded at a time.
const PIECE: usize = 1 << 16;

/// Token ids, little-endian, of two or four bytes each.
pub struct Tokens {
    path: PathBuf,
    file: File,
    map: Mmap,
    width: usize,
}

impl Tokens {
    /// Maps a file.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be opened, or ends within a token.
    pub fn map(path: &Path, width: u64) -> Result<Self> {
        let doing = || format!("opening the tokens {}", path.display());
        let file = File::open(path).doing(Exit::Store, doing)?;
        // SAFETY: the memory changes if somebody writes to the file. Files of the cache are whole before they get their
        // names, and are never written to after that, only unlinked. Of a file of somebody else any bytes are tokens; a run
        // that trains while it is cut off is ended by the system, and by nothing worse.
        let map = unsafe { Mmap::map(&file) }.doing(Exit::Store, doing)?;
        let tokens = Self { path: path.into(), file, map, width: width as usize };
        let over = tokens.map.len() % tokens.width;
        if over > 0 {
            let why = format!(
                "a token takes {width} bytes, and of its {} bytes the last {over}, from byte {} on, are no whole token",
                tokens.map.len(),
                tokens.map.len() - over
            );
            return Err(Error::new(Exit::Store, doing(), why).hint("it may have been cut off: copy or make it again"));
        }
        Ok(tokens)
    }

    /// Where they lie.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.map.len() / self.width
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// The file's bytes, read rather than mapped, from its beginning on: where it changes meanwhile, that is an error or
    /// other bytes, and no end of this process.
    pub fn read(&self) -> impl Read + '_ {
        (&self.file).take(self.bytes())
    }

    /// Bytes per token: 2 or 4.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many characters their text has, where a character is cut in two at the end of a piece up to one more for it.
    pub fn chars(&self, tokenizer: &dyn Tokenizer) -> u64 {
        let (mut piece, mut chars) = (vec![0; PIECE], 0);
        for start in (0..self.count()).step_by(PIECE) {
            piece.truncate(self.count() - start);
            self.copy(start, &mut piece);
            chars += tokenizer.decode(&piece).chars().count() as u64;
        }
        chars
    }

    /// Fills `out` with the tokens from `start` on, as many as both have.
    pub fn copy(&self, start: usize, out: &mut [u32]) {
        let bytes = &self.map[self.width * start..];
        out.iter_mut().zip(ids(bytes, self.width)).for_each(|(out, id)| *out = id);
    }
}

/// The ids in bytes.
pub fn ids(bytes: &[u8], width: usize) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(width).map(move |bytes| match *bytes {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0, // there are no other widths
    })
}
