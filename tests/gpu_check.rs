//! `benches/gpu_check` where there is no GPU: it says so, and its own logic holds in a dry run on the CPU.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn check(program: &Path, path: &str, device: &str) -> (Option<i32>, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gpu_check");
    let mut command = Command::new(script);
    command.env("EXP", program).env("PATH", path).env("DEVICE", device).env_remove("EXP_ROOT").stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

#[test]
fn without_a_gpu_it_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n");
    let path = format!("{}:{}", folder.path().display(), path());
    let (code, said) = check(Path::new("/bin/false"), &path, "cuda");
    assert_eq!(code, Some(77), "{said}");
    assert!(said.contains("lists no GPU here"), "{said}");
}

#[test]
fn a_dry_run_passes_and_a_device_that_computes_something_else_does_not() {
    let exp = Path::new(env!("CARGO_BIN_EXE_exp"));
    let (code, said) = check(exp, &path(), "cpu");
    assert_eq!(code, Some(0), "{said}");
    let lines = |word: &str| said.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((lines("PASS"), lines("skip"), lines("FAIL")), (3, 1, 0), "{said}");

    // Another seed stands for a device that computes wrongly, and the other runs of that device fail.
    let folder = tempfile::tempdir().unwrap();
    let wrong = format!(
        "#!/bin/sh\ncase \"$*\" in\n*engine=tape*) exec {0} \"$@\" --set train.seed=2 ;;\nrun*/device\\ --no-report*) echo error: no luck >&2; \
         exit 4 ;;\n*) exec {0} \"$@\" ;;\nesac\n",
        exp.display()
    );
    let (code, said) = check(&program(folder.path(), "exp", &wrong), &path(), "cpu");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAIL  first 20 losses          20 losses, largest difference 0."), "{said}");
    assert!(said.contains("FAIL  sweep of two runs        error: no luck"), "{said}");
}
