//! NVIDIA GPUs: which there are and may be used, and how a worker comes to open the one that it was given.
//!
//! They are counted as `nvidia-smi` counts them, in PCI order, by NVML, which needs neither the CUDA libraries nor a
//! context on a GPU: that would hold some of its memory. CUDA itself may count otherwise (the fastest first, unless it is
//! told not to), so a GPU is never handed on by its number: a worker sees nothing but the GPU that has the UUID of its
//! slot, and whoever opens a GPU beside others looks for that UUID among those that CUDA shows. Its name, `cuda:N`, is
//! for people and specs.

#[cfg(any(feature = "cuda", test))]
mod names;

use super::{DeviceInfo, kind};
use crate::base::Result;

/// CUDA's own variable: which GPUs a process sees, and in which order.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The GPUs that this process may use, in the order of [`VISIBLE`] where that is set; or why there is none. Empty where
/// this build has no support for them.
pub fn list() -> Result<Vec<DeviceInfo>, String> {
    #[cfg(feature = "cuda")]
    return nvml::list();
    #[cfg(not(feature = "cuda"))]
    Ok(Vec::new())
}

/// What a worker's environment says so that it sees the device `name` and no other of its kind; `id` is what all processes
/// call that device. One that is not there any more is not seen, rather than another in its place.
pub fn environment<'a>(name: &str, id: &'a str) -> impl Iterator<Item = (&'static str, &'a str)> {
    let variables = [(VISIBLE, id), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")];
    variables.into_iter().filter(|_| kind(name) == "cuda")
}

/// What an engine of this process has to open to compute on the device `name`, which all processes call `id`: the same
/// but for a GPU, whose number here is CUDA's own.
///
/// # Errors
///
/// Where CUDA does not show that GPU to this process.
pub fn local(name: &str, id: &str) -> Result<String> {
    let is_alone = std::env::var_os(VISIBLE).is_some_and(|shown| shown == id);
    match kind(name) {
        "cuda" if is_alone => Ok("cuda:0".into()),
        #[cfg(feature = "cuda")]
        "cuda" => driver::number(id).map(|number| format!("cuda:{number}")),
        _ => Ok(name.into()),
    }
}

#[cfg(feature = "cuda")]
mod nvml {
    use std::sync::OnceLock;

    use nvml_wrapper::{Device, Nvml, error::NvmlError};

    use super::{DeviceInfo, VISIBLE, names};

    pub fn list() -> Result<Vec<DeviceInfo>, String> {
        // Opened once: it takes a while, and what it then tells is always of now.
        static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
        let nvml = NVML.get_or_init(|| Nvml::init().map_err(|e| why(&e))).as_ref().map_err(String::clone)?;
        let count = nvml.device_count().map_err(|e| why(&e))?;
        // One that has fallen off the bus keeps its number and has no name.
        let uuid = |index| nvml.device_by_index(index).and_then(|gpu| gpu.uuid()).unwrap_or_default();
        let uuids: Vec<String> = (0..count).map(uuid).collect();
        let shown = std::env::var_os(VISIBLE).map(|list| list.to_string_lossy().into_owned());
        let visible = names::visible(shown.as_deref(), &uuids, |instance| nvml.device_by_uuid(instance).is_ok());
        match (visible.is_empty(), &shown) {
            (true, _) if count == 0 => Err("the NVIDIA driver knows of no GPU".into()),
            (true, Some(shown)) => Err(format!("{VISIBLE} is `{shown}`, which shows none of {count} GPUs")),
            (true, None) => Err("no GPU answers its NVIDIA driver".into()),
            _ => Ok(visible.into_iter().enumerate().map(|(n, uuid)| info(nvml, n, uuid)).collect()),
        }
    }

    fn info(nvml: &Nvml, number: usize, uuid: String) -> DeviceInfo {
        let gpu = nvml.device_by_uuid(uuid.as_str());
        let ask = |gpu: &Device| (gpu.name().ok(), gpu.memory_info().ok());
        let (model, memory) = gpu.as_ref().map_or((None, None), ask);
        DeviceInfo {
            name: format!("cuda:{number}"),
            id: uuid,
            model: model.unwrap_or_else(|| "NVIDIA GPU".into()),
            cores: None,
            memory_total: memory.as_ref().map(|memory| memory.total),
            memory_free: memory.as_ref().map(|memory| memory.free),
        }
    }

    fn why(error: &NvmlError) -> String {
        match error {
            NvmlError::LibloadingError(error) => format!("no NVIDIA driver was found ({error})"),
            error => format!("the NVIDIA driver does not answer ({error})"),
        }
    }
}

#[cfg(feature = "cuda")]
mod driver {
    use candle_core::cuda_backend::cudarc::driver::{DriverError, result};

    use super::{VISIBLE, names};
    use crate::base::{Context, Error, Exit, Result};

    /// The number by which CUDA opens a GPU in this process.
    pub fn number(id: &str) -> Result<i32> {
        let doing = || format!("looking for the GPU {id}");
        let shown = shown().doing(Exit::Unexpected, doing)?;
        let found = shown.iter().position(|gpu| names::is_same(gpu, id)).and_then(|at| i32::try_from(at).ok());
        let absent = || Error::new(Exit::Unexpected, doing(), "CUDA does not show it to this process");
        found.ok_or_else(|| absent().hint(format!("{VISIBLE} says which GPUs CUDA shows")))
    }

    /// The UUIDs of all GPUs that CUDA shows, by its own numbers.
    fn shown() -> std::result::Result<Vec<String>, DriverError> {
        result::init()?;
        let uuid = |number| result::device::get(number).and_then(result::device::get_uuid);
        (0..result::device::get_count()?).map(|number| Ok(names::written(uuid(number)?.bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_sees_its_gpu_alone_and_one_on_a_cpu_is_told_nothing() {
        let told: Vec<_> = environment("cuda:3", "GPU-7").collect();
        assert_eq!(told, [("CUDA_VISIBLE_DEVICES", "GPU-7"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]);
        assert_eq!(environment("cpu", "cpu").count() + environment("metal", "metal").count(), 0);
    }

    #[test]
    fn what_is_no_gpu_of_nvidia_is_opened_by_its_name() {
        assert_eq!(local("cpu", "cpu").unwrap(), "cpu");
        assert_eq!(local("metal", "metal").unwrap(), "metal");
    }
}
