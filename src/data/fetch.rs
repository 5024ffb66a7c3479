//! A file from the network whose size and SHA-256 are known beforehand: whole or not there, and downloaded once however
//! many processes ask for it. It is held in memory meanwhile. What the file means, and what to do where it cannot be had,
//! its caller knows.

use std::{
    fs,
    io::{ErrorKind, Read},
    net::IpAddr,
    path::Path,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use ureq::{Agent, Body, Timeout, http::Uri};

use crate::base::{
    Context, Error, Exit, Result,
    files::{self, Lock},
    num::grouped,
    progress::Progress,
    wait::{self, Wait},
};

/// How many redirects are followed.
const REDIRECTS: u32 = 5;

/// How many time-outs a whole download may take: a server that sends a byte now and then is as good as none.
const PATIENCE: u32 = 20;

/// How much is read at a time, in bytes.
const BLOCK: usize = 1 << 16;

/// A file, and an address where it can be had.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// What people call it: `Tiny Shakespeare`.
    pub name: &'a str,
    /// Where it lies, by `http` or `https`.
    pub url: &'a str,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: &'a str,
    /// How long to wait for a name, for a connection, and for each next part of an answer.
    pub timeout: Duration,
}

/// What lies where a copy of a file should.
pub enum Copy {
    /// Nothing.
    Absent,
    /// The file, with this content.
    Whole(Vec<u8>),
    /// Something else; in what it differs.
    Other(String),
}

/// How long nothing may come before a download is given up: 30 s, or as many seconds as the variable
/// `EXP_FETCH_TIMEOUT` says.
pub fn timeout() -> Duration {
    let asked = std::env::var("EXP_FETCH_TIMEOUT").ok().and_then(|seconds| seconds.parse().ok());
    let asked = asked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    asked.filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::from_secs(30))
}

/// The SHA-256 of some bytes, in hex.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Remote<'_> {
    /// In what some content differs from the file's, if it does.
    pub fn differs(&self, content: &[u8]) -> Option<String> {
        let (hash, size) = (sha256(content), grouped(content.len() as u64));
        (hash != self.sha256).then(|| {
            let (bytes, wanted) = (grouped(self.bytes), self.sha256);
            format!("it has {size} bytes and the SHA-256 {hash}, where {bytes} bytes with {wanted} belong")
        })
    }

    /// What lies at `path`.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be read.
    pub fn copy(&self, path: &Path) -> Result<Copy> {
        let doing = || format!("reading {}", path.display());
        let about = match fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Copy::Absent),
            about => about.doing(Exit::Store, doing)?,
        };
        if !about.is_file() {
            return Err(Error::new(Exit::Store, doing(), "it is no regular file"));
        }
        if about.len() != self.bytes {
            let (has, of) = (grouped(about.len()), grouped(self.bytes));
            return Ok(Copy::Other(format!("it has {has} bytes instead of {of}")));
        }
        let content = files::read(path)?;
        Ok(match self.differs(&content) {
            None => Copy::Whole(content),
            Some(why) => Copy::Other(why),
        })
    }

    /// Has the file at `path`: whoever finds it missing or changed downloads it there, while others wait. `true` where it
    /// was downloaded now.
    ///
    /// # Errors
    /// [`Exit::Spec`] where it cannot be had from its address, [`Exit::Store`] where it cannot be written,
    /// [`Exit::Interrupted`] where `is_asked` says that somebody asks to stop.
    pub fn fetch(&self, path: &Path, is_asked: &dyn Fn() -> bool) -> Result<bool> {
        if matches!(self.copy(path)?, Copy::Whole(_)) {
            return Ok(false);
        }
        let what = format!("downloads {}", self.name);
        // It touches the lock when something comes, which may take a time-out each for name, connection and answer.
        let wait = Wait { what: &what, patience: 4 * self.timeout, is_asked };
        let lock = wait.take(&path.with_added_extension("lock"))?;
        match self.copy(path)? {
            Copy::Whole(_) => return Ok(false),
            Copy::Other(why) => {
                wait::say(&format!("{} is not {}: {why}; it is downloaded again", path.display(), self.name));
            }
            Copy::Absent => {}
        }
        files::sweep(files::folder_of(path), files::DAY);
        files::write_atomic(path, &self.download(lock.as_ref(), is_asked)?)?;
        Ok(true)
    }

    /// The file's content from its address.
    fn download(&self, lock: Option<&Lock>, is_asked: &dyn Fn() -> bool) -> Result<Vec<u8>> {
        let error = |exit: Exit, why: String| {
            Error::new(exit, format!("downloading {} from {}", self.name, self.address()), why)
        };
        let progress = Progress::of(&format!("downloading {}", self.name));
        progress.at(0, self.bytes);
        let mut body = self.answer().map_err(|why| error(Exit::Spec, why))?.into_reader();
        let (mut content, mut block, begun) = (Vec::new(), vec![0; BLOCK], Instant::now());
        loop {
            if begun.elapsed() > PATIENCE * self.timeout {
                let (seconds, so_far) = (begun.elapsed().as_secs(), grouped(content.len() as u64));
                return Err(error(Exit::Spec, format!("it is too slow: {so_far} bytes came in {seconds} s")));
            }
            if is_asked() {
                return Err(error(Exit::Interrupted, "asked to stop".into()));
            }
            let _ = lock.map(Lock::touch); // where that cannot be shown, others download it as well
            let so_far = || format!("{} of {} bytes", grouped(content.len() as u64), grouped(self.bytes));
            match body.read(&mut block) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(error(Exit::Spec, self.why(&e.into(), Some(&so_far())))),
                Ok(0) if (content.len() as u64) < self.bytes => {
                    return Err(error(Exit::Spec, format!("it ended after {}", so_far())));
                }
                Ok(0) => break,
                Ok(n) => content.extend_from_slice(&block[..n]),
            }
            if content.len() as u64 > self.bytes {
                return Err(error(Exit::Spec, format!("it is longer than {} bytes", grouped(self.bytes))));
            }
            progress.at(content.len() as u64, self.bytes);
        }
        match self.differs(&content) {
            None => Ok(content),
            Some(why) => Err(error(Exit::Spec, format!("that is another file: {why}"))),
        }
    }

    /// The address without the name and password that it may have.
    fn address(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", self.url));
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        match host.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://{host}{path}"),
            None => self.url.to_owned(),
        }
    }

    /// The body of the server's answer, or why there is none.
    fn answer(&self) -> Result<Body, String> {
        let timeout = Some(self.timeout);
        let mut config = Agent::config_builder()
            .user_agent(concat!("exp/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(REDIRECTS)
            .timeout_resolve(timeout)
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout);
        if is_here(self.url) {
            config = config.proxy(None);
        }
        let answer = config.build().new_agent().get(self.url).call().map_err(|e| self.why(&e, None))?;
        match answer.status() {
            status if status == 200 => Ok(answer.into_body()),
            status => Err(format!("the server answers {status}")),
        }
    }

    /// What an error means; `so_far` is how much had come, once something could.
    fn why(&self, error: &ureq::Error, so_far: Option<&str>) -> String {
        let seconds = format!("{} s", self.timeout.as_secs_f64());
        match (error, so_far) {
            (ureq::Error::Timeout(Timeout::Resolve), _) => format!("the server's name was not found within {seconds}"),
            (ureq::Error::Timeout(Timeout::Connect), _) => format!("no connection within {seconds}"),
            (ureq::Error::Timeout(_), None) => format!("no answer within {seconds}"),
            (ureq::Error::Timeout(_), Some(so_far)) => format!("it stalled: nothing came for {seconds} after {so_far}"),
            (ureq::Error::Io(e), Some(so_far)) if e.kind() == ErrorKind::UnexpectedEof => {
                format!("it ended after {so_far}")
            }
            (ureq::Error::Io(e), Some(so_far)) => format!("{e} after {so_far}"),
            (ureq::Error::Io(e), None) if e.kind() == ErrorKind::UnexpectedEof => "the server hung up".into(),
            (ureq::Error::Io(e), None) => e.to_string(),
            (ureq::Error::HostNotFound, _) => "there is no server of that name".into(),
            (ureq::Error::BadUri(_) | ureq::Error::Http(_), _) => "an address begins with http:// or https://".into(),
            (ureq::Error::TooManyRedirects, _) => {
                format!("it leads on to an address that is not followed, or more than {REDIRECTS} times")
            }
            (other, _) => other.to_string(),
        }
    }
}

/// Whether an address is one of this machine's own, to which no proxy leads.
fn is_here(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
