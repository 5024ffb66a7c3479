//! The curves of a setting: means over its seeds at the steps that all of them have.

use std::cell::OnceCell;

use super::frame::{Frame, LeftOut, Run, Setting};
use crate::store::Point;

/// The values of several runs at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The step.
    pub step: u64,
    /// Their mean; not finite where one of them is not.
    pub mean: f64,
    /// The lowest.
    pub lo: f64,
    /// The highest.
    pub hi: f64,
}

/// The curves of the runs of one setting. Each is worked out when it is first asked for: no picture shows all of them.
pub struct Curves<'a> {
    /// The setting's value on each axis, as an index.
    pub at: Vec<usize>,
    /// The runs that they are the mean of: those that are done; where there is none those that still can be, or pause, and
    /// are at least half as far as the furthest, since a mean ends where its first run ends; where there is none those
    /// that failed.
    pub runs: Vec<&'a Run>,
    /// Whether these broke off for good.
    pub failed: bool,
    /// Whether some of these pause, behind the others.
    pub paused: bool,
    frame: &'a Frame,
    val: OnceCell<Vec<Spread>>,
    train: OnceCell<Vec<Spread>>,
    seconds: OnceCell<Vec<Spread>>,
    gap: OnceCell<Vec<Spread>>,
    grad_norm: OnceCell<Vec<Spread>>,
}

impl<'a> Curves<'a> {
    /// The curves of a setting; `None` where none of its runs has logged anything.
    pub fn of(frame: &'a Frame, setting: &Setting<'a>) -> Option<Self> {
        let with = |keep: fn(Option<LeftOut>) -> bool| -> Vec<&'a Run> {
            setting.runs.iter().copied().filter(|r| r.has_data() && keep(r.left_out())).collect()
        };
        let done = with(|reason| reason.is_none());
        let mut unfinished = with(|reason| is_open(reason.as_ref()));
        let furthest = unfinished.iter().map(|r| r.row.step).max().unwrap_or(0);
        unfinished.retain(|r| 2 * r.row.step >= furthest);
        let failed = with(|reason| reason.is_some() && !is_open(reason.as_ref()));
        let runs = [done, unfinished, failed].into_iter().find(|r| !r.is_empty())?;
        Some(Self {
            at: setting.at.clone(),
            failed: runs[0].left_out().is_some_and(|reason| !is_open(Some(&reason))),
            paused: runs.iter().any(|run| run.left_out() == Some(LeftOut::Paused)),
            runs,
            frame,
            val: OnceCell::new(),
            train: OnceCell::new(),
            seconds: OnceCell::new(),
            gap: OnceCell::new(),
            grad_norm: OnceCell::new(),
        })
    }

    /// Validation loss in the frame's unit.
    pub fn val(&self) -> &[Spread] {
        self.val.get_or_init(|| self.losses(|r| &r.val))
    }

    /// Training loss of each step in the frame's unit.
    pub fn train(&self) -> &[Spread] {
        self.train.get_or_init(|| self.losses(|r| &r.train))
    }

    /// Seconds of training after each step.
    pub fn seconds(&self) -> &[Spread] {
        self.seconds.get_or_init(|| self.mean(Run::seconds))
    }

    /// Validation loss minus training loss, both of windows that stay the same, in the frame's unit.
    pub fn gap(&self) -> &[Spread] {
        self.gap.get_or_init(|| self.mean(|r| gap(self.frame, r)))
    }

    /// The norm of all gradients, before clipping.
    pub fn grad_norm(&self) -> &[Spread] {
        self.grad_norm.get_or_init(|| self.mean(|r| r.grad_norm.clone()))
    }

    fn losses(&self, curve: fn(&Run) -> &[Point]) -> Vec<Spread> {
        let loss = |r: &Run, p: &Point| Point { value: self.frame.loss(r, p.value), ..*p };
        self.mean(|r| curve(r).iter().map(|p| loss(r, p)).collect())
    }

    fn mean(&self, curve: impl Fn(&Run) -> Vec<Point>) -> Vec<Spread> {
        mean_over(&self.runs.iter().map(|r| curve(r)).collect::<Vec<_>>())
    }

    /// The seconds of training after `step`, where that was measured.
    pub fn seconds_at(&self, step: u64) -> Option<f64> {
        let found = self.seconds().binary_search_by_key(&step, |s| s.step).ok()?;
        Some(self.seconds()[found].mean)
    }
}

/// Whether a run that has no result can still come to one.
fn is_open(reason: Option<&LeftOut>) -> bool {
    matches!(reason, Some(LeftOut::Unfinished | LeftOut::Paused))
}

/// A run's validation loss minus its training loss at the steps that have both.
fn gap(frame: &Frame, run: &Run) -> Vec<Point> {
    let mut train = run.eval_train.iter().peekable();
    let at = |p: &Point| {
        while train.next_if(|t| t.step < p.step).is_some() {}
        let t = train.peek().filter(|t| t.step == p.step)?;
        Some(Point { value: frame.loss(run, p.value) - frame.loss(run, t.value), ..*p })
    };
    run.val.iter().filter_map(at).collect()
}

/// The values at each step that all curves have.
pub fn mean_over(curves: &[Vec<Point>]) -> Vec<Spread> {
    let Some((first, others)) = curves.split_first() else { return Vec::new() };
    let mut next = vec![0usize; others.len()];
    let mut out = Vec::with_capacity(first.len());
    'steps: for p in first {
        let (mut sum, mut lo, mut hi) = (p.value, p.value, p.value);
        for (curve, next) in others.iter().zip(&mut next) {
            *next += curve[*next..].iter().take_while(|q| q.step < p.step).count();
            match curve.get(*next) {
                Some(q) if q.step == p.step => {
                    (sum, lo, hi) = (sum + q.value, lo.min(q.value), hi.max(q.value));
                }
                _ => continue 'steps,
            }
        }
        out.push(Spread { step: p.step, mean: sum / curves.len() as f64, lo, hi });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Vec<Point> {
        points.iter().map(|&(step, value)| Point { step, value, attempt: 1 }).collect()
    }

    #[test]
    fn a_mean_is_taken_at_the_steps_that_all_curves_have() {
        let got = mean_over(&[curve(&[(0, 4.0), (10, 2.0), (20, 1.0)]), curve(&[(0, 5.0), (5, 9.0), (10, 3.0)])]);
        let want = [Spread { step: 0, mean: 4.5, lo: 4.0, hi: 5.0 }, Spread { step: 10, mean: 2.5, lo: 2.0, hi: 3.0 }];
        assert_eq!(got, want);
    }

    #[test]
    fn a_value_that_is_not_finite_is_never_averaged_away() {
        let got = mean_over(&[curve(&[(1, 4.0)]), curve(&[(1, f64::NAN)])]);
        assert!(got[0].mean.is_nan());
    }
}
