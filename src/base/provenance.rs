//! By what program, command and state of the working folder something was made.
//!
//! Of the environment only the variables of a fixed list are kept, since others may be secrets; of the working folder's git
//! the commit, and whether files that git knows differ from it.

use std::{
    collections::BTreeMap,
    env,
    process::{Command, Stdio},
    sync::LazyLock,
};

use serde::{Deserialize, Serialize};

use super::machine;

/// The longest command line that is kept, in bytes: the environment of a worker has to hold it.
const LONGEST: usize = 16 << 10;

/// The variable in which a scheduler tells its workers by what command they were started.
const HANDED_DOWN: &str = "EXP_PROVENANCE";

/// The variables that are kept.
const VARIABLES: [&str; 13] = [
    "CUDA_VISIBLE_DEVICES",
    "EXP_CACHE",
    "EXP_LEASE",
    "EXP_ROOT",
    "EXP_SIMD",
    "LANG",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "TZ",
];

/// What was there when something was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command line, the program's name first; of a very long one the beginning.
    pub command: Vec<String>,
    /// The folder that it was given in.
    pub folder: String,
    /// The commit that the folder is at, where it is one of git's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
    /// The first digits of the blake3 of the program's file; empty where that cannot be read.
    #[serde(default)]
    pub program: String,
    /// The variables of the environment that are kept, and set.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// Where a folder of git's stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Git {
    /// The commit, in hex.
    pub commit: String,
    /// Whether files that git knows differ from it.
    pub dirty: bool,
}

static HERE: LazyLock<Provenance> = LazyLock::new(|| {
    let handed_down = env::var(HANDED_DOWN).ok().and_then(|text| serde_json::from_str(&text).ok());
    handed_down.unwrap_or_else(Provenance::found)
});

impl Provenance {
    /// Of this process, or of the command that it works for. Found out once.
    pub fn here() -> &'static Self {
        &HERE
    }

    /// What a process that works for this one has to find in its environment.
    pub fn handed_down() -> (&'static str, String) {
        (HANDED_DOWN, serde_json::to_string(Self::here()).unwrap_or_default())
    }

    fn found() -> Self {
        let environment = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)));
        let mut left = LONGEST;
        let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
        let fits = |word: &String| {
            let fits = word.len() <= left;
            left = left.saturating_sub(word.len());
            fits
        };
        Self {
            command: words.take_while(fits).collect(),
            folder: env::current_dir().map_or_else(|_| String::new(), |path| path.display().to_string()),
            git: git(),
            program: machine::binary().to_owned(),
            environment: environment.collect(),
        }
    }
}

/// Where the current folder's git stands; `None` where it is in none, or there is no git.
fn git() -> Option<Git> {
    let mut command = Command::new("git");
    // The commit alone, whatever tags there are. No lock is taken: somebody may be working there.
    command.args(["--no-optional-locks", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let commit = text.trim();
    let dirty = commit.ends_with("-dirty");
    Some(Git { commit: commit.trim_end_matches("-dirty").to_owned(), dirty })
}
