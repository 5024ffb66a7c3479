//! Newton–Schulz iterations in candle's operations; [`crate::kernels::muon`] says what they are for.

use candle_core::{Result, Tensor};

use crate::kernels::muon::{COEFFICIENTS, EPS, ITERATIONS};

/// The matrix that `u` (rows, cols) becomes once its singular values are about 1.
pub fn orthogonalize(u: &Tensor) -> Result<Tensor> {
    let (rows, cols) = u.dims2()?;
    let is_upright = rows > cols;
    let turned = |x: &Tensor| if is_upright { x.t()?.contiguous() } else { Ok(x.clone()) };
    let norm = (u.sqr()?.sum_all()?.sqrt()? + EPS)?; // Frobenius
    let mut x = turned(&u.broadcast_div(&norm)?)?; // (r, c), r ≤ c
    let [a, b, c] = COEFFICIENTS;
    for _ in 0..ITERATIONS {
        let gram = x.matmul(&x.t()?)?; // (r, r)
        let polynomial = ((&gram * b)? + (gram.matmul(&gram)? * c)?)?;
        x = ((&x * a)? + polynomial.matmul(&x)?)?;
    }
    turned(&x)
}
