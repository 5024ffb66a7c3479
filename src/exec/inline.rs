//! Runs jobs as threads of this process: for tests and for a debugger. A panic is caught, but nothing here survives an
//! abort, and a thread cannot be killed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::Sender,
    thread,
};

use super::{Ended, Executor, Failure, Handle, Job, Message, Slot, ended, worker};
use crate::{
    base::{Context, Exit, Result},
    event::Event,
    train::Stop,
};

/// Runs jobs as threads of this process.
#[derive(Debug, Default)]
pub struct Inline;

impl Executor for Inline {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        let (run, folder, attempt) = (job.run, job.root.run(&job.run), job.attempt);
        let args = worker::Args::new(job, slot);
        let (stop, sender) = (Stop::default(), sender.clone());
        let asked = stop.clone();
        let work = move || {
            let mut mirror = |event: &Event| drop(sender.send(Message::Event { run, event: event.clone() }));
            let worked = catch_unwind(AssertUnwindSafe(|| worker::work(&args, &asked, &mut mirror)));
            let ended = match worked {
                Ok(Ok(Exit::LeaseLost)) => Ended::Elsewhere,
                Ok(Err(error)) if error.exit == Exit::LeaseLost => Ended::Elsewhere,
                Ok(Ok(_)) => ended(&folder, attempt, || Failure::death("its thread left without a word")),
                Ok(Err(error)) => ended(&folder, attempt, || Failure::from(&error)),
                Err(_) => ended(&folder, attempt, || Failure::death("its thread panicked")),
            };
            drop(sender.send(Message::Ended { run, ended }));
        };
        thread::Builder::new().name(run.short()).spawn(work).doing(Exit::Unexpected, || format!("starting {run:?}"))?;
        Ok(Box::new(Thread { stop }))
    }
}

struct Thread {
    stop: Stop,
}

impl Handle for Thread {
    fn stop(&mut self) {
        self.stop.request();
    }

    fn kill(&mut self) {
        self.stop.request();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.request();
    }
}
