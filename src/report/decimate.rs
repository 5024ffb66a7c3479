//! Long curves in few points without losing a spike.

/// Of each pixel column the first, lowest, highest and last point, in their order: what a line through all points would
/// cover (M4, Jugel et al. 2014). `points` are in pixels, x ascending, y finite. Where a column has several they come to
/// stand above each other, and where such columns follow each other the line comes over at the height at which it left
/// the one before, so that what it covers on its way across it covers in the second: upright and level strokes are drawn
/// many times faster than slanted ones.
pub fn columns(points: &[(f64, f64)], pixel: f64) -> Vec<(f64, f64)> {
    const SEVERAL: usize = 3;
    let column = |p: &(f64, f64)| (p.0 / pixel).floor();
    let mut kept: Vec<(f64, f64)> = picked(points, pixel).into_iter().map(|i| points[i]).collect();
    let mut left: Option<(f64, f64)> = None; // the column before, where it was dense, and the height of its last point
    for chunk in kept.chunk_by_mut(|a, b| column(a) == column(b)) {
        let number = column(&chunk[0]);
        let is_dense = chunk.len() >= SEVERAL;
        if is_dense {
            chunk.iter_mut().for_each(|point| point.0 = (number + 0.5) * pixel);
            // The first lies between the lowest and the highest, so that nothing is lost of what is covered; where it is
            // one of them itself it is still to be passed.
            if let Some((_, height)) = left.filter(|(before, _)| before + 1.0 == number)
                && chunk[1..].iter().any(|p| p.1 <= chunk[0].1)
                && chunk[1..].iter().any(|p| p.1 >= chunk[0].1)
            {
                chunk[0].1 = height;
            }
        }
        left = is_dense.then(|| (number, chunk[chunk.len() - 1].1));
    }
    kept
}

/// As [`columns`], by their places in `points`.
pub fn picked(points: &[(f64, f64)], pixel: f64) -> Vec<usize> {
    let column = |p: &(f64, f64)| (p.0 / pixel).floor();
    let mut kept = Vec::new();
    let mut start = 0;
    for chunk in points.chunk_by(|a, b| column(a) == column(b)) {
        let by = |pick: fn(f64, f64) -> bool| {
            (1..chunk.len()).fold(0, |best, i| if pick(chunk[i].1, chunk[best].1) { i } else { best })
        };
        let mut picked = [0, by(|a, b| a < b), by(|a, b| a > b), chunk.len() - 1];
        picked.sort_unstable();
        for (n, &i) in picked.iter().enumerate() {
            if n == 0 || picked[n - 1] != i {
                kept.push(start + i);
            }
        }
        start += chunk.len();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_among_ten_thousand_points_survive() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i) * 0.07, f64::from(i % 7))).collect();
        points[6_550].1 = 99.0; // in the midst of their columns
        points[3_050].1 = -99.0;
        let kept = columns(&points, 1.0);
        assert!(kept.len() <= 4 * 700, "{}", kept.len());
        for (x, y) in [points[6_550], points[3_050]] {
            assert!(kept.iter().any(|p| p.1 == y && (p.0 - x).abs() < 1.0));
        }
        assert!(kept.windows(2).all(|w| w[0].0 <= w[1].0), "the order stays");
    }

    #[test]
    fn between_dense_columns_a_line_is_level_and_still_covers_all() {
        let points: Vec<(f64, f64)> =
            (0..4_000).map(|i| (f64::from(i) * 0.05, f64::from(i * i % 1009) + f64::from(i) / 9.0)).collect();
        let kept = columns(&points, 1.0);
        let slanted = kept.windows(2).filter(|w| w[0].0 != w[1].0 && w[0].1 != w[1].1).count();
        assert!(slanted < 60, "of 199: {slanted}");
        for column in 0..200 {
            let of = |points: &[(f64, f64)]| -> Vec<f64> {
                points.iter().filter(|p| p.0.floor() == f64::from(column)).map(|p| p.1).collect()
            };
            let extent =
                |ys: &[f64]| (ys.iter().copied().fold(f64::MAX, f64::min), ys.iter().copied().fold(0.0, f64::max));
            let ((lo, hi), (kept_lo, kept_hi)) = (extent(&of(&points)), extent(&of(&kept)));
            assert!(kept_lo <= lo && kept_hi >= hi, "column {column}");
            assert_eq!(of(&points).last(), of(&kept).last());
        }
    }

    #[test]
    fn sparse_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (10.0, 3.0), (20.0, 2.0)];
        assert_eq!(columns(&points, 1.0), points);
        assert_eq!(columns(&[], 1.0), []);
    }
}
