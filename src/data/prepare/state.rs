//! What is known of the work between two commands.
//!
//! ```text
//! DIR/.lock                       held by whoever works
//! DIR/.aside-prepare/job.json     what is worked on
//! DIR/.aside-prepare/state.json   how far it is
//! DIR/.aside-prepare/tokens.bin   the tokens so far; in the end those of the training split
//! DIR/.aside-prepare/val.bin      in the end, those of the other
//! DIR/prepared.json               what the folder was made of, once it is whole
//! ```
//!
//! The state never tells of tokens that are not durable. What stands in `tokens.bin` behind those that it tells of is
//! made again, the same.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Prepared,
    pass::End,
    pieces::{Cursor, Separator},
};
use crate::{
    base::{Context, Error, Exit, Result, files},
    data::{
        text::{look_up, opening},
        tokens::{META, PREPARING},
    },
};

/// The version of the state and of the rules that tokens follow from.
const FORMAT: u32 = 2;

/// How many marks are kept.
const MARKS: usize = 1024;

/// All that the tokens follow from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    format: u32,
    inputs: Vec<Input>,
    tokenizer: String,
    field: Option<String>,
    separator: Separator,
    /// The token of [`Separator::Eot`].
    pub eot: Option<u32>,
    val_fraction: f64,
}

/// A file as it was when the work was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written, in ns since 1970.
    modified: u64,
}

impl Input {
    fn of(path: &Path) -> Result<Self> {
        let file = look_up(path)?;
        let modified = file.modified().doing(Exit::Spec, || opening(path))?;
        let modified = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let path = std::path::absolute(path).doing(Exit::Spec, || opening(path))?;
        Ok(Self { path: path.display().to_string(), bytes: file.len(), modified })
    }
}

impl Job {
    /// The work on files as they are now.
    pub fn new(
        inputs: &[PathBuf],
        tokenizer: String,
        field: Option<String>,
        (separator, eot): (Separator, Option<u32>),
        val_fraction: f64,
    ) -> Result<Self> {
        let inputs = inputs.iter().map(|path| Input::of(path)).collect::<Result<_>>()?;
        Ok(Self { format: FORMAT, inputs, tokenizer, field, separator, eot, val_fraction })
    }

    /// Its files.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// What stands between documents.
    pub fn separator(&self) -> Separator {
        self.separator
    }

    /// How many of so many tokens are for training, with nanoGPT's rounding.
    pub fn train_tokens(&self, total: u64) -> u64 {
        (total as f64 * (1.0 - self.val_fraction)) as u64
    }

    /// What differs from an earlier job, where something does.
    pub fn difference(&self, earlier: &Self) -> Option<String> {
        let other = self.inputs.iter().zip(&earlier.inputs).find(|(now, then)| now != then);
        let said = |what: &str| Some(format!("{what} is another"));
        match other {
            _ if self == earlier => None,
            Some((now, then)) if now.path == then.path => Some(format!("{} has changed", now.path)),
            None if self.inputs.len() == earlier.inputs.len() => {
                if self.tokenizer != earlier.tokenizer {
                    said("the tokenizer")
                } else if self.field != earlier.field {
                    said("the field")
                } else if (self.separator, self.eot) != (earlier.separator, earlier.eot) {
                    said("what separates documents")
                } else if self.val_fraction != earlier.val_fraction {
                    said("the share that validates")
                } else {
                    said("the version of exp")
                }
            }
            _ => Some("the files to read are others".into()),
        }
    }

    /// The file that is no longer what it was when the work was begun.
    pub fn changed<'a>(&self, paths: &'a [PathBuf]) -> Result<Option<&'a Path>> {
        for (path, then) in paths.iter().zip(&self.inputs) {
            let is_gone = || matches!(path.try_exists(), Ok(false));
            match Input::of(path) {
                Ok(now) if now == *then => {}
                Err(e) if !is_gone() => return Err(e),
                _ => return Ok(Some(path)),
            }
        }
        Ok(None)
    }
}

/// Which part of the work is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The characters are being collected.
    Alphabet,
    /// Texts become tokens.
    Tokens,
    /// All tokens are there, and are being split.
    Split,
}

/// `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The part of the work that is being done.
    pub phase: Phase,
    /// Where in the texts that is.
    pub cursor: Cursor,
    /// Bytes of files read up to there.
    pub read: u64,
    /// The characters found so far.
    pub alphabet: String,
    /// Bytes of a token in the files; 0 where that is not known yet.
    pub token_bytes: u64,
    /// Tokens so far, and what they stand for.
    pub tokens: u64,
    /// Characters of text so far.
    pub chars: u64,
    /// Bytes of text so far.
    pub bytes: u64,
    /// Documents begun so far.
    pub documents: u64,
    /// How long it took so far.
    pub seconds: f64,
    /// Places from which the tokens can be counted again.
    pub marks: Marks,
}

impl State {
    /// Nothing is done yet.
    pub fn new(phase: Phase) -> Self {
        let (cursor, alphabet, marks) = Default::default();
        let (read, token_bytes, tokens, chars, bytes, documents, seconds) = Default::default();
        Self { phase, cursor, read, alphabet, token_bytes, tokens, chars, bytes, documents, seconds, marks }
    }
}

/// A place in the texts, and what comes before it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Tokens before it.
    pub tokens: u64,
    /// Characters before it.
    pub chars: u64,
    /// The place.
    pub cursor: Cursor,
}

/// The beginnings of pieces: of all, as long as they are few, else of every second, fourth, … one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Marks {
    kept: Vec<Mark>,
    passed: u64,
    /// Every 2^n-th is kept.
    n: u32,
}

impl Marks {
    /// Adds the beginning of the next piece.
    pub fn push(&mut self, mark: Mark) {
        if self.passed.is_multiple_of(1 << self.n) {
            self.kept.push(mark);
        }
        self.passed += 1;
        if self.kept.len() > MARKS {
            let mut index = 0..;
            self.kept.retain(|_| index.next().is_some_and(|i: usize| i.is_multiple_of(2)));
            self.n += 1;
        }
    }

    /// The last one with at most so many tokens before it.
    pub fn before(&self, tokens: u64) -> Mark {
        let after = self.kept.partition_point(|mark| mark.tokens <= tokens);
        after.checked_sub(1).map_or_else(Mark::default, |last| self.kept[last])
    }
}

/// `prepared.json`.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// What was done.
    pub job: Job,
    /// What came of it.
    pub prepared: Prepared,
}

/// What such a folder holds when it is whole.
pub const OURS: [&str; 5] = ["train.bin", "val.bin", TOKENIZER, META, RECORD];

/// The copy of a tokenizer's file.
pub const TOKENIZER: &str = "tokenizer.json";

const RECORD: &str = "prepared.json";

/// What to do about work that cannot be gone on with.
const ANEW: &str = "--force begins anew, and what was done is lost; --out names another folder";

/// How much is copied at a time, in bytes, and how many times that before it is made durable: so that this takes no long
/// time in the end.
const STRETCH: u64 = 1 << 24;
const STRETCHES: usize = 16;

/// The folder that is made.
pub struct Out(pub PathBuf);

impl Out {
    /// The lock of whoever works on it.
    pub fn lock(&self) -> PathBuf {
        self.0.join(".lock")
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where what is not whole yet lies.
    pub fn aside(&self) -> PathBuf {
        self.0.join(PREPARING)
    }

    fn job(&self) -> PathBuf {
        self.aside().join("job.json")
    }

    fn state(&self) -> PathBuf {
        self.aside().join("state.json")
    }

    /// The tokens so far.
    pub fn tokens(&self) -> PathBuf {
        self.aside().join("tokens.bin")
    }

    fn val(&self) -> PathBuf {
        self.aside().join("val.bin")
    }

    /// The name of something in it that this work has no use for; of all that is there but hidden files, where `any`.
    pub fn stranger(&self, any: bool) -> Result<Option<String>> {
        let names = files::names(&self.0)?;
        let mut names: Vec<_> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names.into_iter().find(|name| !name.starts_with('.') && (any || !OURS.contains(&name.as_str()))))
    }

    /// Whether it is whole, whoever made it.
    pub fn is_whole(&self) -> Result<bool> {
        Ok(size(&self.file(META))?.is_some())
    }

    /// What it was made of, where this command made it.
    pub fn record(&self) -> Result<Option<Record>> {
        told(&self.file(RECORD), "name another folder with --out, or write over it with --force")
    }

    /// Whether it has the tokens that were made, by their number.
    pub fn has(&self, prepared: &Prepared) -> Result<bool> {
        let is =
            |name, tokens: u64| -> Result<bool> { Ok(size(&self.file(name))? == Some(tokens * prepared.token_bytes)) };
        Ok(is("train.bin", prepared.train_tokens)? && is("val.bin", prepared.val_tokens)?)
    }

    /// What was worked on when it was last interrupted, if it was.
    pub fn begun(&self) -> Result<Option<Job>> {
        told(&self.job(), ANEW)
    }

    /// How far that was; `None` where nothing was done.
    pub fn state_of(&self, job: &Job) -> Result<Option<State>> {
        let Some(state) = told::<State>(&self.state(), ANEW)? else { return Ok(None) };
        let is_there = match state.phase {
            Phase::Alphabet => true,
            Phase::Tokens => size(&self.tokens())?.unwrap_or(0) >= state.tokens * state.token_bytes,
            Phase::Split => self.stage(job, &state)?.is_some(),
        };
        if !is_there {
            let (doing, tokens) = (format!("reading {}", self.state().display()), state.tokens);
            let why = format!("it tells of {tokens} tokens, and {} has others", self.tokens().display());
            return Err(Error::new(Exit::Store, doing, why).hint(ANEW));
        }
        Ok(Some(state))
    }

    /// Removes what was not whole, and keeps what is worked on from now on.
    pub fn begin(&self, job: &Job) -> Result<()> {
        self.clear()?;
        files::write_json(&self.job(), job)
    }

    /// Makes the state durable.
    pub fn save(&self, state: &State) -> Result<()> {
        files::write_json(&self.state(), state)
    }

    /// Removes what is not whole: first what says that it is some work, for whoever is killed meanwhile.
    pub fn clear(&self) -> Result<()> {
        let aside = self.aside();
        let removed = there(fs::remove_file(self.job())).and_then(|_| there(fs::remove_dir_all(&aside)));
        removed.map(drop).doing(Exit::Store, || format!("removing {}", aside.display()))
    }

    /// How far the splitting is; `None` where the files are not what the state tells.
    fn stage(&self, job: &Job, state: &State) -> Result<Option<Stage>> {
        let (all, token_bytes) = (state.tokens, state.token_bytes);
        let train = job.train_tokens(all);
        let val = all - train;
        let is = |path: &Path, tokens: u64| -> Result<bool> { Ok(size(path)? == Some(tokens * token_bytes)) };
        let val_is_made = is(&self.val(), val)? || is(&self.file("val.bin"), val)?;
        Ok(match size(&self.tokens())? {
            Some(size) if size >= all * token_bytes => Some(Stage::Whole),
            Some(size) if size == train * token_bytes && val_is_made => Some(Stage::Split),
            None if is(&self.file("train.bin"), train)? && val_is_made => Some(Stage::Split),
            _ => None,
        })
    }

    /// Moves what follows the training split to a file of its own, and makes both durable. Goes on where it was
    /// interrupted.
    pub fn split(&self, job: &Job, state: &State, is_asked: &dyn Fn() -> bool) -> Result<End> {
        let is_split = self.stage(job, state)? == Some(Stage::Split);
        let keep = job.train_tokens(state.tokens) * state.token_bytes;
        let split = || -> io::Result<End> {
            let opened = there(File::options().read(true).write(true).open(self.tokens()))?;
            if is_split {
                // Or whoever cut it off was killed before that was durable.
                opened.map_or(Ok(()), |tokens| tokens.sync_all())?;
                return Ok(End::Reached);
            }
            let mut tokens = opened.ok_or(io::ErrorKind::NotFound)?;
            tokens.set_len(state.tokens * state.token_bytes)?;
            tokens.seek(SeekFrom::Start(keep))?;
            let mut val = File::create(self.val())?;
            let mut stretches = 0usize;
            while io::copy(&mut (&mut tokens).take(STRETCH), &mut val)? > 0 {
                if is_asked() {
                    return Ok(End::Asked);
                }
                stretches += 1;
                if stretches.is_multiple_of(STRETCHES) {
                    val.sync_data()?;
                }
            }
            val.sync_all()?;
            files::sync_folder(&self.aside())?; // from here on the other file may lose them
            tokens.set_len(keep)?;
            tokens.sync_all()?;
            Ok(End::Reached)
        };
        split().doing(Exit::Store, || format!("writing {}", self.val().display()))
    }

    /// Gives the split files their names, but for what says that the folder is whole.
    pub fn place(&self, record: &Record, tokenizer: Option<&[u8]>) -> Result<()> {
        let place = || -> io::Result<()> {
            // From here on it is not whole: what it held before is given up.
            let stale = [Some(META), tokenizer.is_none().then_some(TOKENIZER)];
            for name in stale.into_iter().flatten() {
                there(fs::remove_file(self.file(name)))?;
                files::sync_folder(&self.0)?;
            }
            for (from, to) in [(self.tokens(), "train.bin"), (self.val(), "val.bin")] {
                there(fs::rename(from, self.file(to)))?; // or it was placed before
            }
            files::sync_folder(&self.0)
        };
        place().doing(Exit::Store, || format!("writing {}", self.0.display()))?;
        if let Some(content) = tokenizer {
            files::write_atomic(&self.file(TOKENIZER), content)?;
        }
        files::write_json(&self.file(RECORD), record)
    }
}

#[derive(PartialEq)]
enum Stage {
    /// All tokens stand in one file.
    Whole,
    /// They do not.
    Split,
}

/// What came of something done to a file, `None` where there is none; any other error is no answer to whether there is one.
fn there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

fn size(path: &Path) -> Result<Option<u64>> {
    let found = there(fs::metadata(path)).doing(Exit::Store, || format!("looking at {}", path.display()))?;
    Ok(found.map(|file| file.len()))
}

/// What a file of ours tells; `None` where there is none. One that cannot be read may tell of hours of work, and one that
/// tells something else was not written by this version: what to do about that is the `hint`.
fn told<T: DeserializeOwned>(path: &Path, hint: &str) -> Result<Option<T>> {
    match files::read_json(path) {
        Ok(told) => Ok(Some(told)),
        Err(e) if e.io == Some(io::ErrorKind::NotFound) => Ok(None),
        Err(e) if e.io.is_some() => {
            Err(e.hint("what is there is kept: let the file be read, or name another folder with --out"))
        }
        Err(e) => Err(e.hint(hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_marks_are_kept_of_many_pieces() {
        let mut marks = Marks::default();
        for piece in 0..100_000 {
            marks.push(Mark { tokens: 10 * piece, ..Mark::default() });
        }
        assert!(marks.kept.len() <= MARKS);
        for tokens in [0, 9, 10, 55_555, 999_999] {
            let mark = marks.before(tokens);
            assert!(mark.tokens <= tokens && tokens - mark.tokens < 10 * 256, "{tokens}: {mark:?}");
        }
    }
}
