//! `--fail-fast`, and devices that are broken.

use std::{cell::RefCell, sync::mpsc::Sender};

use exp::{
    base::{Exit, Result},
    event::Outcome,
    exec::{Ended, Executor, Handle, Job, Message, Slot},
    sched::{self, Options, Outside},
};

use crate::{
    common::*,
    lab::{Fixed, Said, machine},
};

#[test]
fn the_first_failure_stops_the_others_where_that_is_asked_for() {
    let lab = Lab::new();
    let spec = SPEC.replace("seeds: 2", "grid: {lr: [1e30, 1e-3, 1e-4]}").replace("steps: 1500", "steps: 60");
    let ended = lab.run(&spec, &["--fail-fast", "--jobs", "1"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("(--fail-fast)"), "it says so: {ended:?}");
    let words: Vec<&str> = lab.rows().iter().map(|row| row.state.word()).collect();
    assert_eq!(words, ["failed", "queued", "queued"]);
    assert_eq!(lab.run(&spec, &["--jobs", "1"]).code, Some(4));
    let words: Vec<&str> = lab.rows().iter().map(|row| row.state.word()).collect();
    assert_eq!(words, ["failed", "done", "done"], "by default the others go on");
}

#[test]
fn runs_at_work_write_a_checkpoint_when_another_fails_first() {
    let lab = Lab::new();
    let spec = SPEC.replace("seeds: 2", "grid: {lr: [1e-3, 1e30]}").replace("steps: 1500", "steps: 100000");
    let ended = lab.run(&spec, &["--fail-fast", "--jobs", "2"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let words: Vec<&str> = lab.rows().iter().map(|row| row.state.word()).collect();
    assert!(matches!(words[..], ["interrupted" | "queued", "failed"]), "{words:?}");
}

/// Workers die on one device, and are done at once on any other.
struct Broken {
    device: &'static str,
    /// Where each worker was started.
    started: RefCell<Vec<String>>,
}

impl Executor for Broken {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        struct Gone;
        impl Handle for Gone {
            fn stop(&mut self) {}
            fn kill(&mut self) {}
        }
        self.started.borrow_mut().push(slot.device.clone());
        let ended = match slot.device == self.device {
            true => Ended::Died { why: "CUDA_ERROR_ECC_UNCORRECTABLE".into(), step: 0, retry: true },
            false => Ended::Finished(Outcome::Done),
        };
        sender.send(Message::Ended { run: job.run, ended }).unwrap();
        Ok(Box::new(Gone))
    }
}

/// Runs six seeds on `device` of a machine with these GPUs, of which the first is broken.
fn six_on(device: &str, gpus: &[&str]) -> (sched::Summary, Vec<String>, Vec<String>) {
    let lab = Lab::new();
    let (mut store, mut plan) = lab.plan(&SPEC.replace("seeds: 2", "seeds: 6"));
    plan.runs.iter_mut().for_each(|run| run.frozen.config.run.device = device.into());
    let devices = Fixed(machine(gpus, None));
    let (broken, mut said) = (Broken { device: "cuda:0", started: RefCell::default() }, Said::default());
    let (outside, options) = (Outside { executor: &broken, devices: &devices }, Options::default());
    let summary = sched::dispatch_on(outside, &plan.runs, &lab.root, &mut store, &options, &mut said).unwrap();
    (summary, broken.started.into_inner(), said.0)
}

#[test]
fn a_broken_device_is_set_aside_and_the_others_do_the_work() {
    let (summary, started, said) = six_on("cuda", &["cuda:0", "cuda:1"]);
    assert_eq!((summary.exit(), summary.done.len()), (Exit::Done, 6), "{said:?}");
    assert_eq!(started.iter().filter(|device| *device == "cuda:0").count(), 3, "{started:?}");
    let aside = "cuda:0 is set aside after three failures within seconds: CUDA_ERROR_ECC_UNCORRECTABLE";
    assert_eq!(said.iter().filter(|said| *said == aside).count(), 1, "{said:?}");
}

#[test]
fn runs_end_as_not_started_where_no_device_is_left() {
    let (summary, started, said) = six_on("cuda", &["cuda:0"]);
    assert_eq!(summary.exit(), Exit::RunFailed, "{said:?}");
    assert_eq!((started.len(), summary.queued.len(), summary.interrupted.len()), (3, 3, 3), "{said:?}");
    assert!(said.iter().any(|said| said.contains("no device is left for")), "{said:?}");
}
