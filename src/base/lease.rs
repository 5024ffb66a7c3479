//! Leases: how those who share a root tell a worker that is at work from one that no longer stirs, also where its lock
//! cannot be seen (a file system that keeps locks to each machine) or says nothing (a worker that is stopped or hangs
//! holds its lock for ever).
//!
//! Whoever holds a run's lock writes into it who it is, and sets the file's time anew several times per [`period`]. A
//! [`Watch`] counts how long it has itself seen that time stand still. No two clocks are ever compared, and time in
//! which the watcher did not look counts for next to nothing: a laptop that was shut loses no runs.
//!
//! Who looks but once cannot watch. [`is_held`] takes the word of another machine's lease that was renewed lately, by
//! the clocks of both: good enough to say where a run stands, and nothing is ever taken on the strength of it.
//!
//! A lease that stands still for a period may be [seized](Lease::seize). Its old holder, should it stir again, finds
//! that at its [`Fence`], which it asks before everything that it writes.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{Context, Error, Exit, Result, clock, files, lock::Lock, machine::Identity};

/// How often a lease is renewed, and the most that one look of a watcher counts for, as a part of the period.
const PART: u32 = 5;

/// How long a lease lasts that is not renewed: 30 s, or as many seconds as the variable `EXP_LEASE` says.
pub fn period() -> Duration {
    let asked = std::env::var("EXP_LEASE").ok().and_then(|seconds| seconds.parse().ok());
    let asked = asked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    asked.filter(|period| !period.is_zero()).unwrap_or(Duration::from_secs(30))
}

/// How far the clocks of machines that share a root may be apart, for those who look but once. Where they are further
/// apart, a run of another machine looks interrupted while it is trained; one whose machine died looks as if it ran for
/// that much longer.
const SKEW: Duration = Duration::from_secs(60);

/// Whether somebody holds the run whose lock file is at `path`, as far as one look can tell: its lock is held, or stands in
/// the name of another machine, whose locks may be invisible here, and was renewed within a [`period`] and a minute.
pub fn is_held(path: &Path) -> Result<bool> {
    if Lock::is_held(path)? {
        return Ok(true);
    }
    let elsewhere = Lease::read(path)?.filter(|(lease, _)| !lease.identity.is_here());
    Ok(elsewhere.is_some_and(|(_, sight)| sight.age().abs() <= (period() + SKEW).as_secs_f64()))
}

/// What stands in a run's lock: who trains the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker.
    pub identity: Identity,
    /// The attempt that it makes.
    pub attempt: u32,
    /// Tells this lease from every other.
    pub token: String,
}

/// A lease as it was seen at one time: whose it was, and when it had been renewed. Its text is `TOKEN@NANOSECONDS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    token: String,
    renewed: i128,
}

impl Sight {
    /// How long ago the lease was renewed, in seconds, if the clock of its machine and that of this one were the same.
    fn age(&self) -> f64 {
        let now = i128::from(clock::now()) * 1_000_000;
        (now - self.renewed) as f64 / 1e9
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}@{}", self.token, self.renewed)
    }
}

impl FromStr for Sight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('@').and_then(|(token, renewed)| Some((token, renewed.parse().ok()?)));
        let (token, renewed) = parts.ok_or_else(|| format!("{text:?} is no lease: one is TOKEN@NANOSECONDS"))?;
        Ok(Self { token: token.into(), renewed })
    }
}

impl Lease {
    /// A lease of this process.
    pub fn new(attempt: u32) -> Self {
        let identity = Identity::me();
        let unique = format!("{identity:?} {attempt} {} {:?}", clock::now(), Instant::now());
        Self { identity, attempt, token: blake3::hash(unique.as_bytes()).to_hex()[..16].to_owned() }
    }

    /// The lease in a lock file, and its sight; `None` where none stands there.
    pub fn read(path: &Path) -> Result<Option<(Self, Sight)>> {
        read(path).doing(Exit::Store, || format!("reading the lease {}", path.display()))
    }

    /// Takes a run from a holder whose lease still is as it was seen. `None` where it is not: it was renewed, or another
    /// was faster. With the lock come the lease that was seized and the file that now is locked.
    pub fn seize(&self, path: &Path, sight: &Sight) -> Result<Option<(Lock, Self)>> {
        let mut seized = None;
        let still = || {
            seized = read(path)?.filter(|(_, now)| now == sight).map(|(lease, _)| lease);
            Ok(seized.is_some())
        };
        let lock = Lock::seize(path, &self.text(), still)?;
        Ok(lock.zip(seized))
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

fn read(path: &Path) -> io::Result<Option<(Lease, Sight)>> {
    // Opened anew at each look, and then asked for its time: so file systems of a network ask their server.
    let mut file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let Ok(lease) = serde_json::from_slice::<Lease>(&text) else { return Ok(None) };
    let meta = file.metadata()?;
    let renewed = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    let token = lease.token.clone();
    Ok(Some((lease, Sight { token, renewed })))
}

/// Who holds a run, as far as can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: it may be taken.
    Nobody,
    /// A worker that may well be at work.
    Somebody,
    /// A worker that has not stirred for a whole period: it may be seized.
    Stale(Sight),
}

/// Watches leases. Look often: a look counts for at most a fifth of a period.
#[derive(Debug)]
pub struct Watch {
    period: Duration,
    seen: BTreeMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    sight: Sight,
    /// How long it has been watched without being renewed.
    still: Duration,
    at: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self { period: period(), seen: BTreeMap::new() }
    }
}

impl Watch {
    /// Looks who holds the lock file at `path`.
    pub fn look(&mut self, path: &Path) -> Result<Holder> {
        self.look_at(path, Instant::now())
    }

    /// How long a lease lasts.
    pub fn period(&self) -> Duration {
        self.period
    }

    fn look_at(&mut self, path: &Path, now: Instant) -> Result<Holder> {
        let held = Lock::is_held(path)?;
        let lease = Lease::read(path)?;
        let (sight, settled) = match lease {
            // On this machine a lock that is not held is nobody's, whatever stands in it.
            Some((lease, _)) if !held && lease.identity.is_here() => (None, Holder::Nobody),
            Some((_, sight)) => (Some(sight), Holder::Somebody),
            None if held => (None, Holder::Somebody),
            None => (None, Holder::Nobody),
        };
        let Some(sight) = sight else {
            self.seen.remove(path);
            return Ok(settled);
        };
        let seen = self.seen.entry(path.into()).or_insert_with(|| Seen {
            sight: sight.clone(),
            still: Duration::ZERO,
            at: now,
        });
        if seen.sight == sight {
            seen.still += now.saturating_duration_since(seen.at).min(self.period / PART);
        } else {
            *seen = Seen { sight: sight.clone(), still: Duration::ZERO, at: now };
        }
        seen.at = now;
        Ok(if seen.still >= self.period { Holder::Stale(sight) } else { settled })
    }
}

/// Whether a worker still has its run. The default has no lock behind it and never says no.
#[derive(Clone, Debug, Default)]
pub struct Fence(Option<Arc<Post>>);

#[derive(Debug)]
struct Post {
    lock: Lock,
    lost: AtomicBool,
}

impl Fence {
    /// To be asked before everything that a worker writes.
    ///
    /// # Errors
    ///
    /// [`Exit::LeaseLost`] once another worker has taken the run over, [`Exit::Store`] where that cannot be told.
    pub fn check(&self) -> Result<()> {
        let Some(post) = &self.0 else { return Ok(()) };
        let folder = files::folder_of(post.lock.path()).display();
        if !post.lost.load(Ordering::Relaxed)
            && post.lock.stands().doing(Exit::Store, || format!("asking who holds the run {folder}"))?
        {
            return Ok(());
        }
        post.lost.store(true, Ordering::Relaxed);
        let why = "another worker has taken it over, since this one did not stir";
        Err(Error::new(Exit::LeaseLost, format!("writing to the run {folder}"), why)
            .hint("nothing is lost: the other one went on from the last checkpoint"))
    }
}

/// A lock with a lease that is renewed until this is dropped; then the lease ends.
#[derive(Debug)]
pub struct Held {
    fence: Fence,
    lease: Lease,
    renewing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Held {
    /// Writes the lease into the lock and renews it from now on. `lost` is called, once and on another thread, should
    /// somebody else take the lock over.
    pub fn new(lock: Lock, lease: Lease, lost: impl FnOnce(Error) + Send + 'static) -> Result<Self> {
        Self::renewed(lock, lease, period() / PART, lost)
    }

    fn renewed(lock: Lock, lease: Lease, every: Duration, lost: impl FnOnce(Error) + Send + 'static) -> Result<Self> {
        let path = lock.path().to_owned();
        let doing = || format!("writing the lease {}", path.display());
        if Lease::read(&path)?.is_none_or(|(there, _)| there != lease) {
            lock.note(&lease.text()).doing(Exit::Store, doing)?;
        }
        let post = Arc::new(Post { lock, lost: AtomicBool::new(false) });
        let fence = Fence(Some(Arc::clone(&post)));
        let (done, asked) = channel();
        let (watched, token) = (fence.clone(), lease.token.clone());
        let renew = move || {
            while asked.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // Where machines do not see each other's locks, two may have taken a free one at once.
                if matches!(read(post.lock.path()), Ok(Some((there, _))) if there.token != token) {
                    post.lost.store(true, Ordering::Relaxed);
                }
                if let Err(error) = watched.check()
                    && error.exit == Exit::LeaseLost
                {
                    return lost(error);
                }
                let _ = post.lock.touch(); // what fails now may succeed the next time, well before the lease ends
            }
        };
        let thread = thread::Builder::new().name("lease".into()).spawn(renew).doing(Exit::Unexpected, doing)?;
        Ok(Self { fence, lease, renewing: Some((done, thread)) })
    }

    /// What to ask before everything that is written.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.renewing.take() {
            drop(done);
            let _ = thread.join();
        }
        if self.fence.check().is_ok()
            && let Some(post) = &self.fence.0
            && matches!(read(post.lock.path()), Ok(Some((there, _))) if there == self.lease)
        {
            let _ = post.lock.note(""); // so that nobody on another machine waits for it to end
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc};

    use super::*;

    struct Lab {
        dir: tempfile::TempDir,
        now: Instant,
        watch: Watch,
    }

    impl Lab {
        fn new() -> Self {
            let watch = Watch { period: Duration::from_secs(10), seen: BTreeMap::new() };
            Self { dir: tempfile::tempdir().unwrap(), now: Instant::now(), watch }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("lock")
        }

        /// A lease of another machine.
        fn elsewhere(&self) -> Lease {
            let lease = Lease::new(3);
            Lease { identity: Identity { host: "elsewhere".into(), ..lease.identity }, ..lease }
        }

        fn write(&self, lease: &Lease) {
            fs::write(self.path(), lease.text()).unwrap();
        }

        /// Looks after so many seconds.
        fn look(&mut self, after: f64) -> Holder {
            self.now += Duration::from_secs_f64(after);
            self.watch.look_at(&self.path(), self.now).unwrap()
        }

        fn looks(&mut self, seconds: usize) -> Holder {
            (0..seconds).map(|_| self.look(1.0)).last().unwrap()
        }
    }

    #[test]
    fn a_lock_without_a_lease_is_as_free_as_it_is_unlocked() {
        let mut lab = Lab::new();
        assert_eq!(lab.look(0.0), Holder::Nobody);
        let lock = Lock::try_take(&lab.path()).unwrap().unwrap();
        assert_eq!(lab.looks(100), Holder::Somebody, "nothing says that it would be renewed");
        lock.note("process 1 on somewhere\n").unwrap();
        assert_eq!(lab.looks(100), Holder::Somebody, "what older versions wrote");
        drop(lock);
        assert_eq!(lab.look(1.0), Holder::Nobody);
    }

    #[test]
    fn a_lease_of_this_machine_counts_while_its_lock_is_held() {
        let mut lab = Lab::new();
        lab.write(&Lease::new(1));
        assert_eq!(lab.look(0.0), Holder::Nobody, "its worker died");
        let lock = Lock::try_take(&lab.path()).unwrap().unwrap();
        assert_eq!(lab.looks(10), Holder::Somebody);
        assert!(matches!(lab.look(1.0), Holder::Stale(_)), "it is stopped");
        lock.touch().unwrap();
        assert_eq!(lab.look(1.0), Holder::Somebody);
    }

    #[test]
    fn a_lease_of_another_machine_counts_until_it_was_seen_to_stand_still_for_a_period() {
        let mut lab = Lab::new();
        let lease = lab.elsewhere();
        lab.write(&lease);
        let day = Duration::from_secs(86_400);
        let file = File::options().write(true).open(lab.path()).unwrap();
        for wrong in [std::time::SystemTime::now() - day, std::time::SystemTime::now() + day] {
            file.set_modified(wrong).unwrap();
            assert_eq!(lab.look(1.0), Holder::Somebody, "clocks of other machines say nothing");
        }
        assert_eq!(lab.looks(9), Holder::Somebody);
        file.set_modified(std::time::SystemTime::now()).unwrap();
        assert_eq!(lab.looks(10), Holder::Somebody, "renewed");
        let Holder::Stale(sight) = lab.look(1.0) else { panic!("it stood still for 10 s") };
        assert_eq!(sight.to_string().parse::<Sight>().unwrap(), sight);
        assert!(sight.to_string().starts_with(&lease.token));
    }

    #[test]
    fn one_look_takes_the_word_of_another_machine_for_a_period_and_a_minute() {
        let lab = Lab::new();
        let path = lab.path();
        assert!(!is_held(&path).unwrap());
        let (now, tolerance) = (std::time::SystemTime::now(), period() + SKEW);
        let renewed = |at| File::options().write(true).open(lab.path()).unwrap().set_modified(at).unwrap();
        lab.write(&lab.elsewhere());
        assert!(is_held(&path).unwrap());
        for (apart, held) in [(tolerance - Duration::from_secs(20), true), (tolerance + Duration::from_secs(20), false)]
        {
            for at in [now - apart, now + apart] {
                renewed(at);
                assert_eq!(is_held(&path).unwrap(), held, "{apart:?}");
            }
        }
        lab.write(&Lease::new(1));
        assert!(!is_held(&path).unwrap(), "the locks of this machine are seen");
        let _lock = Lock::try_take(&path).unwrap().unwrap();
        renewed(now - tolerance * 2);
        assert!(is_held(&path).unwrap());
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let mut lab = Lab::new();
        lab.write(&lab.elsewhere());
        lab.look(0.0);
        for _ in 0..4 {
            assert_eq!(lab.look(3600.0), Holder::Somebody, "the watcher was stopped itself");
        }
        assert!(matches!(lab.look(3600.0), Holder::Stale(_)));
    }

    #[test]
    fn a_lease_is_renewed_while_it_is_held_and_ends_with_it() {
        let lab = Lab::new();
        let lock = Lock::try_take(&lab.path()).unwrap().unwrap();
        let lease = Lease::new(2);
        let held = Held::new(lock, lease.clone(), |_| panic!("it was not lost")).unwrap();
        assert_eq!(Lease::read(&lab.path()).unwrap().unwrap().0, lease);
        held.fence().check().unwrap();
        drop(held);
        assert!(Lease::read(&lab.path()).unwrap().is_none() && !Lock::is_held(&lab.path()).unwrap());
    }

    #[test]
    fn who_was_seized_from_is_told_at_its_fence_and_writes_no_more() {
        let lab = Lab::new();
        let lock = Lock::try_take(&lab.path()).unwrap().unwrap();
        let held = Held::new(lock, Lease::new(2), |_| {}).unwrap();
        let (lease, sight) = Lease::read(&lab.path()).unwrap().unwrap();
        let ours = Lease::new(3);
        let wrong = Sight { renewed: sight.renewed - 1, ..sight.clone() };
        assert!(ours.seize(&lab.path(), &wrong).unwrap().is_none(), "it was renewed meanwhile");
        let (lock, seized) = ours.seize(&lab.path(), &sight).unwrap().unwrap();
        assert_eq!(seized, lease);
        assert_eq!(held.fence().check().unwrap_err().exit, Exit::LeaseLost);
        let before = fs::read(lab.path()).unwrap();
        drop(held);
        assert_eq!(fs::read(lab.path()).unwrap(), before);
        assert!(lock.stands().unwrap());
    }

    #[test]
    fn of_many_who_seize_a_stale_lease_one_gets_it() {
        for _ in 0..50 {
            let lab = Lab::new();
            let path = lab.path();
            lab.write(&lab.elsewhere());
            let sight = Lease::read(&path).unwrap().unwrap().1;
            let won: Vec<_> = thread::scope(|s| {
                let seizing = (0..4).map(|n| s.spawn(move || Lease::new(n))).collect::<Vec<_>>();
                let leases: Vec<Lease> = seizing.into_iter().map(|thread| thread.join().unwrap()).collect();
                let (path, sight) = (&path, &sight);
                let threads: Vec<_> =
                    leases.into_iter().map(|l| s.spawn(move || l.seize(path, sight).unwrap().map(|_| l))).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(won.len(), 1);
            assert_eq!(Lease::read(&path).unwrap().unwrap().0, won[0]);
        }
    }

    #[test]
    fn two_machines_that_took_a_free_lock_at_once_do_not_both_keep_it() {
        let lab = Lab::new();
        let lock = Lock::try_take(&lab.path()).unwrap().unwrap();
        let (told, lost) = mpsc::channel();
        let every = Duration::from_millis(5);
        let held = Held::renewed(lock, Lease::new(1), every, move |error| told.send(error.exit).unwrap()).unwrap();
        let renewed = || Lease::read(&lab.path()).unwrap().unwrap().1;
        let first = renewed();
        while renewed() == first {
            thread::yield_now();
        }
        assert!(lost.try_recv().is_err());
        let other = lab.elsewhere();
        lab.write(&other);
        assert_eq!(lost.recv().unwrap(), Exit::LeaseLost);
        assert_eq!(held.fence().check().unwrap_err().exit, Exit::LeaseLost, "though the file is the same");
        drop(held);
        assert_eq!(Lease::read(&lab.path()).unwrap().unwrap().0, other);
    }
}
