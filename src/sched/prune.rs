//! Which runs of a sweep go on and which pause, from what is known of all of them. Pure: it knows no clock, file or
//! process, and says the same whenever it is told the same. Who asks, and does what it says, is the queue.
//!
//! A verdict on a run follows from the metric of all runs by step, and from what has become of them; not from verdicts
//! before. So a sweep that was stopped goes on from the store, and a paused run is lifted as soon as what others did since
//! makes its verdict another. The queue keeps one thing beside: how far a run had come when it was last let go on, since
//! one that is trained is judged once at each rung. That is not stored: a run that was stopped is judged anew, by all that
//! is known then.
//!
//! **asha**: asynchronous successive halving by its promotion rule (Li et al. 2020, "A System for Massively Parallel
//! Hyperparameter Tuning"). Rungs lie at `min_steps * reduction^k` updates, whatever an update costs. Of the n runs that
//! have reached a rung, the best `n / reduction`, rounded down, may go on from it (are promoted); a run is judged by the
//! highest rung that it has reached. That rule waits for more runs where too few have come. A sweep has a last one: once no
//! other can reach a rung any more, its best goes on all the same, so that one run at least is trained to its end. A run
//! that ends at a rung or before does not count there.
//!
//! **median**: the rule of Vizier (Golovin et al. 2017). At an evaluation after s updates, `min_steps` or more, a run
//! pauses where its best value so far is worse than the median of what the others had on average up to s. The others are
//! those that have been evaluated after s updates or more; with fewer than [`ENOUGH`] nobody is stopped. Vizier takes the
//! averages of completed trials alone; here those that are trained or pause count as well, as far as they have come: a
//! grid that is trained side by side has hardly any run that is complete while there is still something to save.
//!
//! Where runs are evaluated at different steps, one that is evaluated late must not be better for that: its value at a rung
//! lies on the line between its evaluations before and after it, over the logarithm of the step, in which losses fall about
//! evenly. Without one before, that of the first evaluation beyond stands for it. What was measured before the first update
//! says nothing of a run and does not count. A value that is not finite is worse than all numbers. So are all values of a run
//! whose last one is not finite, however well it stood before, and those of a run that is out: failed, skipped, cancelled,
//! without a device. Such a run still counts among those that reached a rung, and takes nobody's place; of equals the
//! earlier in the spec is the better. A run whose own value is not finite never goes on.

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use crate::spec::search::{Prune, Search, part};

/// So many others it takes to say what is usual.
pub const ENOUGH: usize = 2;

/// What has become of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is trained, or will be: more is to come of it without a word from here.
    Moving,
    /// It pauses: more comes of it only once it is lifted.
    Paused,
    /// It is done.
    Done,
    /// Nothing comes of it any more.
    Out,
}

/// What is known of a run.
#[derive(Clone, Debug)]
struct Seen {
    /// Its updates in all.
    steps: u64,
    /// Its rungs, in ascending order.
    rungs: Vec<u64>,
    /// The metric after so many updates, in ascending steps, from the first update on.
    values: Vec<(u64, f64)>,
    fate: Fate,
}

/// Whether a run goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It goes on.
    GoesOn,
    /// It pauses.
    Pauses(Reason),
}

/// Why a run pauses.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It is not among the best of a rung.
    Rank {
        /// From 1.
        rank: usize,
        /// Runs that have reached the rung.
        of: usize,
        /// The rung.
        step: u64,
        /// One in so many goes on.
        reduction: u64,
    },
    /// It is worse than the others were.
    Median {
        /// Its best value.
        best: f64,
        /// The median of the others' averages.
        median: f64,
        /// How many others.
        others: usize,
        /// Updates done.
        step: u64,
    },
    /// Its value is not finite.
    NotFinite {
        /// Updates done.
        step: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank, of, step, reduction } => {
                write!(f, "{} of {of} at step {step}: the best {} goes on", ordinal(*rank), part(*reduction))
            }
            Self::Median { best, median, others, step } => {
                write!(f, "{best:.4} by step {step}: worse than {median:.4}, the median of {others} others")
            }
            Self::NotFinite { step } => write!(f, "not finite at step {step}"),
        }
    }
}

/// `1st`, `2nd`, `11th`.
fn ordinal(n: usize) -> String {
    let end = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}

/// All that is known of the runs of a sweep, by their places in it.
#[derive(Clone, Debug)]
pub struct Pruner {
    search: Search,
    runs: Vec<Seen>,
}

impl Pruner {
    /// Runs of which nothing is known yet, each by its updates in all.
    pub fn new(search: Search, steps: impl IntoIterator<Item = u64>) -> Self {
        let seen = |steps| Seen { steps, rungs: search.rungs(steps), values: Vec::new(), fate: Fate::Moving };
        let runs = steps.into_iter().map(seen).collect();
        Self { search, runs }
    }

    /// Takes in all that is known of a run's metric, in ascending steps. Whether that is news.
    pub fn learn(&mut self, run: usize, values: &[(u64, f64)]) -> bool {
        let after_updates = &values[values.partition_point(|(step, _)| *step == 0)..];
        let known = &self.runs[run].values;
        let same = |(a, b): (&(u64, f64), &(u64, f64))| a.0 == b.0 && a.1.to_bits() == b.1.to_bits();
        let is_news = known.len() != after_updates.len() || !known.iter().zip(after_updates).all(same);
        if is_news {
            self.runs[run].values = after_updates.to_vec();
        }
        is_news
    }

    /// Takes in what has become of a run. Whether that is news.
    pub fn set_fate(&mut self, run: usize, fate: Fate) -> bool {
        std::mem::replace(&mut self.runs[run].fate, fate) != fate
    }

    /// How far a run has come, as far as that is judged: the highest rung that it has reached, or the last evaluation that
    /// counts. `None` where there is nothing to judge yet.
    pub fn mark(&self, run: usize) -> Option<u64> {
        let seen = &self.runs[run];
        match self.search.prune {
            Prune::Asha => seen.highest().map(|rung| seen.rungs[rung]),
            Prune::Median => {
                let (step, _) = *seen.values.last()?;
                (step >= self.search.min_steps && step < seen.steps).then_some(step)
            }
        }
    }

    /// The verdict on each run.
    pub fn verdicts(&self) -> Vec<Verdict> {
        match self.search.prune {
            Prune::Asha => self.by_rungs(),
            Prune::Median => self.by_medians(),
        }
    }

    fn by_rungs(&self) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::GoesOn; self.runs.len()];
        let rungs = self.runs.iter().map(|seen| seen.rungs.len()).max().unwrap_or(0);
        // Whether somebody may still come up to a rung.
        let mut is_open = vec![false; rungs];
        for rung in 0..rungs {
            // Those below are judged by now. One that pauses there may be lifted where somebody can come up to it, though
            // that one may end before it gets here.
            let may_come = |(seen, verdict): (&Seen, &Verdict)| {
                let highest = seen.highest();
                let is_below = rung < seen.rungs.len() && highest.is_none_or(|highest| highest < rung);
                let may_be_lifted = || *verdict == Verdict::GoesOn || highest.is_some_and(|highest| is_open[highest]);
                is_below && (seen.fate == Fate::Moving || seen.fate == Fate::Paused && may_be_lifted())
            };
            let may_anybody = self.runs.iter().zip(&verdicts).any(may_come);
            is_open[rung] = may_anybody;
            let mut ranking: Vec<(usize, u64, f64)> = (self.runs.iter().enumerate())
                .filter_map(|(run, seen)| seen.at(rung).map(|(step, value)| (run, step, value)))
                .collect();
            // Stable: of equals the earlier comes first.
            ranking.sort_by(|a, b| order(a.2, b.2));
            let of = ranking.len();
            let most = (of / self.search.reduction as usize).max(usize::from(!may_anybody));
            for (place, (run, step, value)) in ranking.into_iter().enumerate() {
                let seen = &self.runs[run];
                if seen.highest() != Some(rung) {
                    continue;
                }
                let (rank, reduction) = (place + 1, self.search.reduction);
                verdicts[run] = match value.is_finite() {
                    true if place < most => Verdict::GoesOn,
                    true => Verdict::Pauses(Reason::Rank { rank, of, step: seen.rungs[rung], reduction }),
                    false => Verdict::Pauses(Reason::NotFinite { step }),
                };
            }
        }
        verdicts
    }

    fn by_medians(&self) -> Vec<Verdict> {
        let sums: Vec<Vec<f64>> = self.runs.iter().map(Seen::sums).collect();
        // The average of a run up to a step, where it has come as far.
        let average = |run: usize, step: u64| {
            let seen = &self.runs[run];
            let count = seen.values.partition_point(|(at, _)| *at <= step);
            let has_come = seen.values.last().is_some_and(|(last, _)| *last >= step);
            let value = (has_come && count > 0).then(|| sums[run][count - 1] / count as f64)?;
            Some(if seen.is_lost() || !value.is_finite() { f64::INFINITY } else { value })
        };
        let mut averages: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut verdict = |run: usize| {
            let Some(step) = self.mark(run) else { return Verdict::GoesOn };
            let values = || self.runs[run].values.iter().map(|(_, value)| *value);
            let last = values().next_back().filter(|value| value.is_finite());
            let (Some(_), Some(best)) = (last, values().filter(|value| value.is_finite()).min_by(f64::total_cmp))
            else {
                return Verdict::Pauses(Reason::NotFinite { step });
            };
            let all = averages.entry(step).or_insert_with(|| {
                let mut all: Vec<f64> = (0..self.runs.len()).filter_map(|run| average(run, step)).collect();
                all.sort_by(f64::total_cmp);
                all
            });
            let own = average(run, step).and_then(|own| all.binary_search_by(|other| other.total_cmp(&own)).ok());
            let others: Vec<f64> =
                all.iter().enumerate().filter(|(at, _)| Some(*at) != own).map(|(_, value)| *value).collect();
            match median(&others) {
                Some(median) if others.len() >= ENOUGH && best > median => {
                    Verdict::Pauses(Reason::Median { best, median, others: others.len(), step })
                }
                _ => Verdict::GoesOn,
            }
        };
        (0..self.runs.len()).map(&mut verdict).collect()
    }
}

impl Seen {
    /// The highest rung that it has reached.
    fn highest(&self) -> Option<usize> {
        let (last, _) = self.values.last()?;
        self.rungs.partition_point(|rung| rung <= last).checked_sub(1)
    }

    /// Whether nothing good can come of it any more.
    fn is_lost(&self) -> bool {
        self.fate == Fate::Out || self.values.last().is_some_and(|(_, value)| !value.is_finite())
    }

    /// The value by which it counts at a rung that it has reached, and the step of the evaluation that told.
    fn at(&self, rung: usize) -> Option<(u64, f64)> {
        let least = self.rungs.get(rung)?;
        let beyond = self.values.partition_point(|(step, _)| step < least);
        let (step, mut value) = *self.values.get(beyond)?;
        if let Some((before, there)) = beyond.checked_sub(1).map(|last| self.values[last])
            && there.is_finite()
            && value.is_finite()
        {
            let way = |from: u64, to: u64| (to as f64 / from as f64).ln();
            value = there + (value - there) * way(before, *least) / way(before, step);
        }
        match self.values.last() {
            Some((last, _)) if self.is_lost() && value.is_finite() => Some((*last, f64::NAN)),
            _ => Some((step, value)),
        }
    }

    /// The sums of its values up to each.
    fn sums(&self) -> Vec<f64> {
        let mut sum = 0.0;
        self.values
            .iter()
            .map(|(_, value)| {
                sum += value;
                sum
            })
            .collect()
    }
}

/// The lower the better, and what is not finite last.
fn order(a: f64, b: f64) -> Ordering {
    let worst = |x: f64| if x.is_finite() { x } else { f64::INFINITY };
    worst(a).total_cmp(&worst(b))
}

/// Of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(low / 2.0 + high / 2.0)
}

#[cfg(test)]
mod tests;
