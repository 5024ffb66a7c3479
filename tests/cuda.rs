//! What a build with `--features cuda` does where there is no NVIDIA driver, and how it counts and hands out GPUs. The
//! driver is played, so neither needs a GPU: an empty file stands for one that cannot be loaded, and a few functions in C
//! for one that knows three GPUs. What takes a real one is checked by `benches/gpu_check`.
#![cfg(feature = "cuda")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus_chars: 20000}
train: {steps: 2, batch: 2}
eval: {every: 2, batches: 1, batch: 2}
run: {retries: 0}
";

/// NVML of a machine with three GPUs.
const NVML: &str = r#"
#include <stdio.h>
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { *gpu = (void *)(index + 1L); return index > 2; }
int nvmlDeviceGetUUID(void *gpu, char *text, unsigned size) {
  snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%ld", (long)gpu); return 0; }
int nvmlDeviceGetName(void *gpu, char *text, unsigned size) { snprintf(text, size, "Model %ld", (long)gpu); return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) {
  for (long i = 1; i <= 3; i++) {
    char text[80]; nvmlDeviceGetUUID((void *)i, text, sizeof text);
    if (!strcmp(text, uuid)) { *gpu = (void *)i; return 0; }
  }
  return 6; }
int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct { unsigned version; unsigned long long total, reserved, free, used; } *m) {
  m->total = 8ULL << 30; m->reserved = 0; m->free = (8ULL << 30) - ((unsigned long long)gpu << 30); m->used = 0; return 0; }
"#;

/// CUDA of the same machine, which counts the GPUs the other way round and opens none.
const CUDA: &str = r#"
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDeviceGet(int *gpu, int number) { *gpu = number; return 0; }
int cuDeviceGetUuid(char *bytes, int gpu) { memset(bytes, 0, 16); bytes[15] = 3 - gpu; return 0; }
int cuDeviceGetUuid_v2(char *bytes, int gpu) { return cuDeviceGetUuid(bytes, gpu); }
"#;

/// A machine with a driver of our making.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("tiny.yaml"), SPEC).unwrap();
        Self { folder }
    }

    fn without_a_driver() -> Self {
        let machine = Self::new();
        fs::write(machine.path().join("lib/libnvidia-ml.so.1"), "").unwrap();
        machine
    }

    /// `None`, and said, where there is no C compiler.
    fn with_three_gpus() -> Option<Self> {
        let machine = Self::new();
        let is_made = machine.library("libnvidia-ml.so.1", NVML) && machine.library("libcuda.so.1", CUDA);
        if !is_made {
            eprintln!("skipped: no driver can be played without a C compiler");
        }
        is_made.then_some(machine)
    }

    fn library(&self, name: &str, source: &str) -> bool {
        let (from, to) = (self.path().join("source.c"), self.path().join("lib").join(name));
        fs::write(&from, source).unwrap();
        let compiled = Command::new("cc").args(["-w", "-shared", "-fPIC", "-o"]).arg(to).arg(from).status();
        compiled.is_ok_and(|status| status.success())
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn exp(&self, args: &[&str], visible: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(args).current_dir(self.path()).env_remove("EXP_ROOT").stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", self.path().join("lib")).env_remove("CUDA_VISIBLE_DEVICES");
        command.envs(visible.map(|list| ("CUDA_VISIBLE_DEVICES", list))).output().unwrap()
    }

    /// Standard output as JSON of a command that must do well.
    fn json(&self, args: &[&str], visible: Option<&str>) -> Value {
        let output = self.exp(args, visible);
        assert!(output.status.success(), "exp {args:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Name, model and free GiB of each GPU.
    fn gpus(&self, visible: Option<&str>) -> Vec<(String, String, u64)> {
        let devices = self.json(&["devices", "--json"], visible);
        let word = |device: &Value, key: &str| device[key].as_str().unwrap().to_owned();
        let gpu = |device: &Value| {
            assert_eq!(device["memory_total"], 8_u64 << 30);
            (word(device, "name"), word(device, "model"), device["memory_free"].as_u64().unwrap() >> 30)
        };
        devices.as_array().unwrap().iter().filter(|device| device["name"] != "cpu").map(gpu).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn gpu(name: &str, model: u64) -> (String, String, u64) {
    (name.into(), format!("Model {model}"), 8 - model)
}

#[test]
fn without_a_driver_devices_are_listed_and_said_to_lack_one() {
    let output = Machine::without_a_driver().exp(&["devices"], None);
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("\ncpu ") && !table.contains("cuda"), "{table}");
    assert!(said(&output).contains("no NVIDIA driver was found (") && said(&output).contains("libnvidia-ml.so.1"));
}

#[test]
fn without_a_driver_a_spec_that_asks_for_cuda_is_refused_before_anything_starts() {
    let machine = Machine::without_a_driver();
    for device in ["cuda", "cuda:1"] {
        let output = machine.exp(&["run", "tiny.yaml", "--device", device], None);
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        let why = format!("there is no {device} on this machine: no NVIDIA driver was found (");
        assert!(said(&output).contains(&why), "{}", said(&output));
        assert!(said(&output).contains("hint: here are: cpu; `device: auto`"), "{}", said(&output));
    }
    assert!(!machine.path().join("runs/experiments").exists());
}

#[test]
fn without_a_driver_auto_is_the_cpu_and_nothing_is_said_of_it() {
    let machine = Machine::without_a_driver();
    assert_eq!(machine.json(&["plan", "tiny.yaml", "--json"], None)["runs"][0]["config"]["run.device"], "cpu");
    let output = machine.exp(&["run", "tiny.yaml", "--no-report"], None);
    assert!(output.status.success() && !said(&output).contains("NVIDIA"), "{}", said(&output));
}

#[test]
fn gpus_are_counted_among_those_that_are_visible() {
    let Some(machine) = Machine::with_three_gpus() else { return };
    assert_eq!(machine.gpus(None), [gpu("cuda:0", 1), gpu("cuda:1", 2), gpu("cuda:2", 3)]);
    let last = "2,GPU-00000000-0000-0000-0000-000000000001";
    assert_eq!(machine.gpus(Some(last)), [gpu("cuda:0", 3), gpu("cuda:1", 1)]);
    let hidden = machine.exp(&["devices"], Some("-1"));
    assert!(said(&hidden).contains("CUDA_VISIBLE_DEVICES is `-1`, which shows none of 3 GPUs"), "{}", said(&hidden));
}

#[test]
fn auto_takes_cuda_where_there_is_one() {
    let Some(machine) = Machine::with_three_gpus() else { return };
    let device =
        |visible| machine.json(&["plan", "tiny.yaml", "--json"], visible)["runs"][0]["config"]["run.device"].clone();
    assert_eq!((device(None), device(Some(""))), ("cuda".into(), "cpu".into()));
}

#[test]
fn a_worker_opens_the_gpu_of_its_slot_however_cuda_counts() {
    let Some(machine) = Machine::with_three_gpus() else { return };
    if fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("libcuda.so")) {
        return eprintln!("skipped: CUDA is linked rather than loaded, and cannot be played");
    }
    // The run says where it was, and its worker saw that GPU alone.
    let output = machine.exp(&["run", "tiny.yaml", "--no-report", "--json", "--device", "cuda:1"], None);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let runs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = runs[0]["id"].as_str().unwrap();
    assert!(runs[0]["why"].as_str().unwrap().contains("opening the device cuda:0:"), "{runs}");
    assert_eq!(machine.json(&["show", id, "--json"], None)["attempt_list"][0]["started"]["device"], "cuda:1");
    // One that sees them all finds its own by what it is called.
    let run = machine.path().join("runs").join(&id[..16]);
    let uuid = "GPU-00000000-0000-0000-0000-000000000001";
    let worker = ["worker", "--threads", "1", "--device", "cuda:0", "--device-id", uuid, "--attempt", "2", "--run"];
    let output = machine.exp(&[&worker[..], &[run.to_str().unwrap()]].concat(), None);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let events = fs::read_to_string(run.join("attempt-2/events.jsonl")).unwrap();
    assert!(events.contains("opening the device cuda:2:"), "{events}");
}
