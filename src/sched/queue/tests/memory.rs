//! Stories of runs that share devices as far as their memory goes.

use super::*;

/// A machine with that many cores and GPUs of 100 bytes, of which runs may take 95; so of the CPU's.
fn hundred(cores: usize, gpus: &[&str]) -> Vec<DeviceInfo> {
    let mut machine = machine(cores, gpus);
    machine.iter_mut().for_each(|device| device.memory_total = Some(100));
    machine
}

/// Runs of equal length: what each asks for, and how many bytes it needs.
fn runs(wishes: &[(&str, u64)]) -> Vec<(Task, Standing)> {
    let run = |(n, &(device, bytes)): (usize, &(&str, u64))| {
        let (task, standing) = task(n, device, 1.0);
        (Task { bytes: vec![bytes], ..task }, standing)
    };
    wishes.iter().enumerate().map(run).collect()
}

/// Steps the queue, and carries out its starts; returns them, and what was said.
fn place(queue: &mut Queue, input: Input) -> (Vec<String>, Vec<String>) {
    let (mut started, mut said, mut inputs) = (Vec::new(), Vec::new(), vec![input]);
    while let Some(input) = inputs.pop() {
        for action in queue.step(Duration::ZERO, input) {
            match action {
                Action::Start { run, device, threads, bytes } => {
                    started.push(format!("{} on {device}: {threads}, {bytes}", run.0[0]));
                    inputs.push(Input::Granted { run, threads, company: false });
                }
                Action::Say(what) => said.push(what),
                _ => {}
            }
        }
    }
    (started, said)
}

fn started(queue: &mut Queue, input: Input) -> Vec<String> {
    place(queue, input).0
}

fn ended(n: usize) -> Input {
    Input::Ended { run: id(n), ended: done() }
}

fn measured(n: usize, bytes: u64) -> Input {
    Input::Measured { run: id(n), bytes }
}

#[test]
fn gpus_take_what_fits_and_are_filled_evenly() {
    let mut q = Queue::new(runs(&[("cuda", 40); 6]), &hundred(1, &["cuda:0", "cuda:1"]), None);
    let first = ["0 on cuda:0: 1, 40", "1 on cuda:1: 1, 40", "2 on cuda:0: 1, 40", "3 on cuda:1: 1, 40"];
    assert_eq!(started(&mut q, Input::Tick), first);
    assert_eq!(started(&mut q, ended(1)), ["4 on cuda:1: 1, 40"]);
    assert_eq!(started(&mut q, ended(0)), ["5 on cuda:0: 1, 40"]);
}

#[test]
fn a_gpu_whose_memory_is_not_known_takes_one_run() {
    let mut q = Queue::new(runs(&[("cuda", 1); 2]), &machine(4, &["cuda:0"]), None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cuda:0: 1, 1"]);
    assert_eq!(started(&mut q, ended(0)), ["1 on cuda:0: 1, 1"]);
}

#[test]
fn a_large_run_that_comes_next_is_waited_for_and_other_devices_go_on() {
    let wishes = [("cuda:0", 60), ("cuda:0", 60), ("cuda:0", 10), ("cpu", 10), ("cuda", 10)];
    let mut q = Queue::new(runs(&wishes), &hundred(1, &["cuda:0", "cuda:1"]), None);
    let first = ["0 on cuda:0: 1, 60", "3 on cpu: 1, 10", "4 on cuda:1: 1, 10"];
    assert_eq!(started(&mut q, Input::Tick), first, "10 would fit beside 60, but 60 comes first");
    assert_eq!(started(&mut q, ended(0)), ["1 on cuda:0: 1, 60", "2 on cuda:0: 1, 10"]);
}

#[test]
fn a_run_that_needs_more_than_there_is_has_the_device_alone() {
    let wishes = [("cuda", 10), ("cuda", 1000), ("cuda", 10)];
    let mut q = Queue::new(runs(&wishes), &hundred(1, &["cuda:0"]), None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cuda:0: 1, 10"]);
    assert_eq!(started(&mut q, ended(0)), ["1 on cuda:0: 1, 1000"]);
    assert_eq!(started(&mut q, ended(1)), ["2 on cuda:0: 1, 10"]);
}

#[test]
fn cores_that_memory_leaves_no_run_for_go_to_the_runs_that_there_are() {
    let mut q = Queue::new(runs(&[("cpu", 40); 20]), &hundred(16, &[]), None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cpu: 8, 40", "1 on cpu: 8, 40"]);
    assert_eq!(started(&mut q, ended(1)), ["2 on cpu: 8, 40"]);
    let mut q = Queue::new(runs(&[("cpu", 40); 1]), &hundred(16, &[]), None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cpu: 16, 40"]);
}

#[test]
fn the_first_run_that_is_done_corrects_what_those_after_it_need() {
    let mut q = Queue::new(runs(&[("cuda", 40); 7]), &hundred(1, &["cuda:0"]), None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cuda:0: 1, 40", "1 on cuda:0: 1, 40"]);
    assert_eq!(started(&mut q, measured(0, 20)), [""; 0], "who runs keeps what it was given");
    assert_eq!(started(&mut q, ended(0)), ["2 on cuda:0: 1, 20", "3 on cuda:0: 1, 20"]);
    assert_eq!(started(&mut q, ended(1)), ["4 on cuda:0: 1, 20", "5 on cuda:0: 1, 20"]);
}

#[test]
fn what_runs_turn_out_to_need_is_told_where_it_changes_how_many_there_are() {
    let billion = 1_000_000_000;
    let wishes: Vec<_> = [("cuda", 30 * billion); 9].into_iter().chain([("cpu", billion)]).collect();
    let mut machine = hundred(1, &["cuda:0"]);
    machine.iter_mut().for_each(|device| device.memory_total = Some(100 * billion));
    let mut q = Queue::new(runs(&wishes), &machine, None);
    place(&mut q, Input::Tick);
    assert_eq!(place(&mut q, measured(9, 3 * billion)).1, [""; 0], "it says nothing of other devices");
    assert_eq!(place(&mut q, measured(0, 31 * billion)).1, [""; 0], "three at a time as before");
    let said = format!(
        "by what {} needed, runs like {} need 45.0 GB of memory, not 31.0 GB: 2 at a time go on cuda:0, not 3",
        id(1).short(),
        id(3).short()
    );
    assert_eq!(place(&mut q, measured(1, 45 * billion)).1, [said]);
    assert_eq!(place(&mut q, measured(2, 10 * billion)).1, [""; 0], "what suffices for one may not for the next");
    assert_eq!(started(&mut q, ended(0)), [""; 0], "30 and 30 are still there");
    assert_eq!(started(&mut q, ended(1)), [format!("3 on cuda:0: 1, {}", 45 * billion)]);
    assert_eq!(started(&mut q, ended(2)), [format!("4 on cuda:0: 1, {}", 45 * billion)]);
}

#[test]
fn a_run_that_was_done_before_the_sweep_began_corrects_the_others() {
    let mut wishes = runs(&[("cuda", 10); 5]);
    wishes[4].1 = Standing::Ended(RunState::Done);
    let mut q = Queue::new(wishes, &hundred(1, &["cuda:0"]), None);
    assert_eq!(started(&mut q, measured(4, 45)), ["0 on cuda:0: 1, 45", "1 on cuda:0: 1, 45"]);
}

#[test]
fn a_run_that_ran_out_of_memory_beside_others_is_tried_again_alone() {
    let full =
        |n: usize| Input::Ended { run: id(n), ended: Ended::Died { why: OUT_OF_MEMORY.into(), step: 7, retry: false } };
    let mut q = Queue::new(runs(&[("cuda", 40); 4]), &hundred(1, &["cuda:0"]), None);
    assert_eq!(started(&mut q, Input::Tick).len(), 2);
    let (none, said) = place(&mut q, full(1));
    let again = format!("{}: out of memory, beside other runs; starting it again alone", id(1).short());
    assert_eq!((none, said), (vec![], vec![again]), "it waits for the other to end");
    assert_eq!(started(&mut q, ended(0)), [format!("1 on cuda:0: 1, {}", u64::MAX)]);
    assert_eq!(started(&mut q, full(1)).len(), 2, "it had all that there is, and the others go on");
    assert_eq!(q.summary().failed, [id(1)]);
    assert_eq!(started(&mut q, ended(2)), [""; 0]);
    assert_eq!(started(&mut q, full(3)), [format!("3 on cuda:0: 1, {}", u64::MAX)], "it had company until just now");
    let mut q = Queue::new(runs(&[("cpu", 1); 3]), &machine(2, &[]), None);
    assert_eq!(started(&mut q, Input::Tick).len(), 2);
    assert_eq!(started(&mut q, full(1)), [""; 0], "where memory is no limit as well");
    assert_eq!(started(&mut q, ended(0)), [format!("1 on cpu: 2, {}", u64::MAX)]);
    let mut q = Queue::new(runs(&[("cuda", 40)]), &hundred(1, &["cuda:0"]), None);
    started(&mut q, Input::Tick);
    assert_eq!(place(&mut q, full(0)), (vec![], vec![]), "who was alone is not tried again");
}

#[test]
fn who_ran_out_of_memory_beside_a_run_of_another_sweep_is_tried_again_alone_as_well() {
    let mut q = Queue::new(runs(&[("cuda", 40)]), &hundred(1, &["cuda:0"]), None);
    assert_eq!(q.step(Duration::ZERO, Input::Tick).len(), 1);
    q.step(Duration::ZERO, Input::Granted { run: id(0), threads: 1, company: true });
    let full = Ended::Died { why: OUT_OF_MEMORY.into(), step: 7, retry: false };
    let again = started(&mut q, Input::Ended { run: id(0), ended: full.clone() });
    assert_eq!(again, [format!("0 on cuda:0: 1, {}", u64::MAX)]);
    assert_eq!(started(&mut q, Input::Ended { run: id(0), ended: full }), [""; 0], "now it was alone");
    assert_eq!(q.summary().failed, [id(0)]);
}

#[test]
fn of_gpus_with_as_many_runs_that_with_more_free_memory_comes_first() {
    let mut machine = hundred(1, &["cuda:0", "cuda:1"]);
    (machine[1].memory_free, machine[2].memory_free) = (Some(5), Some(100));
    let mut q = Queue::new(runs(&[("cuda", 90); 2]), &machine, None);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cuda:1: 1, 90", "1 on cuda:0: 1, 90"]);
    let mut q = Queue::new(runs(&[("cuda", 90); 2]), &machine, None);
    q.places[1].aside = true;
    q.places[2].aside = true;
    q.step(Duration::ZERO, Input::Free(vec![None, Some(90), Some(60)]));
    q.places.iter_mut().for_each(|place| place.aside = false);
    assert_eq!(started(&mut q, Input::Tick), ["0 on cuda:0: 1, 90", "1 on cuda:1: 1, 90"], "as was told since");
}

#[test]
fn memory_counts_for_the_threads_that_a_run_gets_and_who_lacks_it_gets_fewer() {
    let with = |runs: usize, bytes: &[u64]| {
        let mut tasks = runs_of(runs);
        tasks.iter_mut().for_each(|(task, _)| task.bytes = bytes.to_vec());
        started(&mut Queue::new(tasks, &hundred(4, &[]), None), Input::Tick)
    };
    assert_eq!(with(1, &[40, 50, 60, 70]), ["0 on cpu: 4, 70"]);
    assert_eq!(with(1, &[40, 50, 96, 97]), ["0 on cpu: 2, 50"]);
    assert_eq!(with(1, &[100, 110, 120, 130]), ["0 on cpu: 1, 100"], "it may fit, with the least");
    assert_eq!(with(2, &[40, 45, 60, 70]), ["0 on cpu: 2, 45", "1 on cpu: 2, 45"]);
    assert_eq!(with(2, &[40, 55, 60, 70]), ["0 on cpu: 1, 40", "1 on cpu: 2, 55"], "there is room for both");
    assert_eq!(with(9, &[20, 90]), ["0 on cpu: 1, 20", "1 on cpu: 1, 20", "2 on cpu: 1, 20", "3 on cpu: 1, 20"]);
}

#[test]
fn what_a_run_with_several_threads_needed_is_compared_with_what_they_were_to_need() {
    let mut tasks = runs_of(2);
    tasks.iter_mut().for_each(|(task, _)| task.bytes = vec![20, 40]);
    let mut q = Queue::new(tasks, &hundred(2, &[]), Some(1));
    assert_eq!(started(&mut q, Input::Tick), ["0 on cpu: 2, 40"]);
    place(&mut q, measured(0, 40));
    assert_eq!(started(&mut q, ended(0)), ["1 on cpu: 2, 40"], "the estimate was right");
}

/// Runs on the CPU.
fn runs_of(count: usize) -> Vec<(Task, Standing)> {
    runs(&vec![("cpu", 0); count])
}
