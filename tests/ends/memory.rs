//! Runs for which memory does not suffice: told apart from other deaths, not tried again, and a reason to leave out what
//! needs more.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use exp::event::{OUT_OF_MEMORY, RunState};

use crate::common::*;

const RUN: [&str; 5] = ["run", "tiny.yaml", "--no-report", "--jobs", "1"];

/// Three widths: the first fits, the others need 0.8 and 1.8 GB for weights, gradients and moments.
fn spec() -> String {
    let sizes = "grid: {d_model: [16, 2048, 3072]}";
    SPEC.replace("d_model: 16, ", "").replace("seeds: 2", sizes).replace("steps: 1500", "steps: 20")
}

/// `exp` started by a shell that does `before` first.
fn limited(lab: &Lab, before: &str, args: &[&str]) -> Ended {
    Ended::of(after(lab, before, args).output().unwrap())
}

fn after(lab: &Lab, before: &str, args: &[&str]) -> Command {
    fs::write(lab.folder.path().join("tiny.yaml"), spec()).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} && exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_exp"));
    command.args(args);
    // Arenas take address space for each thread.
    command.current_dir(lab.folder.path()).env_remove("EXP_ROOT").env("MALLOC_ARENA_MAX", "1").stdin(Stdio::null());
    command
}

/// The states of the three runs, ids cut out.
fn states(lab: &Lab) -> Vec<String> {
    let id = lab.rows()[1].id.short();
    let cut = |state: String| state.replace(&id, "ID").split(" bytes").next().unwrap().to_owned();
    lab.states().into_iter().map(cut).collect()
}

fn assert_skips(lab: &Lab, ended: &Ended, how: &str) {
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let states = states(lab);
    assert_eq!(
        (states[0].as_str(), states[2].as_str()),
        ("done", "skipped: needs more than ID which ran out of memory")
    );
    assert!(states[1].starts_with(&format!("failed: {OUT_OF_MEMORY}: {how}")), "{states:?}");
    assert_eq!(lab.rows().iter().map(|row| row.attempts).collect::<Vec<_>>(), [1, 1, 0], "no second try");
    assert!(ended.err.contains("1 run skipped; `--force` tries them"), "{ended:?}");
}

#[test]
fn what_needs_more_than_what_ran_out_of_memory_is_left_out_until_forced() {
    let lab = Lab::new();
    let limit = "ulimit -v 700000"; // kB
    let ended = limited(&lab, limit, &RUN);
    assert_skips(&lab, &ended, "memory allocation of");
    let before = states(&lab);
    assert_eq!(lab.also(&["store", "rebuild"]).code, Some(0));
    assert_eq!(states(&lab), before, "the folders keep it");
    let plan = lab.also(&["plan", "tiny.yaml", "--json"]);
    assert!(plan.out.contains("\"reason\": \"skipped: needs more than"), "{plan:?}");

    assert_eq!(limited(&lab, limit, &RUN).code, Some(4));
    let largest = lab.rows().remove(2);
    assert_eq!(largest.attempts, 0, "it stays left out");
    let assert_tried = |attempts: u32| {
        assert!(states(&lab)[2].starts_with("failed: out of memory: memory allocation of"), "{:?}", states(&lab));
        assert_eq!(lab.rows()[2].attempts, attempts);
    };
    assert_eq!(limited(&lab, limit, &["resume", &largest.id.to_string()]).code, Some(4));
    assert_tried(1);
    assert_eq!(limited(&lab, limit, &RUN).code, Some(4));
    assert!(states(&lab)[2].starts_with("skipped"), "the smaller one failed again: {:?}", states(&lab));
    assert_eq!(limited(&lab, limit, &[&RUN[..], &["--force"]].concat()).code, Some(4));
    assert_tried(2);
}

/// A control group of version 1 without a limit; `None` where none can be made.
fn group() -> Option<PathBuf> {
    let mine = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (_, within) = mine.lines().find_map(|line| line.split_once(":memory:"))?;
    let group = PathBuf::from(format!("/sys/fs/cgroup/memory{within}/exp-test-{}", std::process::id()));
    fs::create_dir(&group).ok().map(|()| group)
}

/// A control group of version 2 without a limit, whose memory is counted; `None` where none can be made. A group that has
/// processes in it shares out no memory: ours stands below the nearest one that does.
fn unified() -> Option<PathBuf> {
    let mine = fs::read_to_string("/proc/self/cgroup").ok()?;
    let within = mine.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let point = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let mut folders = Path::new(point).join(within).ancestors().map(Path::to_owned).collect::<Vec<_>>();
    folders.retain(|folder| folder.starts_with(point));
    let shares = |folder: &PathBuf| {
        let shared = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        shared.split_whitespace().any(|controller| controller == "memory")
    };
    let group = folders.into_iter().find(shares)?.join(format!("exp-test-{}", std::process::id()));
    fs::create_dir(&group).ok()?;
    let _ = fs::write(group.join("memory.swap.max"), "0"); // where nothing is swapped there is no such file
    Some(group)
}

/// The sweep in a control group whose limit, in a file of that name, comes after the first run: one that is there before
/// is known to the plan, which refuses what does not fit.
fn killed_in(group: &Path, limit: &str) {
    let lab = Lab::new();
    let mut command = after(&lab, &format!("echo $$ > {}/cgroup.procs", group.display()), &RUN);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let scheduler = Scheduler(Some(child));
    until("the first is done", || {
        let runs = if lab.root.database().exists() { lab.store().runs(None).unwrap() } else { Vec::new() };
        runs.iter().any(|row| row.state == RunState::Done).then_some(())
    });
    until("the limit is set", || fs::write(group.join(limit), (600 << 20).to_string()).ok());
    let ended = scheduler.ended();
    until("the group is empty", || fs::remove_dir(group).ok());
    assert_skips(&lab, &ended, "killed by SIGKILL");
}

#[test]
fn a_kill_by_the_kernel_for_want_of_memory_is_told_from_others() {
    match group() {
        Some(group) => killed_in(&group, "memory.limit_in_bytes"),
        None => println!("skipped: no control group of version 1 can be made here"),
    }
}

#[test]
fn a_kill_in_a_control_group_of_version_2_is_told_from_others() {
    match unified() {
        Some(group) => killed_in(&group, "memory.max"),
        None => println!("skipped: no control group of version 2 that counts memory can be made here"),
    }
}
