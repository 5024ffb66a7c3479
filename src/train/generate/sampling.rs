//! From logits to a token.

use rand_chacha::rand_core::RngCore;

use crate::base::{Error, Exit, Result, rng};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; 0 takes the likeliest token.
    pub temperature: f64,
    /// Only so many of the likeliest tokens.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability (Holtzman et al., 2020), after `top_k`.
    pub top_p: Option<f64>,
}

impl Default for Sampling {
    /// The model's own distribution.
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: None }
    }
}

impl Sampling {
    /// The token of logits (V). Of equal ones the first counts as the likeliest.
    ///
    /// # Errors
    /// Where a logit is NaN, as those of a model that diverged are.
    pub fn choose(&self, logits: &[f32], rng: &mut impl RngCore) -> Result<u32> {
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(Error::new(Exit::Unexpected, "choosing the next token", "the model's logits are not numbers")
                .hint("its weights are from a run that diverged; another --checkpoint may be better"));
        }
        let by_likelihood = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let first = (0..logits.len()).min_by(by_likelihood).unwrap_or(0);
        if self.temperature == 0.0 {
            return Ok(first as u32);
        }
        let weight = |i: usize| (f64::from(logits[i] - logits[first]) / self.temperature).exp();
        let mut kept: Vec<usize> = (0..logits.len()).collect();
        if let Some(k) = self.top_k.filter(|k| *k < kept.len()) {
            kept.select_nth_unstable_by(k, by_likelihood);
            kept.truncate(k);
        }
        if let Some(p) = self.top_p.filter(|p| *p < 1.0) {
            kept.sort_unstable_by(by_likelihood);
            let enough = p * kept.iter().map(|&i| weight(i)).sum::<f64>();
            let mut sum = 0.0;
            let count = kept.iter().take_while(|&&i| {
                let needed = sum < enough;
                sum += weight(i);
                needed
            });
            let count = count.count().max(1);
            kept.truncate(count);
        }
        kept.sort_unstable(); // so that the draw follows from the logits alone
        let mut at = rng::unit(rng) * kept.iter().map(|&i| weight(i)).sum::<f64>();
        let drawn = kept.iter().find(|&&i| {
            at -= weight(i);
            at < 0.0
        });
        Ok(*drawn.unwrap_or(&first) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each token is drawn, in shares.
    fn shares(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let (mut rng, n) = (rng::stream(1, "test"), 40_000);
        let mut counts = vec![0.0; logits.len()];
        (0..n).for_each(|_| counts[sampling.choose(logits, &mut rng).unwrap() as usize] += 1.0 / f64::from(n));
        counts
    }

    fn close(got: &[f64], want: &[f64]) {
        assert!(
            got.iter().zip(want).all(|(a, b)| (a - b).abs() < 0.012 && (*b > 0.0 || *a == 0.0)),
            "{got:?} {want:?}"
        );
    }

    #[test]
    fn tokens_come_as_often_as_they_should() {
        let p = [0.1f64, 0.4, 0.2, 0.3];
        let logits = p.map(|p| p.ln() as f32 + 7.0);
        let sampling = Sampling::default();
        close(&shares(sampling, &logits), &p);
        close(&shares(Sampling { temperature: 0.0, ..sampling }, &logits), &[0.0, 1.0, 0.0, 0.0]);
        let sharp: Vec<f64> = p.iter().map(|p| p * p / 0.3).collect();
        close(&shares(Sampling { temperature: 0.5, ..sampling }, &logits), &sharp);
        close(&shares(Sampling { top_k: Some(2), ..sampling }, &logits), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
        close(&shares(Sampling { top_k: Some(9), ..sampling }, &logits), &p);
        // 0.4 and 0.3 do not reach 0.75, with 0.2 they do.
        close(&shares(Sampling { top_p: Some(0.75), ..sampling }, &logits), &[0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]);
        close(&shares(Sampling { top_p: Some(1e-9), ..sampling }, &logits), &[0.0, 1.0, 0.0, 0.0]);
        // Of the two likeliest, 4/7 are enough.
        let both = Sampling { top_k: Some(2), top_p: Some(0.5), ..sampling };
        close(&shares(both, &logits), &[0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_has_no_chance_is_never_drawn_and_what_is_no_number_is_an_error() {
        let never = shares(Sampling::default(), &[f32::NEG_INFINITY, 0.0, -1000.0]);
        assert_eq!([never[0], never[2]], [0.0, 0.0]);
        let mut rng = rng::stream(1, "test");
        assert_eq!(Sampling { temperature: 0.0, ..Sampling::default() }.choose(&[1.0, 2.0, 2.0], &mut rng).unwrap(), 1);
        assert!(Sampling::default().choose(&[1.0, f32::NAN], &mut rng).is_err());
    }
}
