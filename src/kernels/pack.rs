//! The packing of a matrix product's right-hand side into panels, which tiles read without gaps.

use super::simd::kernel;

/// Numbers in a packed right-hand side of `k` rows and `n` columns with panels of `panel` columns.
pub fn packed_len(k: usize, n: usize, panel: usize) -> usize {
    n.next_multiple_of(panel) * k
}

kernel! {
    /// Packs the transpose of `w` (n, k), row-major with leading dimension `ld`, into panels: what [`gemm`](super::gemm::gemm()) needs for
    /// x · wᵀ. Panel p holds rows p · panel and on of `w`; `packed` may be some of the panels, from `from` on.
    pub fn pack_transposed(s, w: &[f32], ld: usize, shape: [usize; 2], packed: &mut [f32], from: usize) {
        let ([k, n], panel) = (shape, 2 * S::LANES);
        for (p, out) in packed.chunks_exact_mut(k * panel).enumerate() {
            let first = (from + p) * panel;
            let width = panel.min(n.saturating_sub(first));
            if width < panel {
                out.fill(0.0);
            }
            for j in (0..width).step_by(S::LANES) {
                for i in (0..k).step_by(S::LANES) {
                    let (w, out) = (&w[(first + j) * ld + i..], &mut out[i * panel + j..]);
                    if width - j >= S::LANES && k - i >= S::LANES {
                        s.transpose(w, ld, out, panel);
                    } else {
                        transpose_part([(k - i).min(S::LANES), (width - j).min(S::LANES)], w, ld, out, panel);
                    }
                }
            }
        }
    }
}

/// `to[i · ld_to + j] = from[j · ld + i]` for fewer rows or columns than a vector has lanes.
fn transpose_part([k, n]: [usize; 2], from: &[f32], ld: usize, to: &mut [f32], ld_to: usize) {
    for j in 0..n {
        for i in 0..k {
            to[i * ld_to + j] = from[j * ld + i];
        }
    }
}

/// Packs `w` (k, n), row-major with leading dimension `ld`, into panels; `packed` may be some of the panels, from `from`
/// on. Row by row, so that memory is read in long stretches.
pub fn pack_rows(w: &[f32], ld: usize, [k, n]: [usize; 2], panel: usize, packed: &mut [f32], from: usize) {
    let first = from * panel;
    let width = n.saturating_sub(first).min(packed.len() / k.max(1));
    for i in 0..k {
        for (p, numbers) in w[i * ld + first..][..width].chunks(panel).enumerate() {
            let to = &mut packed[(p * k + i) * panel..][..panel];
            // Of known length where it can be: a call for each 128 bytes takes longer than they do.
            match (<&mut [f32; 32]>::try_from(&mut *to), <&[f32; 32]>::try_from(numbers)) {
                (Ok(to), Ok(numbers)) => *to = *numbers,
                _ => {
                    to[..numbers.len()].copy_from_slice(numbers);
                    to[numbers.len()..].fill(0.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    #[test]
    fn packing_by_parts_equals_packing_at_once() {
        for level in Level::available() {
            let (k, n, panel) = (21, 70, level.panel());
            let w = random(5, n * k);
            let t: Vec<f32> = (0..k * n).map(|i| w[i % n * k + i / n]).collect(); // (k, n)
            let (mut a, mut b) = (vec![1.0; packed_len(k, n, panel)], vec![2.0; packed_len(k, n, panel)]);
            pack_transposed(level, &w, k, [k, n], &mut a, 0);
            pack_rows(&t, n, [k, n], panel, &mut b, 0);
            assert_eq!(a, b);
            let mut parts = vec![3.0; a.len()];
            let (one, two) = parts.split_at_mut(k * panel);
            pack_transposed(level, &w, k, [k, n], one, 0);
            pack_transposed(level, &w, k, [k, n], two, 1);
            assert_eq!(a, parts);
        }
    }
}
