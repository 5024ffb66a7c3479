//! Where everything lies under a root. The only place that knows file names.
//!
//! ```text
//! runs/exp.db                                   the index
//! runs/exp.db.lock                              held while the index is opened, made or replaced
//! runs/cache/                                   token caches, measured peaks
//! runs/tokenizers/<blake3>.json                 the files of tokenizers that runs were trained with
//! runs/tokenizers/lock                          held while a run begins to refer to one, or unused ones are removed
//! runs/slots/<host>/                            the places on a machine's devices, a lock each: who has them, for how much
//! runs/experiments/<name>/journal.jsonl         what each `exp run` of the spec expanded to
//! runs/experiments/<name>/lock                  held while an import is added to the experiment, or it is removed
//! runs/experiments/<name>/schedulers/<pid>…     held by each `exp run` of the experiment for as long as it lives
//! runs/<id16>/config.json                       the frozen config, the whole id, the corpus's hash
//! runs/<id16>/tokenizer.json                    what its tokens mean
//! runs/<id16>/lock                              held by the worker that trains the run; its lease
//! runs/<id16>/lock.seize                        held while a run is taken over whose worker no longer stirs
//! runs/<id16>/journal.jsonl                     what other commands say of the run
//! runs/<id16>/attempt-K/events.jsonl            what happened, written by the worker alone
//! runs/<id16>/attempt-K/log.txt                 the worker's standard error
//! runs/<id16>/checkpoints/step-N.attempt-K/     a checkpoint; once it is none: damaged-step-N... (not what was written),
//!                                               bad-step-N... (failed to load twice), void-step-N... (a later attempt
//!                                               went on from before it); of the damaged and bad the newest two are kept
//! runs/<id16>/samples/step-N.attempt-K.txt      a text that the model wrote
//! reports/<name>/                               pictures, tables
//! reports/attention/                            pictures of attention weights, of any run
//!
//! <user cache>/shakespeare.txt                  Tiny Shakespeare, for all roots of the user
//! <user cache>/shakespeare.txt.lock             held while it is downloaded
//! ```

use std::{
    fmt::{Arguments, Write as _},
    path::{Path, PathBuf},
};

use super::{Error, Exit, Result, RunId, files};

/// The user's folder for what every root may use: the variable `EXP_CACHE`, else `exp` in the system's folder for caches.
/// Nothing is made.
///
/// # Errors
/// [`Exit::Store`] where neither is known.
pub fn user_cache() -> Result<PathBuf> {
    let named = std::env::var_os("EXP_CACHE").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(dirs::cache_dir()?.join("exp"))).ok_or_else(|| {
        Error::new(Exit::Store, "looking for the user's cache folder", "the user has no home folder")
            .hint("EXP_CACHE names a folder for downloads")
    })
}

/// The folder that holds `runs/` and `reports/`.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The root at `path`; nothing is made.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The root's own folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `runs/`.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The index.
    pub fn database(&self) -> PathBuf {
        self.runs().join("exp.db")
    }

    /// Held while the index is opened, made or replaced.
    pub fn database_lock(&self) -> PathBuf {
        self.runs().join("exp.db.lock")
    }

    /// Token caches and measured peaks.
    pub fn cache(&self) -> PathBuf {
        self.runs().join("cache")
    }

    /// The files of tokenizers that runs were trained with.
    pub fn tokenizers(&self) -> PathBuf {
        self.runs().join("tokenizers")
    }

    /// The file of a tokenizer, by the hash of its content.
    pub fn tokenizer(&self, blake3: &str) -> PathBuf {
        self.tokenizers().join(format!("{blake3}.json"))
    }

    /// Held while a run begins to refer to the file of a tokenizer, and while those are removed that no run refers to.
    pub fn tokenizers_lock(&self) -> PathBuf {
        self.tokenizers().join("lock")
    }

    /// One lock per CPU core or GPU of a machine: several machines may share a root, and each has its own cores.
    pub fn slots(&self, host: &str) -> PathBuf {
        // A name with a slash or a lone dot would lead elsewhere.
        let name: String = host.chars().map(|c| if c == '/' { '-' } else { c }).collect();
        self.runs().join("slots").join(name.trim_matches('.'))
    }

    /// The folders of all experiments.
    pub fn experiments(&self) -> PathBuf {
        self.runs().join("experiments")
    }

    /// The folder of one experiment.
    pub fn experiment(&self, name: &str) -> PathBuf {
        self.experiments().join(name)
    }

    /// What each `exp run` of an experiment's spec expanded to.
    pub fn experiment_journal(&self, name: &str) -> PathBuf {
        self.experiment(name).join("journal.jsonl")
    }

    /// Held while an import is added to an experiment, while an `exp run` begins, and while it is removed.
    pub fn experiment_lock(&self, name: &str) -> PathBuf {
        self.experiment(name).join("lock")
    }

    /// A lock for each `exp run` of an experiment.
    pub fn schedulers(&self, experiment: &str) -> PathBuf {
        self.experiment(experiment).join("schedulers")
    }

    /// The pictures and tables of all experiments.
    pub fn reports(&self) -> PathBuf {
        self.path.join("reports")
    }

    /// The pictures and tables of an experiment.
    pub fn report(&self, experiment: &str) -> PathBuf {
        self.reports().join(experiment)
    }

    /// The pictures of attention weights.
    pub fn attention(&self) -> PathBuf {
        self.reports().join("attention")
    }

    /// How a path under the root is written down, so that the root may move.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
    }

    /// The folders of all runs, and what else is named like one, sorted.
    ///
    /// # Errors
    /// Where `runs/` cannot be listed.
    pub fn run_folders(&self) -> Result<Vec<RunFolder>> {
        let names = files::names(&self.runs())?.into_iter().filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_run(name)).collect();
        names.sort_unstable();
        Ok(names.into_iter().map(|name| RunFolder::new(self.runs().join(name))).collect())
    }

    /// A run's folder.
    pub fn run(&self, id: &RunId) -> RunFolder {
        RunFolder { path: self.runs().join(id.folder()) }
    }
}

/// Whether a folder under `runs/` is named like a run's.
pub fn is_run(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The folder at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The run's own folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's name: the first 16 digits of the run's id.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    /// The frozen config.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.json")
    }

    /// What its tokens mean.
    pub fn tokenizer(&self) -> PathBuf {
        self.path.join("tokenizer.json")
    }

    /// Held by the worker that trains the run.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// What other commands say of the run.
    pub fn journal(&self) -> PathBuf {
        self.within(format_args!("journal.jsonl"))
    }

    /// The folder of one attempt.
    pub fn attempt(&self, attempt: u32) -> PathBuf {
        self.within(format_args!("attempt-{attempt}"))
    }

    /// What happened in an attempt.
    pub fn events(&self, attempt: u32) -> PathBuf {
        self.within(format_args!("attempt-{attempt}/events.jsonl"))
    }

    /// The worker's standard error.
    pub fn log(&self, attempt: u32) -> PathBuf {
        self.attempt(attempt).join("log.txt")
    }

    /// All checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// All texts that the model wrote.
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples")
    }

    /// A text that the model wrote after `step` updates.
    pub fn sample(&self, step: u64, attempt: u32) -> PathBuf {
        self.samples().join(format!("step-{step}.attempt-{attempt}.txt"))
    }

    /// A path within the run's folder, made at once: lists of many runs ask for some of each.
    fn within(&self, relative: Arguments) -> PathBuf {
        const ROOM: usize = 40;
        let mut path = PathBuf::with_capacity(self.path.as_os_str().len() + ROOM);
        path.push(&self.path);
        path.push(""); // a separator, where it needs one
        let mut path = path.into_os_string();
        let _ = path.write_fmt(relative); // which memory never refuses
        path.into()
    }

    /// How a path within the run's folder is written down.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
    }

    /// The numbers of the attempts that have a folder, ascending; none where the run has no folder.
    ///
    /// # Errors
    /// Where the folder cannot be listed: a run that seems to have no attempts would be begun anew.
    pub fn attempts(&self) -> Result<Vec<u32>> {
        let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("attempt-")?.parse().ok();
        let mut found: Vec<u32> = files::names(&self.path)?.iter().filter_map(|name| number(name)).collect();
        found.sort_unstable();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_within_a_folder_are_as_if_joined() {
        for folder in ["", "runs/0123456789abcdef", "/a b/", "/"] {
            let run = RunFolder::new(folder);
            assert_eq!(run.journal(), Path::new(folder).join("journal.jsonl"));
            assert_eq!(run.attempt(12), Path::new(folder).join("attempt-12"));
            assert_eq!(run.events(3), Path::new(folder).join("attempt-3").join("events.jsonl"));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path().join("run"));
        assert_eq!(folder.attempts().unwrap(), [] as [u32; 0], "there is none");
        for name in ["attempt-10", "attempt-2", "attempt-x", "checkpoints"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        assert_eq!(folder.attempts().unwrap(), [2, 10]);
        std::fs::remove_dir_all(folder.path()).unwrap();
        std::os::unix::fs::symlink("run", folder.path()).unwrap(); // ELOOP
        let error = folder.attempts().unwrap_err();
        assert!(error.doing.starts_with("listing ") && error.doing.ends_with("/run"), "{error}");
    }
}
