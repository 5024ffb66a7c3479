//! The weights that training starts from, by GPT-2's rule as nanoGPT writes it.

use super::{Layout, Param};
use crate::base::rng;

/// The standard deviation of weights and embeddings.
const STD: f64 = 0.02;

/// Initial weights as one flat vector in the layout's order: N(0, 0.02²) for matrices and embeddings, projections into
/// the residual stream scaled by 1/√(2·layers) so that its variance does not grow with depth (Radford et al., 2019),
/// biases 0, norms 1. Each parameter draws from a stream of its own, named after it, so that adding one shifts no other.
pub fn init(layout: &Layout, layers: usize, seed: u64) -> Vec<f32> {
    let mut flat = vec![0.0; layout.len()];
    for param in layout.params() {
        let values = &mut flat[param.range()];
        match std(param, layers) {
            Some(std) => rng::fill_normal(&mut rng::stream(seed, &format!("init/{}", param.name)), std, values),
            None if param.name.ends_with(".bias") => {} // 0 already
            None => values.fill(1.0),
        }
    }
    flat
}

/// The standard deviation of a parameter that is drawn at all.
fn std(param: &Param, layers: usize) -> Option<f64> {
    let residual = param.name.ends_with(".c_proj.weight");
    (param.shape.len() >= 2).then(|| if residual { STD / (2.0 * layers as f64).sqrt() } else { STD })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::config::ModelConfig;

    #[test]
    fn each_kind_of_parameter_has_its_own_spread() {
        let config = ModelConfig { layers: 2, ..ModelConfig::default() };
        let layout = Layout::of(&config, 65);
        let flat = init(&layout, config.layers, 1);
        for param in layout.params() {
            let values = &flat[param.range()];
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
            let std = (values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
            let (want_mean, want_std) = match param.name.as_str() {
                n if n.ends_with(".bias") => (0.0, 0.0),
                n if n.contains("ln_") => (1.0, 0.0),
                n if n.ends_with("c_proj.weight") => (0.0, 0.01),
                _ => (0.0, 0.02),
            };
            assert!((mean - want_mean).abs() < 1e-3 && (std - want_std).abs() < 1e-3, "{}: {mean} {std}", param.name);
        }
    }

    #[test]
    fn another_parameter_or_seed_shifts_no_stream() {
        let tied = ModelConfig::default();
        let untied = ModelConfig { tie_embeddings: false, bias: false, ..tied.clone() };
        let (a, b) = (Layout::of(&tied, 65), Layout::of(&untied, 65));
        let (x, y, z) = (init(&a, 4, 1), init(&b, 4, 1), init(&a, 4, 2));
        let wte = |l: &Layout| l.get("transformer.wte.weight").unwrap().range();
        assert_eq!(x[wte(&a)], y[wte(&b)]);
        assert_ne!(x[wte(&a)], z[wte(&a)]);
    }
}
