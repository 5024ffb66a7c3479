//! Positions that are not learned: tables of sines and cosines, and what is done with them.

use candle_core::{Device, Result, Tensor};

use crate::engine::position::{rope_angle, sinusoid};

/// The fixed table of [`sinusoid`]s: (T, D) in f32.
pub fn sinusoids(t: usize, d: usize, device: &Device) -> Result<Tensor> {
    let values: Vec<f32> = (0..t * d).map(|i| sinusoid(i / d, i % d, d)).collect();
    Tensor::from_vec(values, (t, d), device)
}

/// Rotary positions (Su et al., 2021) in the convention of HF's Llama: in each head of `x`, (B, n, T, W) in f32 with an
/// even W, the numbers j and j + W/2 are a pair, which position p rotates by p · `theta`^(-2j/W).
pub fn rotate(x: &Tensor, theta: f64) -> Result<Tensor> {
    let (_, _, t, w) = x.dims4()?;
    let half = w / 2;
    let angle = |i: usize| rope_angle(i / half, i % half, w, theta);
    let table = |f: fn(f64) -> f64| {
        let values: Vec<f32> = (0..t * half).map(|i| f(angle(i)) as f32).collect();
        Tensor::from_vec(values, (t, half), x.device())
    };
    let (cos, sin) = (table(f64::cos)?, table(f64::sin)?); // (T, W/2)
    let (a, b) = (x.narrow(3, 0, half)?, x.narrow(3, half, half)?); // (B, n, T, W/2)
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, second], 3)
}
