//! What runs need of memory: what their configs say, corrected by what the sweep's own runs turn out to need; and what
//! becomes of one that did not get it because of its neighbours.

use std::{collections::BTreeMap, time::Duration};

use super::{Action, Entry, Queue, Standing, Task};
use crate::{base::RunId, event::is_out_of_memory, exec::device::kind};

/// By how much the needs that follow from configs are wrong, for each kind of device.
#[derive(Debug, Default)]
pub struct Correction {
    /// Measured over estimated.
    factors: BTreeMap<String, f64>,
}

impl Correction {
    /// The bytes that a run needs with so many threads, as far as is known by now.
    pub fn need(&self, task: &Task, threads: usize) -> u64 {
        let factor = self.factors.get(kind(&task.device)).copied().unwrap_or(1.0);
        (task.bytes(threads) as f64 * factor) as u64
    }

    /// A run needed so many bytes with so many threads. The first counts whichever way the estimate was wrong; those after
    /// it only where they needed yet more, since what suffices for one run may not for the next.
    fn learn(&mut self, task: &Task, threads: usize, bytes: u64) {
        let estimated = task.bytes(threads);
        if bytes == 0 || estimated == 0 {
            return;
        }
        let found = bytes as f64 / estimated as f64;
        let factor = self.factors.entry(kind(&task.device).to_owned()).or_insert(found);
        *factor = factor.max(found);
    }
}

impl Queue {
    /// A run was started on a place: whoever is there has company from now on.
    pub(super) fn note_company(&mut self, place: usize) {
        let is_there = |entry: &&mut Entry| entry.share().is_some_and(|share| share.place == place);
        let there: Vec<&mut Entry> = self.entries.iter_mut().filter(is_there).collect();
        if there.len() > 1 {
            there.into_iter().for_each(|entry| entry.had_company = true);
        }
    }

    /// Lets a run that ran out of memory beside others wait until it has its device for itself: there it may well fit, and
    /// so may what needs more. `false` where that is not what happened, or did before.
    pub(super) fn again_alone(&mut self, now: Duration, run: RunId, why: &str, actions: &mut Vec<Action>) -> bool {
        let Some(entry) = self.entry(run) else { return false };
        let again = is_out_of_memory(why) && entry.had_company && !entry.alone;
        if again {
            entry.alone = true;
            entry.standing = Standing::Waiting(now);
            actions.push(Action::Say(format!("{}: {why}, beside other runs; starting it again alone", run.short())));
        }
        again
    }

    /// A run that is done needed so many bytes: that counts for all that have not been started. Tells the person where
    /// another number of them goes side by side by that.
    pub(super) fn measured(&mut self, run: RunId, bytes: u64, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        // How many it had before the sweep began is not known: with one the others are not given too little.
        let (task, threads) = (entry.task.clone(), entry.share().map_or(1, |share| share.threads));
        let alike = |task: &Task, other: &Task| kind(&task.device) == kind(&other.device);
        let mut waiting = self.order.iter().map(|&at| &self.entries[at]);
        let next =
            waiting.find(|entry| entry.is_waiting() && alike(&entry.task, &task)).map(|entry| entry.task.clone());
        let before = next.as_ref().map(|next| self.correction.need(next, 1));
        self.correction.learn(&task, threads, bytes);
        let (Some(next), Some(before)) = (next, before) else { return };
        let after = self.correction.need(&next, 1);
        let Some(place) = self.places.iter().find(|place| place.fits(&next) && !place.aside) else { return };
        let (were, are) = (place.fit(before), place.fit(after));
        if were != are {
            let (run, gigabytes) = (run.short(), |bytes: u64| bytes as f64 / 1e9);
            actions.push(Action::Say(format!(
                "by what {run} needed, runs like {} need {:.1} GB of memory, not {:.1} GB: {are} at a time go on {}, not {were}",
                next.run.short(),
                gigabytes(after),
                gigabytes(before),
                place.device,
            )));
        }
    }
}
