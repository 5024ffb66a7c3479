//! The matmul peak of a device, which MFU is a fraction of: measured once per host, kept as JSON in the cache.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::kind;
use crate::base::{
    Context, Error, Exit, Result,
    clock::{self, Millis},
    files::{self, Lock},
    machine,
    wait::Wait,
};
use crate::train::Stop;

/// How long to wait for another worker that measures. It takes a second or two, unless it has been stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// One line of the cache.
#[derive(Debug, Serialize, Deserialize)]
struct Peak {
    host: String,
    processor: String,
    device: String,
    threads: usize,
    flops: f64,
    at: Millis,
}

/// FLOP/s of a square f32 matrix product on `device` with `threads` CPU threads, from the cache or measured now. The cache
/// knows a device by its `id`, which is the same for all processes; `device` is what this one opens.
///
/// Processes that ask for one device at once wait for one of them to measure, unless they are asked to stop meanwhile, and
/// not for ever: the one that measures may have been stopped itself. A worker asks before anything else, so that the first
/// workers on a host stand still, and their cores idle, while one measures.
pub fn peak_flops(cache: &Path, id: &str, device: &str, threads: usize, stop: &Stop) -> Result<f64> {
    let file = |extension: &str| cache.join(format!("peaks-{}.{extension}", id.replace([':', '/'], "-")));
    let path = file("json");
    let (host, processor) = (machine::host(), machine::cpu_model());
    let known = |peaks: &[Peak]| {
        let same = |p: &&Peak| p.host == host && p.processor == processor && p.device == id && p.threads == threads;
        peaks.iter().find(same).map(|p| p.flops)
    };
    if let Some(flops) = known(&read(&path)) {
        return Ok(flops);
    }
    let _alone = alone(&file("lock"), stop)?;
    let mut peaks = read(&path);
    if let Some(flops) = known(&peaks) {
        return Ok(flops);
    }
    let flops = measure(device, threads)?;
    peaks.push(Peak { host, processor, device: id.into(), threads, flops, at: clock::now() });
    files::write_json(&path, &peaks)?;
    Ok(flops)
}

/// The lock of those who measure a device.
fn alone(path: &Path, stop: &Stop) -> Result<Lock> {
    let is_asked = || stop.requested();
    let wait = Wait { what: "measures the matmul peak", patience: PATIENCE, is_asked: &is_asked };
    wait.take(path)?.ok_or_else(|| {
        let why = format!("it has not come to an end within {} s", PATIENCE.as_secs());
        Error::new(Exit::Unexpected, format!("waiting for {}", wait.holder(path)), why)
    })
}

/// What is cached; a file that cannot be read is made anew.
fn read(path: &Path) -> Vec<Peak> {
    files::read_json(path).unwrap_or_default()
}

/// The fastest of many square products of several sizes: the small ones get through without an interruption even where
/// others use the processor too, the large ones keep many threads busy.
fn measure(device: &str, threads: usize) -> Result<f64> {
    let doing = || format!("measuring the matmul peak of {device}");
    let sizes: &[usize] = if kind(device) == "cpu" { &[256, 512, 1024] } else { &[4096] };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().doing(Exit::Unexpected, doing)?;
    let rates = pool.install(|| {
        let device = open(device)?;
        sizes.iter().map(|&size| rate(&device, size)).collect::<candle_core::Result<Vec<f64>>>()
    });
    Ok(rates.doing(Exit::Unexpected, doing)?.into_iter().fold(0.0, f64::max))
}

/// FLOP/s of the fastest of at least three products, more of them while they take less than 0.1 s together.
fn rate(device: &Device, size: usize) -> candle_core::Result<f64> {
    let a = Tensor::rand(-1f32, 1f32, (size, size), device)?;
    let b = Tensor::rand(-1f32, 1f32, (size, size), device)?;
    let product = || -> candle_core::Result<Duration> {
        let start = Instant::now();
        let _c = a.matmul(&b)?;
        device.synchronize()?;
        Ok(start.elapsed())
    };
    product()?; // warms caches and clocks up
    let (mut fastest, mut total, mut count) = (Duration::MAX, Duration::ZERO, 0);
    while count < 3 || total < Duration::from_millis(100) {
        let took = product()?;
        (fastest, total, count) = (fastest.min(took), total + took, count + 1);
    }
    Ok(2.0 * (size as f64).powi(3) / fastest.as_secs_f64())
}

fn open(name: &str) -> candle_core::Result<Device> {
    match kind(name) {
        "cuda" => Device::new_cuda(name.split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)),
        "metal" => Device::new_metal(0),
        _ => Ok(Device::Cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_measured_once_even_by_many_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let ask = || peak_flops(dir.path(), "cpu", "cpu", 1, &Stop::default()).unwrap();
        let flops: Vec<f64> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(flops.iter().all(|&f| f == flops[0] && f > 1e8 && f.is_finite()), "{flops:?}");
        assert_eq!(read(&dir.path().join("peaks-cpu.json")).len(), 1);
    }

    #[test]
    fn a_damaged_cache_is_measured_anew() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("peaks-cpu.json"), "[{").unwrap();
        peak_flops(dir.path(), "cpu", "cpu", 1, &Stop::default()).unwrap();
        assert_eq!(read(&dir.path().join("peaks-cpu.json")).len(), 1);
    }

    #[test]
    fn who_waits_for_another_to_measure_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let _measuring = Lock::try_take(&dir.path().join("peaks-cpu.lock")).unwrap().unwrap();
        let stop = Stop::default();
        stop.request();
        assert!(peak_flops(dir.path(), "cpu", "cpu", 1, &stop).unwrap_err().why.contains("asked to stop"));
    }
}
