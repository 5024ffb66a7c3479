//! Files of named tensors: safetensors in f32, from and to a flat vector in the layout's order.

use std::{borrow::Cow, collections::BTreeSet, path::Path};

use safetensors::{Dtype, SafeTensors, View};

use super::{Layout, Param};
use crate::base::{Context, Error, Exit, Result, files};

/// The bytes of a file that holds one flat vector per `(prefix, values)`; a tensor's name is its parameter's behind the
/// prefix. Panics where a vector is shorter than the layout.
pub fn to_bytes(layout: &Layout, vectors: &[(&str, &[f32])]) -> Result<Vec<u8>> {
    let tensors = vectors.iter().flat_map(|&(prefix, values)| {
        layout.params().iter().map(move |param| (format!("{prefix}{}", param.name), Slice { param, values }))
    });
    safetensors::serialize(tensors, None).doing(Exit::Unexpected, || "writing tensors".into())
}

/// Reads one flat vector per prefix from a file that [`to_bytes`] made, or that another tool wrote with the same names.
/// A tensor that lacks, has another shape, is not f32, or belongs to no parameter is an error that names it.
pub fn read(path: &Path, layout: &Layout, prefixes: &[&str]) -> Result<Vec<Vec<f32>>> {
    let fail = |why: String| Error::new(Exit::Store, format!("reading {}", path.display()), why);
    let bytes = files::read(path)?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| fail(e.to_string()))?;
    let mut unknown: BTreeSet<&str> = file.names().into_iter().collect();
    let mut vectors = Vec::with_capacity(prefixes.len());
    for prefix in prefixes {
        let mut flat = Vec::with_capacity(layout.len());
        for param in layout.params() {
            let name = format!("{prefix}{}", param.name);
            unknown.remove(name.as_str());
            let tensor = file.tensor(&name).map_err(|_| fail(format!("tensor {name} is not in it")))?;
            if tensor.shape() != param.shape {
                return Err(fail(format!("tensor {name} has shape {:?}, not {:?}", tensor.shape(), param.shape)));
            }
            if tensor.dtype() != Dtype::F32 {
                return Err(fail(format!("tensor {name} holds {}, not F32", tensor.dtype())));
            }
            flat.extend(tensor.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)));
        }
        vectors.push(flat);
    }
    match unknown.first() {
        Some(name) => Err(fail(format!("tensor {name} is no parameter of this model"))),
        None => Ok(vectors),
    }
}

/// One parameter's part of a flat vector; becomes bytes only when it is written.
struct Slice<'a> {
    param: &'a Param,
    values: &'a [f32],
}

impl View for Slice<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.param.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values[self.param.range()].iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        4 * self.param.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::init, spec::config::ModelConfig};

    #[test]
    fn what_is_written_is_read_back_and_what_does_not_fit_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let config = ModelConfig { layers: 1, d_model: 8, heads: 2, kv_heads: 2, d_ff: 16, ..ModelConfig::default() };
        let layout = Layout::of(&config, 11);
        let (a, b) = (init(&layout, 1, 1), init(&layout, 1, 2));
        files::write_atomic(&path, &to_bytes(&layout, &[("m.", &a), ("v.", &b)]).unwrap()).unwrap();
        assert_eq!(read(&path, &layout, &["m.", "v."]).unwrap(), [a, b]);

        let why = |layout: &Layout, prefixes: &[&str]| read(&path, layout, prefixes).unwrap_err().to_string();
        assert!(why(&layout, &["m."]).contains("model.safetensors: tensor v.transformer.h.0"));
        assert!(why(&layout, &["x."]).contains("tensor x.transformer.h.0.attn.c_attn.bias is not in it"));
        let wider = Layout::of(&config, 12);
        assert!(why(&wider, &["m.", "v."]).contains("tensor m.transformer.wte.weight has shape [11, 8], not [12, 8]"));
        files::write_atomic(&path, b"half a file").unwrap();
        assert!(why(&layout, &["m."]).contains("model.safetensors"));
    }
}
