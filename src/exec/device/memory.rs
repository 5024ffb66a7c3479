//! The most memory of its device that this process had: what a worker tells at its end, so that those after it are
//! given what they need.

use super::kind;
use crate::base::machine;

/// What a process holds of a GPU's memory beside what it allocates, in bytes: the driver's context, the kernels, cuBLAS's
/// workspace. A round number on the safe side for chips of the last years.
pub const CONTEXT_BYTES: u64 = 512 << 20;

/// The most bytes of the device's memory that this process had at once, for all that it did on it; `None` where that
/// cannot be told.
pub fn peak_bytes(device: &str) -> Option<u64> {
    match kind(device) {
        "cpu" => machine::peak_resident_bytes(),
        "cuda" => Some(cuda_pool(device)? + CONTEXT_BYTES),
        _ => None,
    }
}

/// The most that the memory pool had which candle allocates from, as of now.
#[cfg(feature = "cuda")]
fn cuda_pool(device: &str) -> Option<u64> {
    use candle_core::cuda_backend::cudarc::driver::{result, sys::CUmemPool_attribute};
    let device = result::device::get(device.strip_prefix("cuda:")?.parse().ok()?).ok()?;
    let mut bytes = 0u64;
    // SAFETY: the driver named the device, its pool lives as long as the process, and this attribute is 64 bits long.
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
