//! The formulas of positions that are not learned, in f64 for every engine.

/// The wavelengths of [`sinusoid`] go from 2π towards this times 2π.
const BASE: f64 = 10_000.0;

/// Number `j` of `d` in the fixed embedding of position `p` (Vaswani et al., 2017, section 3.5): for j = 2i
/// sin(p / 10000^(2i/d)), and for 2i + 1 the cosine of the same angle.
pub fn sinusoid(p: usize, j: usize, d: usize) -> f32 {
    let angle = p as f64 / BASE.powf((j - j % 2) as f64 / d as f64);
    (if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
}

/// The angle by which position `p` rotates pair `j` of a head of `width` numbers: p · `theta`^(-2j/width) (Su et al., 2021).
pub fn rope_angle(p: usize, j: usize, width: usize, theta: f64) -> f64 {
    p as f64 / theta.powf(2.0 * j as f64 / width as f64)
}
