//! Positions that are not learned: tables of sines and cosines, computed once in f64, and the rotation of heads by them.

use super::{Buffer, Level, simd::kernel};

/// The wavelengths of [`sinusoids`] go from 2π towards this times 2π.
const BASE: f64 = 10_000.0;

/// The fixed table of Vaswani et al. (2017), section 3.5, in rows of `width`: number 2i of position p is
/// sin(p / 10000^(2i/width)), and number 2i + 1 the cosine of the same angle.
pub fn sinusoids(width: usize, table: &mut [f32]) {
    for (p, row) in table.chunks_mut(width).enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            let angle = p as f64 / BASE.powf((j - j % 2) as f64 / width as f64);
            *value = (if j % 2 == 0 { angle.sin() } else { angle.cos() }) as f32;
        }
    }
}

/// The angles of rotary positions (Su et al., 2021) in the convention of HF's Llama: in a head of W numbers, those at j and
/// j + W/2 are a pair, which position p rotates by p · θ^(-2j/W).
pub struct Rotations {
    /// (T, W/2)
    cos: Buffer,
    /// (T, W/2)
    sin: Buffer,
    /// W
    width: usize,
}

impl Rotations {
    /// For heads of an even `width` at up to `context` positions.
    pub fn new(context: usize, width: usize, theta: f64) -> Self {
        let half = width / 2;
        let table = |f: fn(f64) -> f64| {
            let mut table = Buffer::zeros(context * half);
            for (p, row) in table.chunks_mut(half.max(1)).enumerate() {
                for (j, value) in row.iter_mut().enumerate() {
                    *value = f(p as f64 / theta.powf(2.0 * j as f64 / width as f64)) as f32;
                }
            }
            table
        };
        Self { cos: table(f64::cos), sin: table(f64::sin), width }
    }

    /// Bytes that [`Rotations::new`] allocates.
    pub const fn bytes(context: usize, width: usize) -> usize {
        2 * Buffer::bytes(context * (width / 2))
    }

    /// Rotates `heads` heads, which lie side by side at the beginning of each row of `x`, in place. The rows, `ld` apart,
    /// are the positions `first` and on, of `context` ones and then from 0 again.
    pub fn rotate(&self, level: Level, [first, context]: [usize; 2], heads: usize, ld: usize, x: &mut [f32], way: Way) {
        let sign = if way == Way::Back { -1.0 } else { 1.0 };
        rotate(level, &self.cos, &self.sin, self.width, [first, context], heads, ld, x, sign);
    }
}

/// Which way heads are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By their position's angles.
    On,
    /// By the negative ones: that undoes it, and takes the gradient of what was rotated to that of what it was.
    Back,
}

kernel! {
    fn rotate(
        s,
        cos: &[f32],
        sin: &[f32],
        width: usize,
        positions: [usize; 2],
        heads: usize,
        ld: usize,
        x: &mut [f32],
        sign: f32,
    ) {
        let (half, [first, context]) = (width / 2, positions);
        for (row, x) in x.chunks_mut(ld).enumerate() {
            let at = (first + row) % context * half;
            let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
            for head in x[..heads * width].chunks_exact_mut(width) {
                let (a, b) = head.split_at_mut(half);
                s.along(half, #[inline(always)] |i, len| {
                    let (c, d) = (s.get(cos, i, len), s.mul(s.splat(sign), s.get(sin, i, len)));
                    let (x, y) = (s.get(a, i, len), s.get(b, i, len));
                    s.put(s.sub(s.mul(x, c), s.mul(y, d)), a, i, len);
                    s.put(s.add(s.mul(y, c), s.mul(x, d)), b, i, len);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::random;

    /// Vaswani et al. (2017), section 3.5.
    #[test]
    fn sinusoids_are_those_of_the_paper() {
        for width in [1, 6, 7] {
            let mut table = vec![9.0; 11 * width];
            sinusoids(width, &mut table);
            for (i, got) in table.iter().enumerate() {
                let (p, j) = ((i / width) as f64, i % width);
                let angle = p / 10_000f64.powf(2.0 * (j / 2) as f64 / width as f64);
                let want = if j % 2 == 0 { angle.sin() } else { angle.cos() };
                assert!((f64::from(*got) - want).abs() < 1e-7, "{got}, not {want}");
            }
        }
    }

    /// Each pair as a complex number, times the exponential of its angle.
    #[test]
    fn a_rotation_is_its_formula_and_back_undoes_it() {
        for level in Level::available() {
            for (width, heads, context) in [(2, 1, 3), (6, 2, 5), (32, 3, 4), (36, 1, 9), (64, 2, 2)] {
                let (rows, first, theta, half) = (2 * context, 1, 500.0, width / 2);
                let ld = heads * width + 3;
                let table = Rotations::new(context, width, theta);
                let before = random(1, rows * ld);
                let mut x = before.clone();
                table.rotate(level, [first, context], heads, ld, &mut x, Way::On);
                for (i, got) in x.iter().enumerate() {
                    let (row, column) = (i / ld, i % ld);
                    if column >= heads * width {
                        assert_eq!(*got, before[i], "wrote beside the heads");
                        continue;
                    }
                    let (p, j) = ((first + row) % context, column % half);
                    let angle = p as f64 * f64::powf(theta, -2.0 * j as f64 / width as f64);
                    let (own, is_first) = (f64::from(before[i]), column % width < half);
                    let other = f64::from(if is_first { -before[i + half] } else { before[i - half] });
                    let want = own * angle.cos() + other * angle.sin();
                    assert!((f64::from(*got) - want).abs() < 1e-6, "{level:?} {width}: {got}, not {want}");
                }
                table.rotate(level, [first, context], heads, ld, &mut x, Way::Back);
                assert!(x.iter().zip(&before).all(|(x, y)| (x - y).abs() < 1e-6), "{level:?} {width}");
            }
        }
    }

    /// The product with what is rotated back is that of what is rotated with what is not: so gradients go back.
    #[test]
    fn back_takes_a_gradient_to_the_input() {
        for level in Level::available() {
            let (width, context) = (20, 7);
            let table = Rotations::new(context, width, 1e4);
            let (x, d) = (random(1, context * width), random(2, context * width));
            let rotated = |x: &[f32], way| {
                let mut x = x.to_vec();
                table.rotate(level, [0, context], 1, width, &mut x, way);
                x
            };
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let (a, b) = (dot(&rotated(&x, Way::On), &d), dot(&x, &rotated(&d, Way::Back)));
            assert!((a - b).abs() < 1e-5, "{level:?} {a} {b}");
        }
    }
}
