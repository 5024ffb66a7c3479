//! A loss over the steps in a few hundred numbers: of each stretch of steps the lowest and the highest value, so that no
//! spike is lost, and whether one was not finite. Stretches grow with the run; what was seen is never read again.

/// The most stretches; at half of that they are twice as long as before.
const MOST: usize = 512;

/// A metric over the steps of a run so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Steps of a stretch.
    width: u64,
    stretches: Vec<Stretch>,
    /// The last point; its value may not be finite.
    pub last: Option<(u64, f64)>,
}

/// What values were seen in some steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The lowest and the highest finite one.
    pub range: Option<(f64, f64)>,
    /// Whether one was not finite.
    pub is_broken: bool,
}

/// How a column of a line of blocks looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing was seen there.
    Nothing,
    /// The height of its highest value, from 0 to 7.
    Level(usize),
    /// A value was not finite.
    Broken,
}

const NOTHING: Stretch = Stretch { range: None, is_broken: false };

impl Default for Curve {
    fn default() -> Self {
        Self { width: 1, stretches: Vec::new(), last: None }
    }
}

impl Curve {
    /// Takes in the next point; steps ascend, from 1.
    pub fn push(&mut self, step: u64, value: f64) {
        let place = |width: u64| usize::try_from(step.saturating_sub(1) / width).unwrap_or(usize::MAX);
        while place(self.width) >= MOST {
            self.stretches = self.stretches.chunks(2).map(joined).collect();
            self.width *= 2;
        }
        let place = place(self.width);
        if self.stretches.len() <= place {
            self.stretches.resize(place + 1, NOTHING);
        }
        let seen = match value.is_finite() {
            true => Stretch { range: Some((value, value)), is_broken: false },
            false => Stretch { range: None, is_broken: true },
        };
        self.stretches[place] = joined(&[self.stretches[place], seen]);
        self.last = Some((step, value));
    }

    /// The lowest and the highest finite value.
    pub fn range(&self) -> Option<(f64, f64)> {
        joined(&self.stretches).range
    }

    /// The steps so far in so many columns of equal width, where there are enough steps for that; else in fewer.
    pub fn columns(&self, most: usize) -> Vec<Stretch> {
        let (have, columns) = (self.stretches.len(), self.stretches.len().min(most));
        (0..columns).map(|c| joined(&self.stretches[c * have / columns..(c + 1) * have / columns])).collect()
    }

    /// A line of blocks, at most so many: each as high as the highest value of its steps, between all that were seen.
    pub fn marks(&self, most: usize) -> Vec<Mark> {
        let Some((low, high)) = self.range() else {
            return self.columns(most).iter().map(|c| if c.is_broken { Mark::Broken } else { Mark::Nothing }).collect();
        };
        let level = |value: f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.0 };
            (share * 7.0).round().clamp(0.0, 7.0) as usize
        };
        let mark = |column: &Stretch| match column {
            Stretch { is_broken: true, .. } => Mark::Broken,
            Stretch { range: Some((_, high)), .. } => Mark::Level(level(*high)),
            _ => Mark::Nothing,
        };
        self.columns(most).iter().map(mark).collect()
    }
}

/// What was seen in all of some stretches.
fn joined(stretches: &[Stretch]) -> Stretch {
    stretches.iter().fold(NOTHING, |all, one| Stretch {
        range: match (all.range, one.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (range, other) => range.or(other),
        },
        is_broken: all.is_broken || one.is_broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: impl IntoIterator<Item = f64>) -> Curve {
        let mut curve = Curve::default();
        values.into_iter().zip(1..).for_each(|(value, step)| curve.push(step, value));
        curve
    }

    #[test]
    fn a_spike_and_what_is_not_finite_outlive_a_million_steps() {
        let value = |step: u64| match step {
            250_000 => 90.0,
            700_000 => f64::NAN,
            900_000 => f64::INFINITY,
            _ => 1.0,
        };
        let curve = curve((1..=1_000_000).map(value));
        assert!((MOST / 2..=MOST).contains(&curve.stretches.len()), "{}", curve.stretches.len());
        assert_eq!((curve.range(), curve.last), (Some((1.0, 90.0)), Some((1_000_000, 1.0))));
        let marks = curve.marks(10);
        let mut expected = vec![Mark::Level(0); 10];
        (expected[2], expected[6], expected[8]) = (Mark::Level(7), Mark::Broken, Mark::Broken);
        assert_eq!(marks, expected);
    }

    #[test]
    fn few_steps_are_few_blocks() {
        let levels = |curve: &Curve, most| curve.marks(most);
        assert_eq!(levels(&curve([]), 8), []);
        assert_eq!(levels(&curve([2.0]), 8), [Mark::Level(0)]);
        assert_eq!(levels(&curve([3.0, 2.0, 1.0]), 8), [7, 4, 0].map(Mark::Level));
        assert_eq!(levels(&curve([f64::NAN]), 8), [Mark::Broken]);
        assert_eq!(levels(&curve([3.0, 2.0, 1.0]), 0), []);
    }

    #[test]
    fn steps_that_were_not_seen_are_empty() {
        let mut curve = Curve::default();
        curve.push(1, 4.0);
        curve.push(4, 1.0);
        assert_eq!(curve.marks(4), [Mark::Level(7), Mark::Nothing, Mark::Nothing, Mark::Level(0)]);
    }
}
