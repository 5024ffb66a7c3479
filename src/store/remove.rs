//! Takes runs and experiments away, from the folders: the index forgets what has no folder the next time that it is
//! brought up to date.
//!
//! A run goes under its lock, so that nobody is training it, and vanishes at once: whoever is killed meanwhile leaves all
//! of it or none.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use super::running;
use crate::base::{
    Context, Error, Exit, Result, RunId,
    files::{self, Lock},
    folders::{Root, RunFolder},
    lease::{self, Holder, Lease, Sight, Watch},
    wait,
};

/// How long an `exp run` may take to end whose runs were cancelled.
const PATIENCE: Duration = Duration::from_secs(2);

/// Those of some runs that are being trained, here or on another machine, as far as one look can tell.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told.
pub fn trained(root: &Root, runs: &[RunId]) -> Result<Vec<RunId>> {
    let held = |run: &RunId| Ok(lease::is_held(&root.run(run).lock())?.then_some(*run));
    runs.iter().filter_map(|run| held(run).transpose()).collect()
}

/// The lock of a run that nobody trains, by its lock and lease; `None` where somebody does, or may do so.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told.
pub fn alone(folder: &RunFolder) -> Result<Option<Lock>> {
    let lock = Lock::try_take(&folder.lock())?;
    Ok(if lease_elsewhere(folder)?.is_none() { lock } else { None })
}

/// The lease of a worker of another machine, whose locks may be invisible here.
fn lease_elsewhere(folder: &RunFolder) -> Result<Option<Sight>> {
    let lease = Lease::read(&folder.lock())?.filter(|(lease, _)| !lease.identity.is_here());
    Ok(lease.map(|(_, sight)| sight))
}

/// Removes runs.
pub struct Remover<'a> {
    root: &'a Root,
    /// The leases that another machine left, which nobody renews.
    stale: HashMap<RunId, Sight>,
}

impl<'a> Remover<'a> {
    /// For these runs, none of which [is trained](trained) at first sight. Where another machine left a lease, that is
    /// watched for as long as it lasts: no two clocks say whether somebody renews it.
    ///
    /// # Errors
    /// [`Exit::Usage`] where one is renewed; [`Exit::Store`] where that cannot be told.
    pub fn new(root: &'a Root, runs: &[RunId]) -> Result<Self> {
        let (mut watch, mut stale, mut left) = (Watch::default(), HashMap::new(), Vec::new());
        for run in runs {
            left.extend(lease_elsewhere(&root.run(run))?.map(|sight| (*run, sight)));
        }
        if !left.is_empty() {
            let seconds = watch.period().as_secs_f64();
            wait::say(&format!("watching for {seconds} s whether the workers of another machine are at work"));
        }
        while !left.is_empty() {
            for (run, sight) in std::mem::take(&mut left) {
                match lease_elsewhere(&root.run(&run))? {
                    Some(now) if now != sight => return Err(is_trained(&run)),
                    Some(_) if matches!(watch.look(&root.run(&run).lock())?, Holder::Stale(_)) => {
                        stale.insert(run, sight);
                    }
                    Some(_) => left.push((run, sight)),
                    None => {} // it was let go
                }
            }
            thread::sleep((watch.period() / 20).min(Duration::from_millis(200)));
        }
        Ok(Self { root, stale })
    }

    /// Removes a run. One that has no folder any more is gone already.
    ///
    /// # Errors
    /// [`Exit::Usage`] where somebody has begun to train it; [`Exit::Store`] where it cannot be removed.
    pub fn run(&self, run: &RunId) -> Result<()> {
        let folder = self.root.run(run);
        let doing = || format!("removing the run {}", run.short());
        if files::stands(folder.path()).doing(Exit::Store, doing)?.is_none() {
            return Ok(());
        }
        let lock = Lock::try_take(&folder.lock())?;
        let elsewhere = lease_elsewhere(&folder)?;
        if lock.is_none() || elsewhere.is_some_and(|sight| self.stale.get(run) != Some(&sight)) {
            return Err(is_trained(run));
        }
        files::remove(folder.path()).doing(Exit::Store, doing)
    }

    /// Removes what is known of an experiment besides its runs.
    ///
    /// # Errors
    /// [`Exit::Usage`] where an `exp run` of it is at work, or a model is being imported into it; [`Exit::Store`] where it
    /// cannot be removed.
    pub fn experiment(&self, name: &str) -> Result<()> {
        let folder = self.root.experiment(name);
        let doing = || format!("removing the experiment {name}");
        if files::stands(&folder).doing(Exit::Store, doing)?.is_none() {
            return Ok(());
        }
        let Some(_alone) = Lock::try_take(&self.root.experiment_lock(name))? else {
            return Err(Error::new(
                Exit::Usage,
                doing(),
                "an `exp run` of it begins, or a model is being imported into it",
            ));
        };
        if running::count(self.root, name)? > 0 {
            return Err(is_running(name));
        }
        files::remove(&folder).doing(Exit::Store, doing)
    }
}

/// Refuses while an `exp run` of the experiment is at work, after a while in which one ends that has nothing more to do.
///
/// # Errors
/// [`Exit::Usage`] where one goes on; [`Exit::Store`] where that cannot be told.
pub fn refuse_running(root: &Root, experiment: &str) -> Result<()> {
    let begun = Instant::now();
    while running::count(root, experiment)? > 0 {
        if begun.elapsed() > PATIENCE {
            return Err(is_running(experiment));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn is_running(experiment: &str) -> Error {
    let doing = format!("removing the experiment {experiment}");
    Error::new(Exit::Usage, doing, "an `exp run` of it is at work")
        .hint(format!("`exp cancel {experiment}` stops it; or wait until it ends"))
}

fn is_trained(run: &RunId) -> Error {
    let id = run.short();
    Error::new(Exit::Usage, format!("removing the run {id}"), "it is being trained")
        .hint(format!("`exp cancel {id}` stops it"))
}
