//! SIGINT and SIGTERM while a sweep runs: counted instead of deadly. Afterwards they do again what they did before.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    iterator::Signals as Arrivals,
};

use crate::base::{Context, Exit, Result};

/// Counts stop signals until it is dropped.
pub struct Signals {
    arrivals: Arrivals,
    deadly: Arc<AtomicBool>,
}

impl Signals {
    /// From now on the signals are counted.
    pub fn listen() -> Result<Self> {
        let doing = || "listening to signals".into();
        let arrivals = Arrivals::new([SIGINT, SIGTERM]).doing(Exit::Unexpected, doing)?;
        let deadly = switch().doing(Exit::Unexpected, doing)?;
        deadly.store(false, Ordering::SeqCst);
        Ok(Self { arrivals, deadly })
    }

    /// How many have arrived since the last call.
    pub fn arrived(&mut self) -> usize {
        self.arrivals.pending().count()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.deadly.store(true, Ordering::SeqCst);
        self.arrivals.handle().close();
    }
}

/// Whether a signal does what it does by default. Made once: a handler, once set, stays with the process.
fn switch() -> std::io::Result<Arc<AtomicBool>> {
    static DEADLY: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(deadly) = DEADLY.get() {
        return Ok(Arc::clone(deadly));
    }
    let deadly = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&deadly))?;
    }
    Ok(Arc::clone(DEADLY.get_or_init(|| deadly)))
}
