//! Work that several threads share, for what is done once and whole: lists and reports. Training has a split of its own,
//! which no number of threads may change.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// CPU cores that this process may use. The standard library heeds the affinity mask (and with it cpusets) and the CPU
/// quota of the control group and of all above it, of versions 1 and 2, rounded down to whole cores, at least one.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What `make` makes of each item, in their order, by as many threads as there are cores: whichever is free takes the next.
pub fn each<T: Sync, U: Send>(items: &[T], make: impl Fn(&T) -> U + Sync) -> Vec<U> {
    if items.len() <= 1 {
        return items.iter().map(make).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            made.push((at, make(item)));
        }
        made
    };
    let mut made: Vec<(usize, U)> = thread::scope(|scope| {
        // Where no thread is to be had, it takes longer.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..cores().min(items.len())).map_while(spawn).collect();
        let own = work();
        let others = others.into_iter().flat_map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(others).collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}

/// As [`each`], for many items of which each takes but microseconds: they are handed out by the hundred.
pub fn each_of_many<T: Sync, U: Send>(items: &[T], make: impl Fn(&T) -> U + Sync) -> Vec<U> {
    const SHARE: usize = 256;
    let shares: Vec<&[T]> = items.chunks(SHARE).collect();
    each(&shares, |share| share.iter().map(&make).collect::<Vec<U>>()).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_stands_in_the_order_of_the_items() {
        for count in [0, 1, 2, 255, 256, 257, 5000] {
            let items: Vec<usize> = (0..count).collect();
            let want: Vec<usize> = items.iter().map(|i| 3 * i).collect();
            assert_eq!(each(&items, |i| 3 * i), want);
            assert_eq!(each_of_many(&items, |i| 3 * i), want);
        }
    }

    #[test]
    #[should_panic(expected = "item 700")]
    fn a_panic_is_passed_on() {
        let items: Vec<usize> = (0..1000).collect();
        each_of_many(&items, |i| assert_ne!(*i, 700, "item 700"));
    }
}
