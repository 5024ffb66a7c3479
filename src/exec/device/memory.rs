//! The most memory of its device that this process had: what a worker tells at its end, so that those after it are
//! given what they need.

use std::cell::Cell;

use super::{kind, local};
use crate::base::machine;

/// What a process holds of a GPU's memory beside what it allocates, in bytes: the driver's context, the kernels, cuBLAS's
/// workspace. A round number on the safe side for chips of the last years.
pub const CONTEXT_BYTES: u64 = 512 << 20;

/// The most bytes of a device's memory that this process had at once, for all that it did on it.
pub struct Peak<'a> {
    name: &'a str,
    id: &'a str,
    seen: Cell<Option<u64>>,
}

impl<'a> Peak<'a> {
    /// Of the device of that name, which all processes call `id`.
    pub fn of(name: &'a str, id: &'a str) -> Self {
        Self { name, id, seen: Cell::new(None) }
    }

    /// Looks what it has come to. A GPU's driver may forget it when the last that this process has there is gone.
    pub fn look(&self) {
        if kind(self.name) == "cuda" {
            self.seen.set(local(self.name, self.id).ok().and_then(|device| cuda_pool(&device)).or(self.seen.get()));
        }
    }

    /// What it came to; `None` where that cannot be told.
    pub fn bytes(&self) -> Option<u64> {
        match kind(self.name) {
            "cpu" => machine::peak_resident_bytes(),
            _ => Some(self.seen.get()? + CONTEXT_BYTES),
        }
    }
}

/// The most that the memory pool had which candle allocates from, as of now.
#[cfg(feature = "cuda")]
fn cuda_pool(device: &str) -> Option<u64> {
    use candle_core::cuda_backend::cudarc::driver::{result, sys::CUmemPool_attribute};
    let device = result::device::get(device.strip_prefix("cuda:")?.parse().ok()?).ok()?;
    let mut bytes = 0u64;
    // SAFETY: the driver named the device, its pool lives as long as the process, and this attribute is 64 bits long.
    // cudarc has no safe call for it.
    unsafe {
        let pool = result::device::get_mem_pool(device).ok()?;
        let what = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
        result::mem_pool::get_attribute(pool, what, (&raw mut bytes).cast()).ok()?;
    }
    Some(bytes).filter(|&bytes| bytes > 0)
}

#[cfg(not(feature = "cuda"))]
fn cuda_pool(_: &str) -> Option<u64> {
    None
}
