//! Files of `torch.save`: a zip of a pickle, and of the numbers of each tensor in a file of its own. Torch stores them
//! uncompressed, so that they are read where they lie; what is compressed is none of torch's, and could unpack to anything.

use std::{collections::HashMap, io::Cursor, ops::Range, path::Path};

use safetensors::Dtype;

use super::{
    refused,
    tensors::{Stored, Tensors},
};
use crate::base::{
    Result,
    pickle::{Id, Tree},
};

/// An open file.
pub struct File<'a> {
    path: &'a Path,
    number: usize,
    entries: HashMap<String, Range<usize>>,
    /// What the names of all entries begin with.
    folder: String,
    /// What its pickle says.
    pub tree: Tree,
}

impl<'a> File<'a> {
    /// Reads the pickle of a file, which is mapped into `tensors`.
    pub fn open(path: &'a Path, tensors: &mut Tensors) -> Result<Self> {
        let fail = |why: String| refused(path, why);
        let number = tensors.map(path)?;
        let bytes = tensors.bytes(number);
        let entries = entries(bytes).map_err(|why| fail(format!("it is no whole file of `torch.save`: {why}")))?;
        let mut pickles = entries.keys().filter_map(|name| name.strip_suffix("/data.pkl"));
        let folder = match (pickles.next(), pickles.next()) {
            (Some(folder), None) => folder.to_owned(),
            _ => return Err(fail("it is a zip, but none of `torch.save`: it has no data.pkl".into())),
        };
        let order = entries.get(&format!("{folder}/byteorder")).map(|range| &bytes[range.clone()]);
        if order.is_some_and(|order| order.trim_ascii() != b"little") {
            return Err(fail("its numbers are not little-endian".into()));
        }
        let pickle = &bytes[entries[&format!("{folder}/data.pkl")].clone()];
        let tree = Tree::read(pickle).map_err(fail)?;
        Ok(Self { path, number, entries, folder, tree })
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// Where the numbers of a tensor lie. `name` is for the error.
    pub fn locate(&self, id: Id, name: &str) -> Result<Stored> {
        let fail = |why: String| refused(self.path, format!("tensor {name} {why}"));
        let tensor = self.tree.tensor(id).ok_or_else(|| fail("is none".into()))?;
        let dtype = match tensor.storage {
            "torch FloatStorage" => Dtype::F32,
            "torch HalfStorage" => Dtype::F16,
            "torch BFloat16Storage" => Dtype::BF16,
            other => return Err(fail(format!("holds {}, not float, half or bfloat16", other.replace(' ', ".")))),
        };
        let overflow = || fail(format!("has the shape {:?}, which is no tensor's", tensor.shape));
        let mut numbers = 1u64;
        for (&size, &stride) in tensor.shape.iter().zip(&tensor.strides).rev() {
            if size != 1 && stride != numbers {
                return Err(fail(format!("of shape {:?} does not lie in one piece", tensor.shape)));
            }
            numbers = numbers.checked_mul(size).ok_or_else(overflow)?;
        }
        if tensor.shape.len() != tensor.strides.len() {
            return Err(overflow());
        }
        let entry = format!("{}/data/{}", self.folder, tensor.key);
        let entry = self.entries.get(&entry).ok_or_else(|| fail(format!("has its numbers in {entry}, which lacks")))?;
        let width = dtype.bitsize() as u64 / 8;
        let from = tensor.offset.checked_mul(width).ok_or_else(overflow)?;
        let to = numbers.checked_mul(width).and_then(|length| from.checked_add(length)).ok_or_else(overflow)?;
        if to > entry.len() as u64 {
            return Err(fail(format!(
                "of shape {:?} needs the bytes {from} to {to} of {} there are",
                tensor.shape,
                entry.len()
            )));
        }
        let shape = tensor.shape.iter().map(|size| *size as usize).collect(); // its bytes are there, so it fits
        let bytes = entry.start + from as usize..entry.start + to as usize;
        Ok(Stored { file: self.number, dtype, shape, bytes })
    }
}

/// Where each entry of a zip lies in it, by name.
fn entries(bytes: &[u8]) -> Result<HashMap<String, Range<usize>>, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let mut entries = HashMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|e| e.to_string())?;
        let name = entry.name().map_err(|e| e.to_string())?.into_owned();
        if entry.compression() != zip::CompressionMethod::Stored || entry.size() != entry.compressed_size() {
            return Err(format!("{name} in it is compressed, which torch does not do"));
        }
        let from = entry.data_start().and_then(|from| usize::try_from(from).ok());
        let range =
            from.zip(usize::try_from(entry.size()).ok()).and_then(|(from, size)| Some(from..from.checked_add(size)?));
        match range.filter(|range| range.end <= bytes.len()) {
            Some(range) => entries.insert(name, range),
            None => return Err(format!("{name} in it goes beyond its end")),
        };
    }
    Ok(entries)
}
