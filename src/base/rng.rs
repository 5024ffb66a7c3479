//! Named random streams, the same on every machine.
//!
//! Each use of randomness has a stream of its own, keyed by the run's seed and a name (`init/transformer.wte.weight`,
//! `data/17`), so that adding a use never shifts another, and so that the stream of step k can be had without the
//! k - 1 before it: nothing of it needs to be saved to resume exactly.

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};

/// A ChaCha stream keyed by `seed` and `name`.
pub fn stream(seed: u64, name: &str) -> ChaCha12Rng {
    let mut key = blake3::Hasher::new_derive_key("exp 2026 named random streams");
    key.update(&seed.to_le_bytes()).update(name.as_bytes());
    ChaCha12Rng::from_seed(*key.finalize().as_bytes())
}

/// Uniform over `0..n`, without bias. Panics where `n` is 0.
pub fn below(rng: &mut impl RngCore, n: u64) -> u64 {
    assert!(n > 0, "an empty range has no value to draw");
    let zone = u64::MAX - (u64::MAX % n + 1) % n;
    loop {
        let x = rng.next_u64();
        if x <= zone {
            return x % n;
        }
    }
}

/// Uniform over [0, 1) with 53 bits.
pub fn unit(rng: &mut impl RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Fills `out` with N(0, std²), by the Box-Muller transform.
pub fn fill_normal(rng: &mut impl RngCore, std: f64, out: &mut [f32]) {
    for pair in out.chunks_mut(2) {
        let (u, v) = (1.0 - unit(rng), unit(rng)); // u in (0, 1]: its logarithm is finite
        let (radius, angle) = ((-2.0 * u.ln()).sqrt() * std, std::f64::consts::TAU * v);
        pair[0] = (radius * angle.cos()) as f32;
        if let Some(second) = pair.get_mut(1) {
            *second = (radius * angle.sin()) as f32;
        }
    }
}

/// Which elements a dropout site keeps: a counter-based function, so that a mask is never stored but computed again in
/// the backward pass, and is the same whichever engine or thread asks.
#[derive(Clone, Copy, Debug)]
pub struct DropoutMask {
    a: u32,
    b: u32,
    /// An element is dropped where its bits are below this.
    threshold: u32,
    /// 1 / (1 - p): what kept elements are multiplied with.
    pub scale: f32,
}

impl DropoutMask {
    /// The mask of one site of one layer in one micro-batch of one step. `p` in [0, 1) is the probability to drop.
    pub fn new(p: f64, seed: u64, layer: u32, site: u32, step: u64, micro: u32) -> Self {
        let mut h = seed;
        for word in [u64::from(layer) << 32 | u64::from(site), step, u64::from(micro)] {
            h = mix64(h ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        let h = mix64(h);
        let threshold = (p * 4_294_967_296.0).min(u32::MAX.into()) as u32;
        Self { a: h as u32, b: (h >> 32) as u32, threshold, scale: (1.0 / (1.0 - p)) as f32 }
    }

    /// 0 where element `index` is dropped, else [`DropoutMask::scale`]. 32-bit operations only: it vectorises.
    #[inline(always)]
    pub fn factor(self, index: u32) -> f32 {
        let bits = mix32(mix32(index ^ self.a).wrapping_add(self.b));
        if bits < self.threshold { 0.0 } else { self.scale }
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The finalizer of MurmurHash3 (Appleby), with its constants.
#[inline(always)]
fn mix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_its_seed_and_name_alone() {
        let draw = |seed, name| stream(seed, name).next_u64();
        assert_eq!(draw(1, "data"), draw(1, "data"));
        assert_ne!(draw(1, "data"), draw(2, "data"));
        assert_ne!(draw(1, "data"), draw(1, "init"));
        assert_eq!(draw(1, "data"), GOLDEN, "every stored run would change with this stream");
    }

    const GOLDEN: u64 = 7_102_673_140_997_659_076;

    #[test]
    fn below_is_in_range_and_even() {
        let (mut rng, mut counts) = (stream(3, "below"), [0u32; 7]);
        for _ in 0..70_000 {
            counts[below(&mut rng, 7) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_600..10_400).contains(&n)), "{counts:?}");
    }

    #[test]
    fn normals_have_the_moments_that_were_asked_for() {
        let mut x = vec![0.0f32; 100_001];
        fill_normal(&mut stream(5, "normal"), 0.02, &mut x);
        let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / x.len() as f64;
        assert!(mean.abs() < 3e-4 && (var.sqrt() - 0.02).abs() < 2e-4, "{mean} {var}");
    }

    #[test]
    fn masks_drop_the_share_that_was_asked_for_and_differ_between_sites() {
        let kept = |m: DropoutMask| (0..100_000).map(|i| m.factor(i) != 0.0).collect::<Vec<_>>();
        let a = kept(DropoutMask::new(0.2, 1, 0, 0, 1, 0));
        let share = a.iter().filter(|&&k| k).count() as f64 / a.len() as f64;
        assert!((share - 0.8).abs() < 0.005, "{share}");
        for other in [(2, 0, 0, 1, 0), (1, 1, 0, 1, 0), (1, 0, 1, 1, 0), (1, 0, 0, 2, 0), (1, 0, 0, 1, 1)] {
            let b = kept(DropoutMask::new(0.2, other.0, other.1, other.2, other.3, other.4));
            let same = a.iter().zip(&b).filter(|(x, y)| x == y).count() as f64 / a.len() as f64;
            assert!((same - 0.68).abs() < 0.01, "independent masks agree on 0.8² + 0.2², not on {same}");
        }
        assert!((0..1000).all(|i| DropoutMask::new(0.0, 1, 0, 0, 1, 0).factor(i) == 1.0));
    }
}
