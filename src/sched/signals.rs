//! SIGINT, SIGTERM and SIGHUP while a sweep runs: counted instead of deadly. Afterwards they do again what they did
//! before. A SIGHUP that `nohup` had this process ignore stays ignored.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    iterator::Signals as Arrivals,
};

use crate::base::{Context, Exit, Result, machine};

/// How many requests it takes until workers that do not end are left to themselves.
pub const PATIENCE: usize = 3;

/// Counts stop signals until it is dropped.
pub struct Signals {
    arrivals: Arrivals,
    deadly: Arc<AtomicBool>,
    total: usize,
}

impl Signals {
    /// From now on the signals are counted.
    pub fn listen() -> Result<Self> {
        let doing = || "listening to signals".into();
        let arrivals = Arrivals::new(heeded()).doing(Exit::Unexpected, doing)?;
        let deadly = switch().doing(Exit::Unexpected, doing)?;
        deadly.store(false, Ordering::SeqCst);
        Ok(Self { arrivals, deadly, total: 0 })
    }

    /// How many have arrived since the last call. A terminal that goes away may say so more than once: that asks to stop,
    /// and never to stop at once.
    pub fn arrived(&mut self) -> usize {
        let mut count = 0;
        for signal in self.arrivals.pending() {
            count += usize::from(signal != SIGHUP || self.total + count == 0);
        }
        self.total += count;
        count
    }

    /// How many have arrived in all.
    pub fn total(&self) -> usize {
        self.total
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.deadly.store(true, Ordering::SeqCst);
        self.arrivals.handle().close();
    }
}

fn heeded() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !machine::ignores(signal))
}

/// Whether a signal does what it does by default. Made once: a handler, once set, stays with the process.
fn switch() -> std::io::Result<Arc<AtomicBool>> {
    static DEADLY: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(deadly) = DEADLY.get() {
        return Ok(Arc::clone(deadly));
    }
    let deadly = Arc::new(AtomicBool::new(false));
    for signal in heeded() {
        flag::register_conditional_default(signal, Arc::clone(&deadly))?;
    }
    Ok(Arc::clone(DEADLY.get_or_init(|| deadly)))
}
