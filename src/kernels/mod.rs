//! Plain functions on slices: the CPU engine's arithmetic. Single-threaded; whoever calls them splits the work.
//!
//! Matrices are row-major with a leading dimension (`ld`) that may exceed their width. Each kernel takes the SIMD level
//! first and has a test against a plain reference at every level that the machine has.

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
