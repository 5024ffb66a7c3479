//! A run that is a worker's own: its lock with the lease on it, and the folder of a new attempt. Everything that the
//! worker writes of the run passes the fence of its claim.

use std::{fs, io::ErrorKind, path::Path, process};

use super::{
    Failure, device,
    events::{self, EventLog},
    worker::{Args, say},
};
use crate::{
    base::{
        Context, Error, Exit, Result, checkpoints, clock,
        files::{self, Lock},
        folders::{Root, RunFolder},
        lease::{Fence, Held, Lease},
        provenance::Provenance,
    },
    event::{Event, Outcome, Sink, Started},
    spec::identity::FrozenRun,
    train::{self, Stop},
};

/// A run that is this worker's own.
pub struct Claim {
    /// The run's folder.
    pub folder: RunFolder,
    frozen: FrozenRun,
    held: Held,
}

impl Claim {
    /// `None` where another worker holds the run, had it since the attempt was numbered, or has done it. `lost` is called
    /// should another worker take the run over later on.
    pub fn take(args: &Args, lost: impl FnOnce(Error) + Send + 'static) -> Result<Option<Self>> {
        let folder = RunFolder::new(&args.run);
        let lease = Lease::new(args.attempt);
        let Some(lock) = lock(&folder, args, &lease)? else { return Ok(None) };
        if let Some(&last) = folder.attempts()?.last()
            && (last >= args.attempt || events::outcome(&folder.events(last)) == Some(Outcome::Done))
        {
            return Ok(None);
        }
        let held = Held::new(lock, lease, lost)?;
        let frozen = FrozenRun::read(&folder.config())?;
        let claim = Self { folder, frozen, held };
        claim.fence().check()?;
        let doing = || claim.doing(&format!("making the folder of attempt {} at", args.attempt));
        match fs::create_dir(claim.folder.attempt(args.attempt)) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None), // of a machine whose locks are not seen
            made => made.doing(Exit::Store, doing)?,
        }
        files::sync_folder(claim.folder.path()).doing(Exit::Store, doing)?;
        Ok(Some(claim))
    }

    /// What to ask before anything of the run is written.
    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// Trains the attempt, and says how that ended, and how much memory it had at most where `peak` can tell by then.
    ///
    /// # Errors
    ///
    /// [`Exit::LeaseLost`] once another worker has the run: then nothing more is written, not even that.
    pub fn train(
        &self,
        args: &Args,
        stop: &Stop,
        peak: impl FnOnce() -> Option<u64>,
        mirror: &mut dyn FnMut(&Event),
    ) -> Result<Exit> {
        let mut events = EventLog::create(self.folder.events(args.attempt), self.fence(), mirror)?;
        let outcome = match self.attempt(args, stop, &mut events) {
            Ok(outcome) => outcome,
            // Before it trained: while it waited for others.
            Err(error) if error.exit == Exit::Interrupted => {
                Outcome::Interrupted { step: checkpoints::latest_step(&self.folder)?.unwrap_or(0) }
            }
            Err(error) => {
                // What goes wrong after that is its consequence: whoever has the run now swept up behind this worker.
                self.fence().check()?;
                say(&error.to_string());
                failed(&error)
            }
        };
        let exit = match outcome {
            Outcome::Done => Exit::Done,
            Outcome::Failed { .. } => Exit::RunFailed,
            Outcome::Interrupted { .. } => Exit::Interrupted,
        };
        let peak_bytes = if outcome == Outcome::Done { peak() } else { None };
        events.emit(&Event::Finished { at: clock::now(), outcome, peak_bytes }, true)?;
        Ok(exit)
    }

    fn attempt(&self, args: &Args, stop: &Stop, events: &mut EventLog) -> Result<Outcome> {
        let root = Root::new(&args.root);
        let me = &self.held.lease().identity;
        let started = Started {
            at: clock::now(),
            attempt: args.attempt,
            pid: process::id(),
            host: me.host.clone(),
            device: args.device.clone(),
            threads: args.threads,
            version: env!("CARGO_PKG_VERSION").into(),
            boot: me.boot.clone(),
            process_started: me.started,
            provenance: Some(Provenance::here().clone().into()),
        };
        events.emit(&Event::Started(started), true)?;
        let device = device::local(&args.device, &args.id)?;
        let peak = device::peak_flops(&root.cache(), &args.id, &device, args.threads, stop);
        if let Some(error) = peak.as_ref().err().filter(|error| error.exit != Exit::Interrupted) {
            let message = format!("no MFU: {error}");
            events.emit(&Event::Warning { at: clock::now(), message }, false)?;
        }
        let job = train::Job {
            root: &root,
            folder: &self.folder,
            frozen: &self.frozen,
            attempt: args.attempt,
            device: &device,
            threads: args.threads,
            peak_flops: peak.ok(),
            stop,
            checkpoint_bytes: args.checkpoint_bytes,
            fence: self.fence(),
        };
        train::run(&job, events)
    }

    /// `opening the log of the run 3f2a91`.
    pub fn doing(&self, what: &str) -> String {
        format!("{what} the run {}", self.frozen.id.short())
    }
}

/// How an attempt ended that went wrong.
pub fn failed(error: &Error) -> Outcome {
    let Failure { why, retry } = error.into();
    Outcome::Failed { why, retry }
}

/// The run's lock: where nobody holds it, or seized from the holder that the arguments say no longer stirs.
fn lock(folder: &RunFolder, args: &Args, lease: &Lease) -> Result<Option<Lock>> {
    let path = folder.lock();
    let Some(sight) = &args.seize else {
        let lock = Lock::try_take(&path)?;
        // Another machine's, whose locks may be invisible here. Its lease is for the scheduler to watch.
        let elsewhere = Lease::read(&path)?.is_some_and(|(there, _)| !there.identity.is_here());
        return Ok(lock.filter(|_| !elsewhere));
    };
    let Some((lock, seized)) = lease.seize(&path, sight)? else { return Ok(None) };
    seal(&folder.events(seized.attempt))?;
    Ok(Some(lock))
}

/// Puts a copy in the place of the events of an attempt whose worker may stir again: what that worker was about to append
/// goes into the file that it has open, and is seen by nobody.
fn seal(events: &Path) -> Result<()> {
    match events.exists() {
        true => files::write_atomic(events, &files::read(events)?),
        false => Ok(()),
    }
}
