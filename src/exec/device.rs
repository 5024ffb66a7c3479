//! The devices at hand: their names, what they are, which of them a spec's word means. How they are shared out stands in
//! [`super::slots`].

mod cuda;
pub(super) mod memory;
mod peak;

pub use cuda::{environment, local};
pub use memory::CONTEXT_BYTES;
pub use peak::peak_flops;

pub use crate::base::parallel::cores;

use crate::base::{Error, Exit, Result, cgroup, machine};

/// A device that runs can be trained on.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// `cpu`, `cuda:N`, `metal`: what a spec calls it.
    pub name: String,
    /// What it is called by all processes of this machine alike, whichever devices each may use: a GPU's UUID.
    pub id: String,
    /// The model name of the processor.
    pub model: String,
    /// Cores that this process may use; CPU only.
    pub cores: Option<usize>,
    /// Bytes of memory that this process may use, where known.
    pub memory_total: Option<u64>,
    /// Bytes of that which are free now, where known.
    pub memory_free: Option<u64>,
}

/// Knows what devices there are. Asked again, it says how much of their memory is free by then.
pub trait Devices {
    /// Every device that this process may use, the CPU first.
    fn list(&self) -> Vec<DeviceInfo>;
}

/// The devices of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Devices for ThisMachine {
    fn list(&self) -> Vec<DeviceInfo> {
        list()
    }
}

/// Every device of this machine that this process may use, the CPU first.
pub fn list() -> Vec<DeviceInfo> {
    let memory = cpu_memory();
    let cpu = DeviceInfo {
        name: "cpu".into(),
        id: "cpu".into(),
        model: machine::cpu_model(),
        cores: Some(cores()),
        memory_total: memory.map(|(total, _)| total),
        memory_free: memory.map(|(_, free)| free),
    };
    let mut found = vec![cpu];
    found.extend(cuda::list().unwrap_or_default());
    found.extend(metal_devices());
    found
}

/// What a spec's word for a device means here: `cpu`, `cuda:N` or `metal`. `auto` is the first GPU, where there is one.
///
/// # Errors
///
/// [`Exit::Spec`] where the word is unknown, or names a device that is not here.
pub fn resolve(name: &str) -> Result<String> {
    choose(name, &list(), without_cuda())
}

/// Why this build, which knows NVIDIA's GPUs, can use none here: a sentence without its full stop. `None` where it can,
/// or knows none.
pub fn without_cuda() -> Option<String> {
    cuda::list().err()
}

/// How many threads of this machine want to compute, on average over the last minute, where that is known.
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The numbers of the CPUs that this process may use, as many as there are [`cores`].
pub(super) fn cpus() -> Vec<usize> {
    let count = cores();
    #[cfg(target_os = "linux")]
    if let Ok(mask) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).take(count).collect();
    }
    (0..count).collect()
}

/// `cuda` of `cuda:1`: what a device is, whichever of its kind.
pub fn kind(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

fn choose(name: &str, devices: &[DeviceInfo], without_cuda: Option<String>) -> Result<String> {
    let first_of = |wanted: &str| devices.iter().find(|d| kind(&d.name) == wanted).map(|d| d.name.clone());
    let is_index = |word: &str| word.strip_prefix("cuda:").is_some_and(|n| n.parse::<u32>().is_ok());
    match name {
        "auto" => Ok(["cuda", "metal", "cpu"].into_iter().find_map(first_of).unwrap_or_else(|| "cpu".into())),
        "cpu" | "cuda" | "metal" => first_of(name).ok_or_else(|| absent(name, devices, without_cuda)),
        _ if is_index(name) => {
            let named = devices.iter().find(|d| d.name == name).map(|d| d.name.clone());
            named.ok_or_else(|| absent(name, devices, without_cuda))
        }
        _ => Err(refusal(format!("`{name}` is no device: one is auto, cpu, cuda, cuda:N or metal"))),
    }
}

fn refusal(why: String) -> Error {
    Error::new(Exit::Spec, "choosing the device", why)
}

/// A device that could be here and is not.
fn absent(name: &str, devices: &[DeviceInfo], without_cuda: Option<String>) -> Error {
    let not_built = match kind(name) {
        "cuda" => !cfg!(feature = "cuda"),
        _ => !cfg!(feature = "metal"),
    };
    if not_built {
        let why = format!("this build of exp has no support for {name}");
        return refusal(why).hint(format!("build it with `--features {}`, or use `device: auto`", kind(name)));
    }
    let here: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let here = format!("here are: {}", here.join(", "));
    match without_cuda.filter(|_| kind(name) == "cuda") {
        Some(why) => refusal(format!("there is no {name} on this machine: {why}"))
            .hint(format!("{here}; `device: auto` takes a GPU only where there is one")),
        None => refusal(format!("there is no {name} on this machine")).hint(here),
    }
}

/// Total and free bytes: the machine's, or what the control group still lets us have where that is less.
pub(super) fn cpu_memory() -> Option<(u64, u64)> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |key: &str| -> Option<u64> {
        info.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
    };
    let (total, free) = (kilobytes("MemTotal:")? * 1024, kilobytes("MemAvailable:")? * 1024);
    let group = cgroup::memory();
    Some((total.min(group.limit), free.min(group.free)))
}

fn metal_devices() -> Vec<DeviceInfo> {
    match candle_core::utils::metal_is_available() {
        true => vec![gpu("metal".into(), "Apple GPU".into())],
        false => Vec::new(),
    }
}

fn gpu(name: String, model: String) -> DeviceInfo {
    DeviceInfo { id: name.clone(), name, model, cores: None, memory_total: None, memory_free: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(names: &[&str]) -> Vec<DeviceInfo> {
        names.iter().map(|name| gpu((*name).into(), String::new())).collect()
    }

    #[test]
    fn auto_takes_a_gpu_where_there_is_one() {
        assert_eq!(choose("auto", &devices(&["cpu"]), Some("no driver".into())).unwrap(), "cpu");
        assert_eq!(choose("auto", &devices(&["cpu", "cuda:0", "cuda:1"]), None).unwrap(), "cuda:0");
        assert_eq!(choose("auto", &devices(&["cpu", "metal"]), None).unwrap(), "metal");
    }

    #[test]
    fn a_word_names_a_device_that_is_here() {
        let here = devices(&["cpu", "cuda:0", "cuda:1"]);
        assert_eq!(choose("cpu", &here, None).unwrap(), "cpu");
        assert_eq!(choose("cuda", &here, None).unwrap(), "cuda:0");
        assert_eq!(choose("cuda:1", &here, None).unwrap(), "cuda:1");
    }

    #[test]
    fn a_device_that_is_not_here_is_refused_with_what_to_do() {
        for (word, built) in [("cuda", cfg!(feature = "cuda")), ("cuda:7", cfg!(feature = "cuda"))] {
            let error = choose(word, &devices(&["cpu"]), None).unwrap_err();
            let hint = if built { "here are: cpu" } else { "build it with `--features cuda`" };
            assert!(error.hint.as_deref().unwrap().contains(hint), "{error} {:?}", error.hint);
            assert_eq!(error.exit, Exit::Spec);
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn an_absent_gpu_is_refused_with_what_the_driver_said() {
        let refused = |word, why: &str| choose(word, &devices(&["cpu"]), Some(why.into())).unwrap_err();
        let error = refused("cuda", "no NVIDIA driver was found");
        assert!(error.why.ends_with("no cuda on this machine: no NVIDIA driver was found"), "{error}");
        assert!(!refused("metal", "no NVIDIA driver was found").why.contains("NVIDIA"));
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for word in ["cudda", "CPU", "cuda:", "cuda:x", ""] {
            assert!(choose(word, &devices(&["cpu"]), None).unwrap_err().why.contains("is no device"), "{word}");
        }
    }

    #[test]
    fn this_machine_has_a_cpu_with_cores_and_memory() {
        let cpu = &list()[0];
        assert_eq!((cpu.name.as_str(), cpu.cores), ("cpu", Some(cpus().len())));
        assert!(cpu.memory_free <= cpu.memory_total && !cpu.model.is_empty());
    }
}
