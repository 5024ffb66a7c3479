//! Cross-entropy of logits, and its gradient in their place.

use super::{
    pointwise::exp2,
    simd::{Simd, kernel},
};

/// The largest of a row. A NaN may get lost here; it comes back in the sum of exponentials.
#[inline(always)]
fn largest<S: Simd>(s: S, x: &[f32]) -> f32 {
    let chunks = x.chunks_exact(S::LANES);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m });
    s.largest(chunks.fold(s.splat(rest), |m, x| s.max(m, s.load(x))))
}

/// exp(x - shift)
#[inline(always)]
fn exp_of<S: Simd>(s: S, x: S::V, shift: f32) -> S::V {
    exp2(s, s.mul(s.sub(x, s.splat(shift)), s.splat(std::f32::consts::LOG2_E)))
}

/// Σ exp(x - shift) over a row; with `KEEP` the exponentials replace it.
#[inline(always)]
fn sum_of_exp<S: Simd, const KEEP: bool>(s: S, x: &mut [f32], shift: f32) -> f32 {
    let (mut sum, mut rest) = (s.splat(0.0), 0.0);
    let mut chunks = x.chunks_exact_mut(S::LANES);
    for x in chunks.by_ref() {
        let e = exp_of(s, s.load(x), shift);
        sum = s.add(sum, e);
        if KEEP {
            s.store(e, x);
        }
    }
    let tail = chunks.into_remainder();
    let mut kept = [0.0; 16];
    s.store(exp_of(s, s.load_part(tail), shift), &mut kept);
    for (x, e) in tail.iter_mut().zip(kept) {
        rest += e;
        if KEEP {
            *x = e;
        }
    }
    s.sum(sum) + rest
}

kernel! {
    /// -ln softmax(row)\[target\] in nats for each row of `logits` (rows, ld) of `vocab` numbers.
    pub fn cross_entropy(s, vocab: usize, ld: usize, logits: &mut [f32], targets: &[u32], losses: &mut [f32]) {
        for ((row, &target), loss) in logits.chunks_mut(ld).zip(targets).zip(losses) {
            let row = &mut row[..vocab];
            let (top, chosen) = (largest(s, row), row[target as usize]);
            *loss = sum_of_exp::<S, false>(s, row, top).ln() + (top - chosen);
        }
    }
}

kernel! {
    /// As [`cross_entropy`], and replaces each row by the gradient of `scale` times its loss: scale · (softmax - onehot).
    pub fn cross_entropy_with_gradient(
        s,
        vocab: usize,
        ld: usize,
        logits: &mut [f32],
        targets: &[u32],
        scale: f32,
        losses: &mut [f32],
    ) {
        for ((row, &target), loss) in logits.chunks_mut(ld).zip(targets).zip(losses) {
            let row = &mut row[..vocab];
            let (top, chosen) = (largest(s, row), row[target as usize]);
            let sum = sum_of_exp::<S, true>(s, row, top);
            *loss = sum.ln() + (top - chosen);
            let factor = scale / sum;
            row.iter_mut().for_each(|x| *x *= factor);
            row[target as usize] -= scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    #[test]
    fn equals_the_formula() {
        for level in Level::available() {
            for vocab in [1, 3, 16, 65, 130] {
                let ld = vocab + 2;
                let logits: Vec<f32> = random(1, 4 * ld).iter().map(|x| 5.0 * x).collect();
                let targets = [0, vocab as u32 - 1, vocab as u32 / 2, 0];
                let (mut dlogits, mut losses, mut alone) = (logits.clone(), [0.0; 4], [0.0; 4]);
                cross_entropy_with_gradient(level, vocab, ld, &mut dlogits, &targets, 0.5, &mut losses);
                cross_entropy(level, vocab, ld, &mut logits.clone(), &targets, &mut alone);
                assert_eq!(losses, alone);
                for row in 0..4 {
                    let x: Vec<f64> = logits[row * ld..][..vocab].iter().map(|&x| f64::from(x)).collect();
                    let sum: f64 = x.iter().map(|x| x.exp()).sum();
                    let want = sum.ln() - x[targets[row] as usize];
                    assert!((f64::from(losses[row]) - want).abs() < 1e-5, "{level:?} {vocab}");
                    for (j, x) in x.iter().enumerate() {
                        let hot = if j == targets[row] as usize { 1.0 } else { 0.0 };
                        let want = 0.5 * (x.exp() / sum - hot);
                        assert!((f64::from(dlogits[row * ld + j]) - want).abs() < 1e-6, "{level:?} {vocab}");
                    }
                    assert_eq!(dlogits[row * ld + vocab], logits[row * ld + vocab], "wrote beside the row");
                }
            }
        }
    }

    #[test]
    fn a_nan_shows_in_the_loss() {
        for level in Level::available() {
            let mut logits = vec![0.0; 40];
            logits[3] = f32::NAN;
            let mut losses = [0.0];
            cross_entropy(level, 40, 40, &mut logits, &[0], &mut losses);
            assert!(losses[0].is_nan(), "{level:?}");
        }
    }
}
