//! Keys and values of the positions so far: one allocation, made with the decoder. A position beyond its end takes the
//! place of the oldest.

use crate::{kernels::Buffer, spec::config::ModelConfig};

/// The keys and values of all layers.
pub struct Cache {
    /// (layers, K, W, stride): a key is a column, so that the scores of many are computed side by side.
    keys: Buffer,
    /// (layers, K, capacity, W)
    values: Buffer,
    kv_heads: usize,
    width: usize,
    capacity: usize,
    /// From one number of a key to the next: the capacity in whole lines, of which there is an odd number, so that a
    /// column's numbers fall into different sets of the processor's cache.
    stride: usize,
}

impl Cache {
    /// Room for so many positions.
    pub fn new(m: &ModelConfig, capacity: usize) -> Self {
        let width = m.d_model / m.heads;
        let stride = 16 * (capacity.div_ceil(16) | 1);
        let heads = m.layers * m.kv_heads;
        Self {
            keys: Buffer::zeros(heads * width * stride),
            values: Buffer::zeros(heads * width * capacity),
            kv_heads: m.kv_heads,
            width,
            capacity,
            stride,
        }
    }

    /// Positions that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// From one number of a key to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// How many positions are there once `position` is.
    pub fn filled(&self, position: usize) -> usize {
        (position + 1).min(self.capacity)
    }

    /// Remembers the keys and values (K, W) of a position.
    pub fn put(&mut self, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let (w, slot) = (self.width, position % self.capacity);
        for (head, (key, value)) in keys.chunks(w).zip(values.chunks(w)).enumerate() {
            let head = layer * self.kv_heads + head;
            let column = &mut self.keys[head * w * self.stride + slot..];
            column.iter_mut().step_by(self.stride).zip(key).for_each(|(to, k)| *to = *k);
            self.values[(head * self.capacity + slot) * w..][..w].copy_from_slice(value);
        }
    }

    /// The keys (W, stride) and values (capacity, W) of a head.
    pub fn head(&self, layer: usize, head: usize) -> (&[f32], &[f32]) {
        let (w, head) = (self.width, layer * self.kv_heads + head);
        let keys = &self.keys[head * w * self.stride..][..w * self.stride];
        (keys, &self.values[head * self.capacity * w..][..self.capacity * w])
    }
}
