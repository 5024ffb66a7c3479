//! Random histories against a model that a reader can check: the values of each attempt, and what later ones void.

use std::collections::BTreeMap;

use exp::{
    event::{Event, Outcome},
    store::Store,
};
use proptest::prelude::*;

use crate::common::*;

/// One attempt: where it starts, how far it gets, how it ends, and after how many of its lines the index is asked.
#[derive(Clone, Debug)]
struct Try {
    from_step: u64,
    steps: u64,
    eval_every: u64,
    says_ready: bool,
    finishes: bool,
    /// What a worker that was thought dead writes after the next attempt began.
    late: u64,
    cut: usize,
}

prop_compose! {
    fn tries()(
        seeds in prop::collection::vec((0..30u64, 0..30u64, 1..6u64, 0..6u8, any::<bool>(), 0..4u64, any::<usize>()), 1..6)
    ) -> Vec<Try> {
        let mut reached = 0;
        seeds.into_iter().map(|(from, steps, eval_every, ready, finishes, late, cut)| {
            let from_step = from.min(reached);
            let says_ready = ready > 0;
            reached = if says_ready { from_step + steps } else { reached };
            Try { from_step, steps, eval_every, says_ready, finishes, late, cut }
        }).collect()
    }
}

impl Try {
    fn events(&self, attempt: u32) -> Vec<Event> {
        let mut events = vec![started(attempt)];
        if self.says_ready {
            events.push(ready(self.from_step));
            if self.from_step == 0 {
                events.push(eval(0, value(attempt, 0)));
            }
            events.extend(self.progress(attempt, self.from_step + 1, self.from_step + self.steps));
        }
        if self.finishes {
            events.push(finished(Outcome::Interrupted { step: self.from_step }));
        }
        events
    }

    fn late_events(&self, attempt: u32) -> Vec<Event> {
        let reached = self.from_step + self.steps;
        let last = if self.says_ready { reached + self.late } else { reached };
        self.progress(attempt, reached + 1, last)
    }

    fn progress(&self, attempt: u32, first: u64, last: u64) -> Vec<Event> {
        let evaluates = |k: &u64| k.is_multiple_of(self.eval_every);
        (first..=last)
            .flat_map(|k| {
                let evaluation = Some(k).filter(evaluates).map(|k| eval(k, value(attempt, k)));
                [Some(step(k, value(attempt, k))), evaluation]
            })
            .flatten()
            .collect()
    }
}

/// Tells by whom and when; some are not finite.
fn value(attempt: u32, step: u64) -> f64 {
    if step % 7 == 3 { f64::NAN } else { f64::from(attempt) * 1000.0 + step as f64 }
}

/// What is left of the values of all attempts.
fn model(tries: &[Try], name: &str) -> BTreeMap<u64, (u32, u64)> {
    let mut kept = BTreeMap::new();
    for (attempt, this) in (1..).zip(tries) {
        if this.says_ready {
            kept.retain(|&step, _| step <= this.from_step && this.from_step > 0);
        }
        let later = tries[attempt as usize..].iter().filter(|t| t.says_ready).map(|t| t.from_step).min();
        let counts = |step: u64| later.is_none_or(|from| step <= from && from > 0);
        for event in this.events(attempt).into_iter().chain(this.late_events(attempt)) {
            let (step, x) = match (event, name) {
                (Event::Step(s), "train/loss") => (s.step, s.loss),
                (Event::Eval(e), "val/loss") => (e.step, e.val_loss),
                _ => continue,
            };
            if counts(step) {
                kept.insert(step, (attempt, x.to_bits()));
            }
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn one_value_per_step_whatever_was_killed_and_resumed(tries in tries(), splits in any::<bool>()) {
        let (home, mut store, ids) = Home::with_runs(1);
        let id = &ids[0];
        for (attempt, this) in (1..).zip(&tries) {
            let text: String = this.events(attempt).iter().map(line).collect();
            let cut = this.cut % text.len();
            home.append_text(id, attempt, &text[..cut]);
            if splits {
                store.ingest(id).unwrap();
            }
            home.append_text(id, attempt, &text[cut..]);
            if attempt > 1 {
                if splits {
                    store.sync().unwrap();
                }
                home.append(id, attempt - 1, &tries[attempt as usize - 2].late_events(attempt - 1));
            }
        }
        let last = tries.len() as u32;
        home.append(id, last, &tries[last as usize - 1].late_events(last));
        store.ingest(id).unwrap();

        for name in ["train/loss", "val/loss"] {
            let stored: BTreeMap<_, _> = store
                .curve(id, name).unwrap().iter().map(|p| (p.step, (p.attempt, p.value.to_bits()))).collect();
            prop_assert_eq!(&stored, &model(&tries, name), "{}", name);
            prop_assert_eq!(store.curve(id, name).unwrap().len(), stored.len());
        }
        let val: Vec<_> = model(&tries, "val/loss").iter().map(|(&s, &(_, bits))| (s, f64::from_bits(bits))).collect();
        let best = val.iter().copied().filter(|(_, x)| x.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1));
        let row = store.run(id).unwrap().unwrap();
        prop_assert_eq!(row.best, best);
        prop_assert_eq!(row.last_val_loss.map(f64::to_bits), val.last().map(|(_, x)| x.to_bits()));
        let goes_on_from = tries.last().filter(|last| last.finishes).map_or(0, |last| last.from_step);
        prop_assert_eq!(row.step, goes_on_from, "it is interrupted");

        drop(store);
        let grown = dump(&home.root);
        drop(Store::rebuild(&home.root).unwrap());
        prop_assert_eq!(grown, dump(&home.root));
    }
}
