//! Stories of devices that others hold.

use super::*;

fn refused(n: usize, lack: Lack, runs: &[usize], free: Option<u64>, others: u64) -> Input {
    let runs = runs.iter().map(|&n| id(n)).collect();
    Input::Busy { run: id(n), refusal: Refusal { lack, runs, free, others } }
}

/// When the queue asks for devices, which always refuse, within so many ticks; and what it says, and when.
fn asked(q: &mut Queue, mut refusal: impl FnMut(f64) -> Input, until: usize) -> (Vec<f64>, Vec<(f64, String)>) {
    let (mut asked, mut said) = (Vec::new(), Vec::new());
    for tick in 0..until {
        let now = tick as f64 / 10.0;
        let mut inputs = vec![Input::Tick];
        while let Some(input) = inputs.pop() {
            for action in q.step(seconds(now), input) {
                match action {
                    Action::Start { .. } => {
                        asked.push(now);
                        inputs.push(refusal(now));
                    }
                    Action::Say(what) => said.push((now, what)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    (asked, said)
}

/// One run for a GPU of 10 GB.
fn on_a_gpu(bytes: u64) -> Queue {
    let mut machine = machine(1, &["cuda:0"]);
    machine[1].memory_total = Some(10_000_000_000);
    let (task, standing) = task(0, "cuda", 1.0);
    Queue::new(vec![(Task { bytes: vec![bytes], ..task }, standing)], &machine, None)
}

#[test]
fn a_device_that_stays_busy_is_asked_for_less_and_less_often_and_at_once_when_a_run_of_ours_ends() {
    let mut q = queue(1, 1, None);
    let (times, _) = asked(&mut q, |_| busy(id(0)), 40);
    assert_eq!(times, [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.4, 3.2]);

    let mut q = queue(3, 2, None);
    assert_eq!(q.step(seconds(0.0), Input::Tick).len(), 2);
    q.step(seconds(0.0), Input::Granted { run: id(0), threads: 1, company: true });
    q.step(seconds(0.0), busy(id(1)));
    assert_eq!(ends(&mut q, 0.01, 0, done()).0.len(), 2);
}

#[test]
fn after_some_seconds_it_is_told_who_is_waited_for_and_again_only_when_that_is_another() {
    let giga = 1_000_000_000;
    let mut q = on_a_gpu(4 * giga);
    let story = |now: f64| match now {
        ..70.0 => refused(0, Lack::Memory, &[7], Some(1_500_000_000 + now as u64 * 100_000_000), 0),
        ..90.0 => refused(0, Lack::Memory, &[7, 8], Some(0), 0),
        _ => refused(0, Lack::Memory, &[7, 8, 9, 10], Some(0), 3 * giga),
    };
    let (_, said) = asked(&mut q, story, 2000);
    let [zero, seven, eight] = [0, 7, 8].map(|n| id(n).short());
    let texts: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
    let waits = format!("{zero} waits for cuda:0: it needs 4.0 GB");
    assert_eq!(
        texts,
        [
            format!("{waits}, and 2.0 GB are free; {seven} of another sweep is there"),
            format!("{waits}, and 0.0 GB are free; {seven} and {eight}, not of this sweep, are there"),
            format!(
                "{waits}, and 0.0 GB are free; {seven}, {eight} and 2 more, not of this sweep, are there, \
                 and other programs hold 3.0 GB"
            ),
        ]
    );
    let is_then = |((at, _), want): (&(f64, String), f64)| (want..want + 1.0).contains(at);
    assert!(said.iter().zip([5.0, 70.0, 130.0]).all(is_then), "{said:?}");
}

#[test]
fn it_is_told_what_else_a_device_may_lack() {
    for (refusal, words) in [
        (
            refused(0, Lack::Memory, &[], Some(1_000_000_000), 9_000_000_000),
            "it needs 4.0 GB, and 1.0 GB are free; other programs hold 9.0 GB",
        ),
        (refused(0, Lack::Turn, &[], None, 1), "another sweep has waited longer"),
        (refused(0, Lack::Place, &[0], None, 1), "all of it is taken"),
    ] {
        let mut q = on_a_gpu(4_000_000_000);
        let (_, said) = asked(&mut q, |_| refusal.clone(), 90);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].1, format!("{} waits for cuda:0: {words}", id(0).short()));
    }
}

#[test]
fn a_device_is_awaited_while_a_run_waits_for_it() {
    let tasks = ["cuda", "cpu"].iter().enumerate().map(|(n, device)| task(n, device, 1.0)).collect();
    let mut q = Queue::new(tasks, &machine(1, &["cuda:0"]), None);
    q.step(seconds(0.0), Input::Tick);
    assert_eq!(q.awaited(seconds(0.0)).count(), 0);
    for n in [0, 1] {
        q.step(seconds(0.0), busy(id(n)));
    }
    assert_eq!(q.awaited(seconds(0.0)).collect::<Vec<_>>(), ["cpu", "cuda:0"]);
    q.step(seconds(0.0), Input::Cancelled { run: id(0) });
    assert_eq!(q.awaited(seconds(0.0)).collect::<Vec<_>>(), ["cpu"], "nobody waits for the GPU any more");
    q.step(seconds(0.0), Input::Signal);
    assert_eq!(q.awaited(seconds(0.0)).count(), 0);
}
