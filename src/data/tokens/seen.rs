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

use super::{FORMAT, Tokens, meaning::Meaning};
use crate::{
    base::{Result, clock, files},
    data::CorpusInfo,
    spec::config::DataConfig,
};

/// How long ago files must have been changed for their times to tell a later change, in ms.
const SETTLED: i64 = 2000;

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
pub struct Moment([Stamp; 2]);

impl Moment {
    /// Now. `None` where that cannot be told.
    pub fn now(files: &[PathBuf; 2]) -> Option<Self> {
        Some(Self([Stamp::of(&files[0]).ok()?, Stamp::of(&files[1]).ok()?]))
    }

    /// Keeps what was found out about files since then, unless they have changed.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where it cannot be written.
    pub fn keep(
        self,
        cache: &Path,
        key: &str,
        files: &[PathBuf; 2],
        config: &DataConfig,
        info: &CorpusInfo,
    ) -> Result<()> {
        let is_same = Self::now(files).is_some_and(|now| now.0 == self.0);
        if !is_same {
            return Ok(());
        }
        let settled = self.0.iter().all(Stamp::is_settled);
        let seen = Seen { format: FORMAT, files: self.0, settled, config: config.clone(), info: info.clone() };
        files::write_json(&place(cache, key), &seen)
    }
}

/// What is known of the files of that key, where they are as they were.
pub fn find(cache: &Path, key: &str, files: &[PathBuf; 2]) -> Option<CorpusInfo> {
    let seen: Seen = files::read_json(&place(cache, key)).ok()?;
    let same = Moment::now(files).is_some_and(|now| now.0 == seen.files);
    (seen.format == FORMAT && seen.settled && same).then_some(seen.info)
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
    let seen = names.iter().filter_map(|name| files::read_json::<Seen>(&folder.join(name)).ok());
    Ok(seen.filter(|seen| seen.format == FORMAT).collect())
}

impl Seen {
    /// What is wrong with the folder now, found by going through it.
    pub fn faults(&self) -> Vec<String> {
        let again = || {
            let folder = super::folder(&self.config)?;
            let (meaning, files) = (Meaning::of(&folder, &self.config)?, super::files(&folder)?);
            let [train, val] = files.map(|file| Tokens::map(&file, meaning.token_bytes));
            meaning.describe(&folder, &[train?, val?], &|| false)
        };
        match again() {
            Err(error) => vec![error.why],
            Ok(info) if info.hash != self.info.hash => {
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
