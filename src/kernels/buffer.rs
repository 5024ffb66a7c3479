//! Memory that is allocated once, zeroed, and begins at a cache line.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A fixed number of f32 in whole cache lines of 64 bytes.
pub struct Buffer {
    lines: Box<[Line]>,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![Line([0.0; 16]); len.div_ceil(16)].into_boxed_slice(), len }
    }

    /// Bytes that `zeros(len)` allocates.
    pub const fn bytes(len: usize) -> usize {
        len.div_ceil(16) * size_of::<Line>()
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is 16 f32 without padding (repr(C), size equal to alignment), and `len` is within the lines.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_cache_line_and_has_the_length_asked_for() {
        for len in [0, 1, 16, 17, 1000] {
            let mut buffer = Buffer::zeros(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % 64), (len, 0));
            buffer.fill(1.0);
            assert_eq!(buffer.iter().sum::<f32>(), len as f32);
        }
    }
}
