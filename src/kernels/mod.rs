//! Plain functions on slices: the CPU engine's arithmetic. Single-threaded; whoever calls them splits the work.
//!
//! Matrices are row-major with a leading dimension (`ld`) that may exceed their width. Each kernel takes the SIMD level
//! first and has a test against a plain reference at every level that the machine has.
//!
//! # Numbers too small to matter
//!
//! A processor takes up to a hundred times as long for subnormal numbers, those below 2⁻¹²⁶. A run whose learning rate is
//! too high is full of them: its softmax is all but one-hot, and what it does not choose has weights such as 10⁻³⁸, the
//! products of which are subnormal. So have moments that fade since no gradient comes any more. Therefore
//! [exponentials](pointwise) end at 2⁻⁶⁴ and what an update leaves at [`FAINTEST`]; below they are 0. Beside the 1 that a
//! softmax sums up to, and beside `train.eps`, neither is seen in a rounded number. Runs of 4 layers of width 128 at a
//! learning rate of 0.1 took 40 times as long as at 0.001 before; now they take as long.

pub mod adamw;
pub mod attention;
pub mod buffer;
pub mod columns;
pub mod decode;
pub mod gemm;
pub mod heads;
pub mod loss;
pub mod muon;
pub mod norm;
pub mod pack;
pub mod pointwise;
pub mod simd;

pub use buffer::Buffer;
pub use columns::Columns;
pub use simd::Level;

/// What is nearer to 0 and would fade further is 0: 2⁻¹⁰⁰, the last bit of which is no subnormal number.
pub const FAINTEST: f32 = 1.0 / (1u128 << 100) as f32;

#[cfg(test)]
pub(crate) mod tests {
    use crate::base::rng;

    /// Numbers from N(0, 1).
    pub fn random(seed: u64, len: usize) -> Vec<f32> {
        let mut x = vec![0.0; len];
        rng::fill_normal(&mut rng::stream(seed, "kernels"), 1.0, &mut x);
        x
    }
}
