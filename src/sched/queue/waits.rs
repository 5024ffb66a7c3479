//! Waiting for devices that others hold: when they are asked for again, and what the person is told meanwhile.

use std::time::Duration;

use crate::{
    base::RunId,
    exec::slots::{Lack, Refusal},
};

/// A device that was refused is asked for again after this time, and after twice as long each time that it is refused
/// again, up to a limit: asking costs a look at every GPU and every lock file.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_AT_MOST: Duration = Duration::from_millis(800);

/// So long a device is waited for without a word, and so long another word is held back.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_WORDS: Duration = Duration::from_secs(60);

/// How a device is waited for.
#[derive(Debug, Default)]
pub struct Wait {
    refused: Option<Refused>,
    /// What was said last, and when.
    told: Option<(Duration, Told)>,
}

/// The times of a device that gave nothing since the first of them.
#[derive(Debug)]
struct Refused {
    since: Duration,
    pause: Duration,
    /// Not asked again before; `None` once that time has come.
    until: Option<Duration>,
}

/// What makes one word differ from another: bytes that come and go do not.
#[derive(Debug, PartialEq)]
struct Told {
    lack: Lack,
    runs: Vec<RunId>,
    beside_others: bool,
}

impl Wait {
    /// Whether it is not to be asked for now.
    pub fn is_paused(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.until.is_some())
    }

    /// Whether it was refused when it was asked for last.
    pub fn is_on(&self) -> bool {
        self.refused.is_some()
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        if let Some(refused) = &mut self.refused {
            refused.until = refused.until.filter(|&until| now < until);
        }
    }

    /// It gave something, or a run of ours that was there has ended: it is asked for at once.
    pub fn end(&mut self) {
        self.refused = None;
    }

    /// It was refused. Of several answers to what was asked at a time the first counts.
    pub fn refuse(&mut self, now: Duration) {
        if self.is_paused() {
            return;
        }
        let (since, pause) = match &self.refused {
            Some(refused) => (refused.since, refused.pause.saturating_mul(2).min(PAUSE_AT_MOST)),
            None => (now, PAUSE),
        };
        self.refused = Some(Refused { since, pause, until: Some(now + pause) });
    }

    /// What the person is to be told, where that is long enough ago and differs from what was told before: `run`, which
    /// needs so many bytes, waits for `device`, since it was refused so.
    pub fn word(&mut self, now: Duration, run: RunId, bytes: u64, device: &str, refusal: Refusal) -> Option<String> {
        self.refused.as_ref().filter(|refused| now >= refused.since + PATIENCE)?;
        let text = sentence(run, bytes, device, &refusal);
        let told = Told { lack: refusal.lack, runs: refusal.runs, beside_others: refusal.others > 0 };
        let is_news = self.told.as_ref().is_none_or(|(at, last)| now >= *at + BETWEEN_WORDS && *last != told);
        is_news.then(|| {
            self.told = Some((now, told));
            text
        })
    }
}

/// Who waits for what and why. `refusal` names runs of other sweeps only.
fn sentence(run: RunId, bytes: u64, device: &str, refusal: &Refusal) -> String {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let why = match (refusal.lack, refusal.free) {
        (Lack::Turn, _) => "another sweep has waited longer".to_owned(),
        (Lack::Place, _) => "all of it is taken".to_owned(),
        (Lack::Memory, _) if bytes == u64::MAX => "it is to be alone there".to_owned(),
        (Lack::Memory, Some(free)) => format!("it needs {}, and {} are free", gigabytes(bytes), gigabytes(free)),
        (Lack::Memory, None) => "there is room for one run".to_owned(),
    };
    let named: Vec<String> = refusal.runs.iter().take(2).map(RunId::short).collect();
    let runs = match (&named[..], refusal.runs.len()) {
        ([], _) => None,
        ([one], _) => Some(format!("{one} of another sweep is there")),
        ([.., last], 2) => Some(format!("{} and {last}, not of this sweep, are there", named[0])),
        (_, n) => Some(format!("{} and {} more, not of this sweep, are there", named.join(", "), n - named.len())),
    };
    let programs = (refusal.lack == Lack::Memory && refusal.others > 0)
        .then(|| format!("other programs hold {}", gigabytes(refusal.others)));
    let there: Vec<String> = runs.into_iter().chain(programs).collect();
    let there = if there.is_empty() { String::new() } else { format!("; {}", there.join(", and ")) };
    format!("{} waits for {device}: {why}{there}", run.short())
}
