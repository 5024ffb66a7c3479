//! Straight lines through points by least squares.

use super::numbers::mean;

/// y = start + slope · x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// At x = 0.
    pub start: f64,
    /// What one more of x adds.
    pub slope: f64,
    /// The share of the variance of y that the line explains.
    pub r2: f64,
}

impl Fit {
    /// The line's y.
    pub fn at(&self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

/// The line with the least squares of vertical distances; `None` for fewer than three different x, through which a line
/// would say nothing.
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let mut xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() < 3 {
        return None;
    }
    let (mx, my) = (mean_of(points, |p| p.0), mean_of(points, |p| p.1));
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let (xx, xy) = (sum(&|p| (p.0 - mx).powi(2)), sum(&|p| (p.0 - mx) * (p.1 - my)));
    let yy = sum(&|p| (p.1 - my).powi(2));
    let slope = xy / xx;
    let r2 = if yy > 0.0 { slope * xy / yy } else { 1.0 };
    Some(Fit { start: my - slope * mx, slope, r2 }).filter(|fit| fit.slope.is_finite())
}

fn mean_of(points: &[(f64, f64)], of: fn(&(f64, f64)) -> f64) -> f64 {
    mean(&points.iter().map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_line_is_found_and_how_well_it_fits() {
        let exact = fit(&[(2.0, 13.0), (4.0, 24.0), (8.0, 46.0)]).unwrap();
        assert!(
            (exact.slope - 5.5).abs() < 1e-12 && (exact.start - 2.0).abs() < 1e-12 && (exact.r2 - 1.0).abs() < 1e-12
        );
        let bent = fit(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)]).unwrap();
        assert!(bent.slope.abs() < 1e-12 && bent.r2.abs() < 1e-12);
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1)]), None);
    }
}
