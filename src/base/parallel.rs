//! Work that several threads share, for what is done once and whole: lists and reports. Training has a split of its own,
//! which no number of threads may change.

use std::{
    iter,
    panic::resume_unwind,
    sync::{
        Mutex,
        mpsc::{self, TrySendError},
    },
    thread,
};

/// Threads that may be at work at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What `make` makes of each item, in their order, by as many threads as there are cores: whichever is free takes the next.
pub fn each<T: Sync, U: Send>(items: &[T], make: impl Fn(&T) -> U + Sync) -> Vec<U> {
    shared_out(items, 1, make)
}

/// As [`each`], for many items of which each takes but microseconds: they are handed out by the hundred, and while they
/// are worked on, the caller's thread asks for those that follow, which may take it as long.
pub fn each_of_many<T: Send, U: Send>(items: impl IntoIterator<Item = T>, make: impl Fn(T) -> U + Sync) -> Vec<U> {
    shared_out(items, 128, make)
}

fn shared_out<T: Send, U: Send>(
    items: impl IntoIterator<Item = T>,
    size: usize,
    make: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    let mut items = items.into_iter().fuse();
    let share = || Some(items.by_ref().take(size).collect::<Vec<T>>()).filter(|share| !share.is_empty());
    let mut shares = iter::from_fn(share).enumerate().peekable();
    let helpers = cores() - 1;
    // Short, so that what is read does not pile up: when the others have enough to do, the caller lends a hand.
    let (hand_out, handed_out) = mpsc::sync_channel(2 * helpers);
    let handed_out = Mutex::new(handed_out);
    let next = || handed_out.lock().ok()?.recv().ok();
    let make_all = |(at, share): (usize, Vec<T>)| (at, share.into_iter().map(&make).collect::<Vec<U>>());
    let work = || iter::from_fn(next).map(make_all).collect::<Vec<_>>();

    let mut made = thread::scope(|scope| {
        let (mut others, mut own) = (Vec::new(), Vec::new());
        while let Some(share) = shares.next() {
            if others.is_empty() && shares.peek().is_some() {
                others.extend((0..helpers).map(|_| scope.spawn(work)));
            }
            if let Err(TrySendError::Full(share) | TrySendError::Disconnected(share)) = hand_out.try_send(share) {
                own.push(make_all(share));
            }
        }
        drop(hand_out);
        own.extend(work());
        let others = others.into_iter().flat_map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(others).collect::<Vec<_>>()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().flat_map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_stands_in_the_order_of_the_items() {
        for count in [0, 1, 2, 127, 128, 129, 5000] {
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
