//! What is known of folders of tokens, kept in the cache so that not every worker goes through all of them.
//!
//! It holds for as long as the files are the same by size, inode and times. A change within the clock's resolution of one
//! that was looked at would not show in them, so what had been changed in the seconds before is not believed: as git does it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{FORMAT, meaning::Meaning};
use crate::{
    base::{Context, Exit, Result, clock, files},
    data::CorpusInfo,
    spec::config::DataConfig,
};

/// How long ago files must have been changed for their times to tell a later change, in ms.
const SETTLED: i64 = 2000;

/// What is known of a folder: of its tokens, and blake3 of its two files in hex.
pub type Known = (CorpusInfo, [String; 2]);

/// `tokens/seen-<key>.json`.
#[derive(Serialize, Deserialize)]
pub struct Seen {
    format: u32,
    files: [Stamp; 2],
    /// Whether another change of the files would show in their stamps.
    settled: bool,
    /// By what they were looked up.
    pub config: DataConfig,
    /// What was known of them.
    pub info: CorpusInfo,
    /// blake3 of each, in hex. Older versions did not keep it.
    #[serde(default)]
    blake3: Option<[String; 2]>,
    /// The record itself.
    #[serde(skip)]
    path: PathBuf,
}

/// What changes when a file does.
#[derive(PartialEq, Serialize, Deserialize)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// In seconds and nanoseconds since 1970: of the content, and of the inode.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }

    /// Whether it was changed so long ago that another change would show.
    fn is_settled(&self) -> bool {
        let last = self.modified.0.max(self.changed.0);
        clock::now() - last.saturating_mul(1000) > SETTLED
    }
}

/// Two files as they are at a moment.
pub struct Moment {
    files: [Stamp; 2],
    /// Whether another change of them would show in their stamps.
    settled: bool,
}

impl Moment {
    /// Now. `None` where that cannot be told.
    pub fn now(files: &[PathBuf; 2]) -> Option<Self> {
        let files = [Stamp::of(&files[0]).ok()?, Stamp::of(&files[1]).ok()?];
        Some(Self { settled: files.iter().all(Stamp::is_settled), files })
    }

    /// Whether the files are still the same.
    pub fn lasts(&self, files: &[PathBuf; 2]) -> bool {
        Self::now(files).is_some_and(|now| now.files == self.files)
    }

    /// Keeps what was found out about the files since then.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where it cannot be written.
    pub fn keep(self, cache: &Path, key: &str, config: &DataConfig, (info, blake3): &Known) -> Result<()> {
        let Self { files, settled } = self;
        let (config, info, blake3) = (config.clone(), info.clone(), Some(blake3.clone()));
        let seen = Seen { format: FORMAT, files, settled, config, info, blake3, path: PathBuf::new() };
        files::write_json(&place(cache, key), &seen)
    }
}

/// What is known of the files of that key, where they are as they were.
pub fn find(cache: &Path, key: &str, files: &[PathBuf; 2]) -> Option<Known> {
    let seen: Seen = files::read_json(&place(cache, key)).ok()?;
    let same = Moment::now(files).is_some_and(|now| now.files == seen.files);
    (seen.format == FORMAT && seen.settled && same).then_some((seen.info, seen.blake3?))
}

/// All that is known of folders of tokens. What cannot be read is found out again when it is needed.
///
/// # Errors
/// [`Exit::Store`](crate::base::Exit) where the cache cannot be listed.
pub fn all(cache: &Path) -> Result<Vec<Seen>> {
    let folder = cache.join("tokens");
    let mut names = files::names(&folder)?;
    names.retain(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    names.sort();
    let read = |path: PathBuf| Some(Seen { path: path.clone(), ..files::read_json(&path).ok()? });
    let seen = names.iter().filter_map(|name| read(folder.join(name)));
    Ok(seen.filter(|seen| seen.format == FORMAT).collect())
}

impl Seen {
    /// Removes what is known.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be removed.
    pub fn forget(&self) -> Result<()> {
        fs::remove_file(&self.path).doing(Exit::Store, || format!("removing {}", self.path.display()))
    }

    /// Whether the folder is no more.
    pub fn is_gone(&self) -> bool {
        matches!(Path::new(&self.info.name).try_exists(), Ok(false))
    }

    /// What is wrong with the folder now, found by going through it.
    pub fn faults(&self) -> Vec<String> {
        let again = || {
            let folder = super::folder(&self.config)?;
            let (meaning, files) = (Meaning::of(&folder, &self.config)?, super::files(&folder)?);
            meaning.describe(&folder, &super::map(&files, meaning.token_bytes)?, &|| false)
        };
        match again() {
            Err(error) => vec![error.to_string()],
            Ok((info, _)) if info.hash != self.info.hash => {
                vec!["its tokens are others than those that were seen there last".into()]
            }
            Ok(_) => Vec::new(),
        }
    }
}

/// What the names of records begin with.
const PREFIX: &str = "seen-";

fn place(cache: &Path, key: &str) -> PathBuf {
    let key = &blake3::hash(key.as_bytes()).to_hex()[..32];
    cache.join("tokens").join(format!("{PREFIX}{key}.json"))
}
