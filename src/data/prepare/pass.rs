//! One way through all pieces: one thread reads and cuts, some work on pieces, and the caller takes what comes of them, in
//! order. A bounded number of pieces is in memory at once.

use std::{
    ops::ControlFlow,
    sync::{
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use rayon::{ScopeFifo, ThreadPool};

use super::{
    input::Counter,
    pieces::{Cursor, Piece, Pieces},
};
use crate::base::{Error, Exit, Result};

/// How often it is asked whether to stop.
const TICK: Duration = Duration::from_millis(50);

/// Pieces that wait for a thread or for being taken, beyond one for each thread.
const AHEAD: usize = 3;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// There is no piece left, or the caller has what it wanted.
    Reached,
    /// Somebody asked to stop.
    Asked,
}

/// What is known of a piece whose text is gone.
#[derive(Clone, Copy)]
pub struct Note {
    /// Documents that begin in it.
    pub documents: u64,
    /// Bytes of its text.
    pub bytes: u64,
    /// Bytes of files read up to its end, or a little further.
    pub read: u64,
    /// Where the next one begins.
    pub next: Cursor,
}

type Worked<T> = Result<(Note, T)>;

/// Runs `work` on each piece in the threads of `pool`, and `take` on what comes of it, in order, in this thread.
pub fn run<T: Send>(
    pieces: Pieces,
    counter: &Counter,
    pool: &ThreadPool,
    is_asked: &dyn Fn() -> bool,
    work: impl Fn(Piece) -> Result<T> + Sync,
    mut take: impl FnMut(Note, T) -> Result<ControlFlow<()>>,
) -> Result<End> {
    let (sender, queue) = sync_channel(pool.current_num_threads() + AHEAD);
    pool.in_place_scope_fifo(|tasks| {
        thread::scope(|threads| {
            threads.spawn(|| read(pieces, counter, tasks, &work, sender));
            let end = consume(queue, is_asked, &mut take);
            counter.stop.store(true, Ordering::SeqCst); // what is not begun yet is in vain
            end
        })
    })
}

/// Reads pieces and has them worked on.
fn read<'scope, T: Send + 'scope>(
    mut pieces: Pieces,
    counter: &'scope Counter,
    tasks: &ScopeFifo<'scope>,
    work: &'scope (impl Fn(Piece) -> Result<T> + Sync),
    queue: SyncSender<Receiver<Worked<T>>>,
) {
    loop {
        let (done, worked) = sync_channel(1);
        let piece = match pieces.next() {
            Ok(Some(piece)) => piece,
            Ok(None) => return,
            Err(error) => {
                // Who does not listen any more has no use for it.
                let _ = done.send(Err(error));
                let _ = queue.send(worked);
                return;
            }
        };
        if queue.send(worked).is_err() {
            return;
        }
        tasks.spawn_fifo(move |_| {
            if !counter.stop.load(Ordering::Relaxed) {
                let (documents, bytes) = (piece.documents, piece.text.len() as u64);
                let note = Note { documents, bytes, read: piece.read, next: piece.next };
                let _ = done.send(work(piece).map(|made| (note, made)));
            }
        });
    }
}

fn consume<T>(
    queue: Receiver<Receiver<Worked<T>>>,
    is_asked: &dyn Fn() -> bool,
    take: &mut impl FnMut(Note, T) -> Result<ControlFlow<()>>,
) -> Result<End> {
    loop {
        let Some(worked) = wait(&queue, is_asked) else { return Ok(End::Asked) };
        let Some(worked) = worked else { return Ok(End::Reached) };
        let Some(worked) = wait(&worked, is_asked) else { return Ok(End::Asked) };
        // A thread that panicked has ended the process, unless this is a test.
        let gone = || Error::new(Exit::Unexpected, "tokenizing a text", "a thread ended early");
        let (note, made) = worked.ok_or_else(gone)??;
        if take(note, made)?.is_break() {
            return Ok(End::Reached);
        }
    }
}

/// What comes next, `Some(None)` where nothing more does; `None` where somebody asks to stop.
fn wait<T>(from: &Receiver<T>, is_asked: &dyn Fn() -> bool) -> Option<Option<T>> {
    loop {
        if is_asked() {
            return None;
        }
        match from.recv_timeout(TICK) {
            Ok(next) => return Some(Some(next)),
            Err(RecvTimeoutError::Disconnected) => return Some(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
