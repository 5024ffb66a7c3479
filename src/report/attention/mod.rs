//! Where a model looks: what its heads do, as a table, and their attention weights as pictures. Knows plain numbers alone.
//!
//! ```text
//! Maps ─patterns─► Survey
//!     └─figure─► HeatFigure ─layout─► Plan ─draw─► PNG
//! ```

mod draw;
mod figure;
mod layout;
pub mod patterns;
#[cfg(test)]
mod tests;

use crate::base::Result;

/// The attention weights of a model over a prompt of T tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps {
    /// What the run is called.
    pub run: String,
    /// Updates that made the model's weights.
    pub step: u64,
    /// The prompt.
    pub tokens: Vec<Token>,
    /// L.
    pub layers: usize,
    /// H.
    pub heads: usize,
    /// (L, H, T, T), queries by keys, after softmax.
    pub weights: Vec<f32>,
}

/// A token of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// What it stands for; empty where that is not known, with U+FFFD where it is a part of a character.
    pub text: String,
}

/// Which heads. Layers and heads count from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Of this layer alone.
    pub layer: Option<usize>,
    /// This one of each layer alone.
    pub head: Option<usize>,
}

impl Choice {
    /// Whether it is some and not all of the heads.
    pub fn is_narrow(self) -> bool {
        self.layer.is_some() || self.head.is_some()
    }

    /// Whether a head is among them.
    pub fn has(self, layer: usize, head: usize) -> bool {
        self.layer.is_none_or(|l| l == layer) && self.head.is_none_or(|h| h == head)
    }
}

impl Maps {
    /// The weights of a head, (T, T).
    pub fn head(&self, layer: usize, head: usize) -> &[f32] {
        let size = self.tokens.len() * self.tokens.len();
        &self.weights[(layer * self.heads + head) * size..][..size]
    }

    /// Layer and head of all that a choice has, layer by layer.
    pub fn chosen(&self, choice: Choice) -> Vec<(usize, usize)> {
        let all = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| (layer, head)));
        all.filter(|&(layer, head)| choice.has(layer, head)).collect()
    }
}

/// The picture of the chosen heads as a PNG; the same bytes each time.
///
/// # Errors
/// Where it cannot be drawn.
pub fn png(maps: &Maps, choice: Choice) -> Result<Vec<u8>> {
    draw::png(&figure::figure(maps, choice))
}
