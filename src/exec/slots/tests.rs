//! Two [`Slots`] in one process stand for two processes, since locks exclude between open files.

use super::*;

fn run(n: u8) -> RunId {
    RunId([n; 32])
}

fn need(n: u8, threads: usize, bytes: u64) -> Need {
    Need { run: run(n), threads, bytes, takes_over: false }
}

fn two(root: &Root) -> (Slots, Slots) {
    (Slots::new(root), Slots::new(root))
}

fn device(name: &str, cores: Option<usize>, memory: Option<u64>) -> DeviceInfo {
    let (name, id, model) = (name.into(), format!("{name}'s-id.1"), String::new());
    DeviceInfo { name, id, model, cores, memory_total: memory, memory_free: memory }
}

/// A CPU whose memory is no limit.
fn cpu(cores: usize) -> DeviceInfo {
    device("cpu", Some(cores), None)
}

/// A GPU with 100 bytes, of which runs may take 95.
fn gpu(free: u64) -> DeviceInfo {
    DeviceInfo { memory_free: Some(free), ..device("cuda:0", None, Some(100)) }
}

/// What all files that are held say is reserved.
fn reserved(root: &Root) -> Vec<u64> {
    let held = held(&folder(root), |_| true).unwrap();
    held.into_iter().map(|held| held.reservation.unwrap().bytes).collect()
}

#[test]
fn two_sweeps_share_the_cores_and_never_take_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let first = a.take(&cpu(3), need(1, 2, 0)).unwrap().unwrap();
    let second = b.take(&cpu(3), need(2, 2, 0)).unwrap().unwrap();
    assert_eq!((first.threads, second.threads), (2, 1), "what is free, rather than nothing");
    assert!(a.take(&cpu(3), need(3, 1, 0)).unwrap().is_err());
    drop(second);
    assert_eq!(a.take(&cpu(3), need(3, 5, 0)).unwrap().unwrap().threads, 1);
}

#[test]
fn who_waited_longer_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let cpu = cpu(1);
    let slot = a.take(&cpu, need(1, 1, 0)).unwrap().unwrap();
    assert!(b.take(&cpu, need(2, 1, 0)).unwrap().is_err());
    drop(slot);
    assert!(a.take(&cpu, need(1, 1, 0)).unwrap().is_err(), "it is the other's turn");
    let slot = b.take(&cpu, need(2, 1, 0)).unwrap().unwrap();
    assert!(a.take(&cpu, need(1, 1, 0)).unwrap().is_err());
    a.pass(&[]);
    drop(slot);
    assert!(b.take(&cpu, need(2, 1, 0)).unwrap().is_ok(), "who passes does not stand in the way");
}

#[test]
fn a_turn_whose_holder_does_not_ask_counts_as_passed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let cpu = cpu(1);
    let slot = a.take(&cpu, need(1, 1, 0)).unwrap().unwrap();
    assert!(b.take(&cpu, need(2, 1, 0)).unwrap().is_err());
    drop(slot);
    let mut after = |seconds: u64| {
        for (_, since) in a.waits.values_mut() {
            *since -= Duration::from_secs(seconds);
        }
        a.take(&cpu, need(1, 1, 0)).unwrap()
    };
    assert!(after(0).is_err() && after(4).is_err());
    std::thread::sleep(Duration::from_millis(5)); // the time of a file is told in ms here
    b.turns[&cpu.id].touch().unwrap();
    assert!(after(4).is_err(), "it asked again meanwhile");
    let slot = after(5).expect("it has been stopped");
    assert!(b.take(&cpu, need(2, 1, 0)).unwrap().is_err());
    drop(slot);
    assert!(b.take(&cpu, need(2, 1, 0)).unwrap().is_ok(), "it still has its turn when it goes on");
}

#[test]
fn machines_that_share_a_root_do_not_share_cores() {
    let root = Root::new("root");
    let names: Vec<PathBuf> = ["a", "b", "../c"].iter().map(|host| root.slots(host)).collect();
    assert_eq!(names, ["root/runs/slots/a", "root/runs/slots/b", "root/runs/slots/-c"].map(PathBuf::from));
}

#[test]
fn a_gpu_of_unknown_memory_is_for_one_run_and_is_no_business_of_the_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let [first, second] = ["cuda:0", "cuda:1"].map(|name| device(name, None, None));
    let held = a.take(&first, need(1, 1, 0)).unwrap().unwrap();
    assert!(b.take(&first, need(2, 1, 0)).unwrap().is_err());
    assert!(b.take(&second, need(2, 1, 0)).unwrap().is_ok());
    assert!(b.take(&cpu(1), need(2, 1, 0)).unwrap().is_ok());
    drop(held);
    assert!(b.take(&first, need(2, 1, 0)).unwrap().is_ok());
}

#[test]
fn runs_of_two_sweeps_share_a_gpu_while_they_fit() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let (mut a, mut b) = two(&root);
    let first = a.take(&gpu(100), need(1, 1, 40)).unwrap().unwrap();
    let second = b.take(&gpu(100), need(2, 1, 40)).unwrap().unwrap();
    assert_eq!((first.threads, &first.device, &first.id), (1, &"cuda:0".to_owned(), &gpu(0).id));
    assert!(b.take(&gpu(100), need(3, 1, 16)).unwrap().is_err(), "95 are for runs");
    assert_eq!(reserved(&root), [40, 40], "who found none reserves nothing");
    let third = b.take(&gpu(100), need(3, 1, 15)).unwrap().unwrap();
    drop(first);
    assert!(a.take(&gpu(100), need(4, 1, 41)).unwrap().is_err());
    drop(second);
    assert!(a.take(&gpu(100), need(4, 1, 80)).unwrap().is_ok(), "nothing is reserved for who has gone");
    drop(third);
}

#[test]
fn what_others_hold_of_a_gpu_is_not_given_away() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, _) = two(&Root::new(dir.path()));
    let _first = a.take(&gpu(100), need(1, 1, 30)).unwrap().unwrap();
    assert!(a.take(&gpu(20), need(2, 1, 20)).unwrap().is_err(), "80 are in use, whoever has them");
    let _second = a.take(&gpu(30), need(2, 1, 20)).unwrap().unwrap();
    assert!(a.take(&gpu(70), need(3, 1, 16)).unwrap().is_err(), "30 are in use, and of the 50 reserved perhaps none");
    let third = a.take(&gpu(70), need(3, 1, 15)).unwrap().unwrap();
    drop(third);
    assert!(a.take(&gpu(100), need(3, 1, 46)).unwrap().is_err(), "50 are reserved, though none is in use yet");
    assert!(a.take(&gpu(100), need(3, 1, 45)).unwrap().is_ok(), "the other program has ended");
}

#[test]
fn what_others_hold_is_not_forgotten_while_runs_have_not_allocated_yet() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let _first = a.take(&gpu(60), need(1, 1, 20)).unwrap().unwrap();
    let _second = b.take(&gpu(60), need(2, 1, 20)).unwrap().unwrap();
    let refusal = a.take(&gpu(60), need(3, 1, 20)).unwrap().unwrap_err();
    let want = Refusal { lack: Lack::Memory, runs: vec![run(1), run(2)], free: Some(15), others: 40 };
    assert_eq!(refusal, want, "40 of others and 40 of ours leave 15 of 95");
}

#[test]
fn a_gpu_that_others_fill_is_left_to_them_while_it_would_hold_the_run_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, _) = two(&Root::new(dir.path()));
    let refusal = a.take(&gpu(30), need(1, 1, 40)).unwrap().unwrap_err();
    assert_eq!(refusal, Refusal { lack: Lack::Memory, runs: vec![], free: Some(25), others: 70 });
    assert!(a.take(&gpu(30), need(1, 1, 25)).unwrap().is_ok());
    assert!(a.take(&gpu(95), need(1, 1, 95)).unwrap().is_ok(), "what a driver holds is no other program");
    assert!(a.take(&gpu(30), need(1, 1, 96)).unwrap().is_ok(), "it would wait for ever");
    let cpu = DeviceInfo { memory_free: Some(0), ..device("cpu", Some(2), Some(100)) };
    assert!(a.take(&cpu, need(1, 1, 40)).unwrap().is_ok(), "memory of other programs can be reclaimed");
}

#[test]
fn who_takes_a_slot_is_told_whether_others_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let first = a.take(&gpu(100), need(1, 1, 40)).unwrap().unwrap();
    let second = b.take(&gpu(100), need(2, 1, 40)).unwrap().unwrap();
    assert_eq!((first.company, second.company), (false, true));
}

#[test]
fn who_is_refused_is_told_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let slot = a.take(&cpu(1), need(1, 1, 0)).unwrap().unwrap();
    let refusal = |lack| Refusal { lack, runs: vec![run(1)], free: None, others: 0 };
    assert_eq!(b.take(&cpu(1), need(2, 1, 0)).unwrap().unwrap_err(), refusal(Lack::Place));
    assert_eq!(a.take(&cpu(1), need(3, 1, 0)).unwrap().unwrap_err(), refusal(Lack::Turn));
    drop(slot);
}

#[test]
fn the_turn_on_a_device_where_nobody_waits_any_more_is_passed_and_the_others_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let held = [cpu(1), gpu(100)].map(|device| a.take(&device, need(1, 1, 90)).unwrap().unwrap());
    for device in [cpu(1), gpu(100)] {
        assert!(b.take(&device, need(2, 1, 90)).unwrap().is_err());
    }
    drop(held);
    b.pass(&[&cpu(1).id]);
    assert_eq!(a.take(&cpu(1), need(3, 1, 90)).unwrap().unwrap_err().lack, Lack::Turn);
    assert!(a.take(&gpu(100), need(3, 1, 90)).unwrap().is_ok());
}

#[test]
fn who_would_be_alone_gets_the_device_whatever_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let large = a.take(&gpu(5), need(1, 1, 1000)).unwrap().unwrap();
    assert!(b.take(&gpu(100), need(2, 1, 1)).unwrap().is_err());
    drop(large);
    let small = b.take(&gpu(100), need(2, 1, 1)).unwrap().unwrap();
    assert!(a.take(&gpu(100), need(1, 1, 1000)).unwrap().is_err());
    drop(small);
    assert!(a.take(&gpu(100), need(1, 1, 1000)).unwrap().is_ok());

    let one = a.take(&cpu(4), need(1, 1, 1)).unwrap().unwrap();
    assert!(a.take(&cpu(4), need(2, 1, u64::MAX)).unwrap().is_err(), "it is to be alone");
    drop(one);
    let _alone = a.take(&cpu(4), need(2, 1, u64::MAX)).unwrap().unwrap();
    assert!(a.take(&cpu(4), need(1, 1, 1)).unwrap().is_err());
}

#[test]
fn runs_on_the_cpu_share_its_memory_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let (mut a, mut b) = two(&root);
    let cpu = device("cpu", Some(16), Some(100));
    let first = a.take(&cpu, need(1, 3, 40)).unwrap().unwrap();
    let _second = b.take(&cpu, need(2, 1, 40)).unwrap().unwrap();
    assert_eq!((first.threads, reserved(&root).iter().sum::<u64>()), (3, 80), "a run reserves once, on all its cores");
    assert!(a.take(&cpu, need(3, 1, 40)).unwrap().is_err(), "there are cores, but no memory");
    drop(first);
    assert!(a.take(&cpu, need(3, 1, 40)).unwrap().is_ok());
}

#[test]
fn two_who_take_at_once_never_both_stay_where_they_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    for _ in 0..50 {
        let slots: Vec<Slot> = std::thread::scope(|scope| {
            // Past the turns, which may overlap where a holder did not ask for long.
            let take = |n| Slots::new(&root).reserve(&gpu(100), need(n, 1, 30)).unwrap();
            let takers: Vec<_> = (0..8).map(|n| scope.spawn(move || take(n))).collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        assert!(slots.len() <= 3, "{} runs of 30 on 95", slots.len());
    }
}

#[test]
fn a_held_file_that_does_not_say_what_it_reserves_counts_as_all() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let (mut a, _) = two(&root);
    let path = folder(&root).join(format!("{}.7.lock", file_stem(&gpu(0).id)));
    let other = Lock::try_take(&path).unwrap().unwrap();
    assert!(a.take(&gpu(100), need(1, 1, 1)).unwrap().is_err());
    let core = Lock::try_take(&folder(&root).join(format!("{}.7.lock", file_stem(&cpu(8).id)))).unwrap().unwrap();
    assert!(a.take(&cpu(8), need(1, 1, 1)).unwrap().is_err(), "where memory is not known as well");
    drop(core);
    other.note(&serde_json::to_string(&Reservation { run: run(9), bytes: 94, others: 0 }).unwrap()).unwrap();
    assert!(a.take(&gpu(100), need(1, 1, 1)).unwrap().is_ok());
    other.note(&serde_json::json!({"run": run(9), "bytes": 94}).to_string()).unwrap();
    assert!(a.take(&gpu(100), need(1, 1, 1)).unwrap().is_ok(), "earlier versions do not say what others hold");
    drop(other);
    assert!(a.take(&gpu(100), need(1, 1, 1)).unwrap().is_ok());
}

#[test]
fn it_is_told_who_is_on_which_device() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    assert!(occupants(&root).unwrap().is_empty(), "nobody ever was on any");
    let (mut a, mut b) = two(&root);
    let first = a.take(&gpu(100), need(1, 1, 40)).unwrap().unwrap();
    let _second = b.take(&gpu(100), need(2, 1, 40)).unwrap().unwrap();
    let _third = b.take(&cpu(4), need(3, 3, 40)).unwrap().unwrap();
    // What lies there beside: of a former version, and of nobody.
    let beside: Vec<_> = ["cuda-0.lock", "cpu-1.lock", "x%.1.lock", "cpu.lock", "a%2.3.lock", "%61.0.lock"]
        .iter()
        .map(|name| Lock::try_take(&folder(&root).join(name)).unwrap())
        .collect();
    let there = |runs: &[u8]| runs.iter().map(|&n| run(n)).collect::<Vec<_>>();
    let want = [(cpu(1).id, there(&[3])), (gpu(0).id, there(&[1, 2]))];
    assert_eq!(occupants(&root).unwrap(), BTreeMap::from(want.clone()));
    assert_eq!(occupants(&root).unwrap(), BTreeMap::from(want), "asking changes nothing");
    drop((first, beside));
    assert_eq!(occupants(&root).unwrap()[&gpu(0).id], there(&[2]));
}

#[test]
fn the_name_of_a_file_tells_the_device_whatever_its_id() {
    for id in ["cpu", "GPU-5c7a-01", "cuda:0", "a.1", "a%2E1", "ä/../b"] {
        let name = format!("{}.12.lock", file_stem(id));
        assert_eq!(device_of(&name).as_deref(), Some(id));
        assert!(!name.contains('/'));
    }
}

#[test]
fn who_takes_a_run_over_has_the_places_of_the_worker_that_no_longer_stirs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = two(&Root::new(dir.path()));
    let cpu = cpu(2);
    let stopped = a.take(&cpu, need(1, 1, 1)).unwrap().unwrap();
    let _other = a.take(&cpu, need(2, 1, 1)).unwrap().unwrap();
    assert!(b.take(&cpu, need(1, 1, 1)).unwrap().is_err());
    let over = b.take(&cpu, Need { takes_over: true, ..need(1, 2, 1) }).unwrap().unwrap();
    assert_eq!(over.threads, 1, "what another run holds stays its own");
    drop(stopped);
    b.pass(&[]);
    assert!(a.take(&cpu, need(3, 1, 1)).unwrap().is_err(), "the place is the new worker's now");
    drop(over);
    a.pass(&[]);
    assert!(b.take(&cpu, need(3, 1, 1)).unwrap().is_ok());
}
