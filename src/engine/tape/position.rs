//! Positions that are not learned: tables of sines and cosines, computed in f64, and what is done with them.

use candle_core::{Device, Result, Tensor};

/// The wavelengths of [`sinusoids`] go from 2π towards this times 2π.
const BASE: f64 = 10_000.0;

/// The fixed table of Vaswani et al. (2017), section 3.5: (T, D) in f32, where number 2i of position p is
/// sin(p / 10000^(2i/D)), and number 2i + 1 the cosine of the same angle.
pub fn sinusoids(t: usize, d: usize, device: &Device) -> Result<Tensor> {
    let value = |p: usize, j: usize| {
        let angle = p as f64 / BASE.powf((j - j % 2) as f64 / d as f64);
        (if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
    };
    let values: Vec<f32> = (0..t * d).map(|i| value(i / d, i % d)).collect();
    Tensor::from_vec(values, (t, d), device)
}

/// Rotary positions (Su et al., 2021) in the convention of HF's Llama: in each head of `x`, (B, n, T, W) in f32 with an
/// even W, the numbers j and j + W/2 are a pair, which position p rotates by p · `theta`^(-2j/W).
pub fn rotate(x: &Tensor, theta: f64) -> Result<Tensor> {
    let (_, _, t, w) = x.dims4()?;
    let half = w / 2;
    let angle = |i: usize| (i / half) as f64 / theta.powf(2.0 * (i % half) as f64 / w as f64);
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
