//! Which parameters are hidden matrices: those that Muon trains.

use std::ops::Range;

use super::Layout;
use crate::spec::config::ModelConfig;

/// One matrix between two layers of activations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Where it lies in the flat vectors, row by row.
    pub range: Range<usize>,
    /// Its outputs.
    pub rows: usize,
    /// Its inputs.
    pub cols: usize,
}

/// The matrices within the blocks, in the order of the flat vectors: not the embeddings and the head, whose rows are one
/// token's or position's each, and no norm or bias. The packed `c_attn` counts as three, queries, keys and values, as
/// Muon's author recommends: they are separate maps that happen to be stored as one.
pub fn hidden_matrices(layout: &Layout, m: &ModelConfig) -> Vec<Hidden> {
    let kv = m.d_model / m.heads * m.kv_heads;
    let mut all = Vec::new();
    for param in layout.params().iter().filter(|p| p.name.starts_with("transformer.h.")) {
        let [outputs, inputs] = param.shape[..] else { continue };
        let parts = if param.name.ends_with(".c_attn.weight") { vec![m.d_model, kv, kv] } else { vec![outputs] };
        let mut first = param.offset;
        for rows in parts {
            all.push(Hidden { range: first..first + rows * inputs, rows, cols: inputs });
            first += rows * inputs;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::config::{Mlp, Norm};

    #[test]
    fn every_matrix_of_a_block_is_hidden_and_nothing_else() {
        let gpt = ModelConfig::default();
        let llama = ModelConfig {
            kv_heads: 2,
            norm: Norm::RmsNorm,
            mlp: Mlp::SwiGlu,
            qk_norm: true,
            bias: false,
            tie_embeddings: false,
            ..gpt.clone()
        };
        for (m, of_a_layer) in [(gpt, 3 + 1 + 2), (llama, 3 + 1 + 3)] {
            let layout = Layout::of(&m, 65);
            let hidden = hidden_matrices(&layout, &m);
            assert_eq!(hidden.len(), of_a_layer * m.layers);
            assert!(hidden.windows(2).all(|two| two[0].range.end <= two[1].range.start));
            let mut covered = vec![false; layout.len()];
            for h in &hidden {
                assert_eq!(h.range.len(), h.rows * h.cols);
                covered[h.range.clone()].fill(true);
            }
            for p in layout.params() {
                let is_hidden = p.shape.len() == 2 && p.name.contains(".h.");
                assert!(covered[p.range()].iter().all(|&c| c == is_hidden), "{}", p.name);
            }
            let shapes: Vec<_> = hidden[..3].iter().map(|h| [h.rows, h.cols]).collect();
            let kv = 32 * m.kv_heads;
            assert_eq!(shapes, [[128, 128], [kv, 128], [kv, 128]], "queries, keys and values on their own");
        }
    }
}
