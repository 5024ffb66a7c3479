//! Named tensors in files that somebody else wrote, mapped into memory: nothing is believed before it was checked against
//! the file's own length, and nothing is read before it is wanted.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::refused;
use crate::{
    base::{Context, Exit, Result},
    model::mapping::Piece,
};

/// Tensors by name.
#[derive(Default)]
pub struct Tensors {
    files: Vec<(PathBuf, Mmap)>,
    all: BTreeMap<String, Stored>,
}

/// Where a tensor's numbers lie.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Which file.
    pub file: usize,
    /// What its numbers are.
    pub dtype: Dtype,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its bytes within the file; as many as shape and dtype say.
    pub bytes: Range<usize>,
}

impl Tensors {
    /// Maps a file; its number, for [`Stored::file`].
    pub fn map(&mut self, path: &Path) -> Result<usize> {
        let doing = || format!("reading {}", path.display());
        // Asked before it is opened: who opens a pipe waits for its writer.
        if !fs::metadata(path).doing(Exit::Spec, doing)?.is_file() {
            return Err(refused(path, "it is no regular file"));
        }
        let file = File::open(path).doing(Exit::Spec, doing)?;
        // SAFETY: the map is read-only. A file that somebody changes meanwhile gives other numbers, one that somebody cuts
        // ends the process: an import reads for seconds what nobody writes.
        let map = unsafe { Mmap::map(&file) }.doing(Exit::Spec, doing)?;
        self.files.push((path.into(), map));
        Ok(self.files.len() - 1)
    }

    /// The bytes of a mapped file.
    pub fn bytes(&self, file: usize) -> &[u8] {
        &self.files[file].1
    }

    /// Takes in all tensors of a safetensors file.
    pub fn add_safetensors(&mut self, path: &Path) -> Result<()> {
        let file = self.map(path)?;
        let bytes = &self.files[file].1;
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|e| refused(path, format!("it is no whole safetensors file: {e}")))?;
        let begin = bytes.as_ptr() as usize;
        let mut found = Vec::new();
        for (name, view) in tensors.iter() {
            let from = view.data().as_ptr() as usize - begin;
            let bytes = from..from + view.data().len();
            found.push((name.to_owned(), Stored { file, dtype: view.dtype(), shape: view.shape().to_vec(), bytes }));
        }
        found.into_iter().try_for_each(|(name, stored)| self.insert(name, stored))
    }

    /// Takes in a tensor whose bytes are known to lie in its file.
    pub fn insert(&mut self, name: String, stored: Stored) -> Result<()> {
        let path = self.files[stored.file].0.clone();
        match self.all.insert(name.clone(), stored) {
            Some(first) => {
                Err(refused(&path, format!("tensor {name} is there twice, also in {}", self.path(&first).display())))
            }
            None => Ok(()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.all.get(name)
    }

    /// The file of a tensor.
    pub fn path(&self, stored: &Stored) -> &Path {
        &self.files[stored.file].0
    }

    /// The numbers of a tensor, as they are stored.
    pub fn data(&self, stored: &Stored) -> &[u8] {
        &self.files[stored.file].1[stored.bytes.clone()]
    }

    /// The tensor of a piece that is called `name` here. Errors where it lacks, or is not what the piece says.
    pub fn check(&self, name: &str, piece: &Piece, source: &Path) -> Result<()> {
        let stored = self.expect(name, &piece.shape, source)?;
        match stored.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
            other => Err(refused(self.path(stored), format!("tensor {name} holds {other}, not F32, F16 or BF16"))),
        }
    }

    /// The tensor of that name and shape.
    pub fn expect(&self, name: &str, shape: &[usize], source: &Path) -> Result<&Stored> {
        let stored = self.get(name).ok_or_else(|| refused(source, format!("tensor {name} is not in it")))?;
        if stored.shape == shape {
            return Ok(stored);
        }
        Err(refused(self.path(stored), format!("tensor {name} has shape {:?}, not {shape:?}", stored.shape)))
    }

    /// Puts the numbers of a piece, which was [checked](Self::check), where they belong in our parameter `out`.
    pub fn fill(&self, name: &str, piece: &Piece, out: &mut [f32]) {
        let Some(stored) = self.get(name) else { return };
        let (bytes, out) = (self.data(stored), &mut out[piece.range.clone()]);
        match stored.dtype {
            Dtype::F16 => copy(bytes, |b| f16::from_le_bytes(b).to_f32(), piece, out),
            Dtype::BF16 => copy(bytes, |b| bf16::from_le_bytes(b).to_f32(), piece, out),
            _ => copy(bytes, f32::from_le_bytes, piece, out),
        }
    }
}

/// Decodes numbers of `N` bytes each, and turns a matrix over where it is stored transposed.
fn copy<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f32, piece: &Piece, out: &mut [f32]) {
    let numbers = bytes.as_chunks::<N>().0;
    match (piece.transposed, &piece.shape[..]) {
        (true, &[inputs, outputs]) => {
            for (output, row) in out.chunks_exact_mut(inputs).enumerate() {
                for (input, number) in row.iter_mut().enumerate() {
                    *number = decode(numbers[input * outputs + output]);
                }
            }
        }
        _ => out.iter_mut().zip(numbers).for_each(|(out, number)| *out = decode(*number)),
    }
}
