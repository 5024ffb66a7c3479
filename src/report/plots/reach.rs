//! What a curve runs over: steps, training time, tokens, FLOPs, each in the unit that suits the longest run.

use super::super::{curves::Curves, frame::Run};

/// What has been spent after a step.
type Spent = Box<dyn Fn(&Curves, u64) -> Option<f64>>;

/// How far a run is.
pub struct Reach {
    /// With its unit.
    pub label: String,
    spent: Spent,
}

impl Reach {
    /// What is counted as FLOPs.
    pub const FLOPS: &str =
        "FLOPs: those of forward and backward passes over the trained tokens; evaluations left out.";

    /// In updates.
    pub fn steps() -> Self {
        Self { label: "steps".into(), spent: Box::new(|_, step| Some(step as f64)) }
    }

    /// In training time.
    pub fn time(curves: &[Curves]) -> Self {
        let longest = curves.iter().filter_map(|c| c.seconds().last()).map(|s| s.mean).fold(0.0, f64::max);
        let (seconds, unit) = match longest {
            ..=180.0 => (1.0, "seconds"),
            ..=10_800.0 => (60.0, "minutes"),
            _ => (3600.0, "hours"),
        };
        let spent = move |c: &Curves, step| Some(c.seconds_at(step)? / seconds);
        Self { label: format!("training time ({unit})"), spent: Box::new(spent) }
    }

    /// In trained tokens.
    pub fn tokens(curves: &[Curves]) -> Self {
        let tokens = |run: &Run, step: u64| Some((run.row.config.tokens_per_step() * step) as f64);
        let units = [(1e9, "tokens (billions)"), (1e6, "tokens (millions)"), (1e3, "tokens (thousands)")];
        Self::counted(curves, tokens, &units, "tokens")
    }

    /// In FLOPs; `None` where a run does not say how many a token takes.
    pub fn flops(curves: &[Curves]) -> Option<Self> {
        let known = |c: &Curves| c.runs.iter().all(|run| run.flops(1).is_some());
        let units = [
            (1e18, "training compute (EFLOPs)"),
            (1e15, "training compute (PFLOPs)"),
            (1e12, "training compute (TFLOPs)"),
            (1e9, "training compute (GFLOPs)"),
        ];
        curves.iter().all(known).then(|| Self::counted(curves, Run::flops, &units, "training compute (FLOPs)"))
    }

    fn counted(curves: &[Curves], count: fn(&Run, u64) -> Option<f64>, units: &[(f64, &str)], plain: &str) -> Self {
        let last = |c: &Curves| c.train().iter().chain(c.val()).map(|s| s.step).max();
        let most = curves.iter().filter_map(|c| count(c.runs[0], last(c)?)).fold(0.0, f64::max);
        let (size, label) = units.iter().find(|(size, _)| most >= 2.0 * size).copied().unwrap_or((1.0, plain));
        let spent = move |c: &Curves, step| Some(count(c.runs[0], step)? / size);
        Self { label: label.to_owned(), spent: Box::new(spent) }
    }

    /// What was spent after a step, where that is known.
    pub fn at(&self, curves: &Curves, step: u64) -> Option<f64> {
        (self.spent)(curves, step)
    }
}
