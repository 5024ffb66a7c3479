//! A row-major matrix to write to, which can be split between its columns as slices split between rows.

use std::marker::PhantomData;

/// Some columns of a matrix of f32 that nobody else can reach.
pub struct Columns<'a> {
    at: *mut f32,
    rows: usize,
    width: usize,
    ld: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for `&mut f32` of numbers that no other value reaches.
unsafe impl Send for Columns<'_> {}

impl<'a> Columns<'a> {
    /// The matrix (rows, width) in `data`, whose rows are `ld` apart. Panics where it does not fit.
    pub fn new(data: &'a mut [f32], [rows, width]: [usize; 2], ld: usize) -> Self {
        assert!(rows == 0 || ld >= width && data.len() >= (rows - 1) * ld + width, "C is too short");
        Self { at: data.as_mut_ptr(), rows, width, ld, owner: PhantomData }
    }

    /// The columns before and from `at` on. Panics where there are fewer.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.width, "a split beyond the last column");
        let right = self.at.wrapping_add(at);
        (Self { width: at, ..self }, Self { at: right, width: self.width - at, ..self })
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.width]
    }

    /// The same columns, for as long as `self` is left alone.
    pub fn reborrow(&mut self) -> Columns<'_> {
        Columns { owner: PhantomData, ..*self }
    }

    /// The first number, and the distance of rows. Numbers beside the columns may be others' to write.
    pub(super) fn raw(&mut self) -> (*mut f32, usize) {
        (self.at, self.ld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_reach_their_own_columns() {
        let mut data = vec![0.0; 3 * 5 + 4];
        let (mut left, right) = Columns::new(&mut data, [4, 4], 5).split_at(1);
        let (mut middle, mut right) = right.split_at(2);
        assert_eq!([left.shape(), middle.shape(), right.shape()], [[4, 1], [4, 2], [4, 1]]);
        for (part, number) in [(&mut left, 1.0), (&mut middle, 2.0), (&mut right, 3.0)] {
            let ([rows, width], (at, ld)) = (part.shape(), part.raw());
            for i in 0..rows * width {
                // SAFETY: within the part's shape.
                unsafe { *at.add(i / width * ld + i % width) = number };
            }
        }
        assert_eq!(data, [[1.0, 2.0, 2.0, 3.0, 0.0]; 4].concat()[..19]);
    }
}
