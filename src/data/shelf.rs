//! What data there is: the user's copies of texts, tokenized corpora in the cache, folders of tokens that were used. For
//! those who look after it.

use std::path::{Path, PathBuf};

use super::{CorpusInfo, Dataset, cache, shakespeare, tokens};
use crate::{base::Result, spec::config::TokenizerKind};

/// Something that can be trained on.
pub struct Item {
    /// `playbook`, `shakespeare`, or the path of the text or the tokens; what is not whole has no name.
    pub name: Option<String>,
    /// blake3 of its text or tokens, in hex: what a run goes by.
    pub hash: Option<String>,
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// What is known of its tokens; `None` where it has none yet, or is not whole.
    pub info: Option<CorpusInfo>,
    /// What its tokens are.
    pub tokenizer: Option<TokenizerKind>,
    kind: Kind,
}

enum Kind {
    Text,
    Cached(cache::Kept),
    Prepared(tokens::Seen),
}

impl Item {
    /// `text`, `cached` or `prepared`.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Text => "text",
            Kind::Cached(_) => "cached",
            Kind::Prepared(_) => "prepared",
        }
    }

    /// Whether it was made from a text, and is made again where it lacks.
    pub fn is_cached(&self) -> bool {
        matches!(self.kind, Kind::Cached(_))
    }

    /// What is wrong with it, found by reading all of it: damaged, changed or missing files.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where it cannot be read.
    pub fn faults(&self) -> Result<Vec<String>> {
        match &self.kind {
            Kind::Text => Ok(shakespeare::fault(&self.path)?.into_iter().collect()),
            Kind::Cached(kept) => kept.faults(),
            Kind::Prepared(seen) if seen.is_gone() => Ok(vec!["it is gone".into()]),
            Kind::Prepared(seen) => Ok(seen.faults()),
        }
    }

    /// Whether it is a folder of tokens that is no more.
    pub fn is_gone(&self) -> bool {
        matches!(&self.kind, Kind::Prepared(seen) if seen.is_gone())
    }

    /// Forgets a folder of tokens that is gone; `false` where it is there.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where what is known of it cannot be removed.
    pub fn forget_if_gone(&self) -> Result<bool> {
        match &self.kind {
            Kind::Prepared(seen) if seen.is_gone() => seen.forget().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether all of it can be told from what it should be; of some only the lengths are known.
    pub fn has_hashes(&self) -> bool {
        match &self.kind {
            Kind::Cached(kept) => kept.has_hashes(),
            Kind::Text | Kind::Prepared(_) => true,
        }
    }

    /// The tokens. `None` where it has none, or is not whole.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub fn open(self, cache: &Path) -> Result<Option<Dataset>> {
        match self.kind {
            Kind::Text => Ok(None),
            Kind::Cached(kept) => kept.prepared()?.map(Dataset::open).transpose(),
            Kind::Prepared(seen) => super::open(&seen.config, cache, &|| false).map(Some),
        }
    }
}

/// All of it.
///
/// # Errors
/// [`Exit::Store`](crate::base::Exit) where the cache cannot be listed.
pub fn items(cache: &Path) -> Result<Vec<Item>> {
    // Who has no cache folder has no copy there.
    let copy = shakespeare::path().ok().and_then(|path| Some((path.metadata().ok()?.len(), path)));
    let text = copy.map(|(bytes, path)| Item {
        name: Some("shakespeare".into()),
        hash: Some(shakespeare::BLAKE3.into()),
        path,
        bytes,
        info: None,
        tokenizer: None,
        kind: Kind::Text,
    });
    let cached = cache::all(cache)?.into_iter().map(|kept| {
        let (info, tokenizer) = kept.info().map(|(info, tokenizer)| (info.clone(), tokenizer)).unzip();
        let (name, hash) = info.clone().map(|info: CorpusInfo| (info.name, info.hash)).unzip();
        let (path, bytes) = (kept.folder().into(), size(kept.folder()));
        Item { name, hash, path, bytes, info, tokenizer, kind: Kind::Cached(kept) }
    });
    let mut items: Vec<Item> = text.into_iter().chain(cached).collect();
    for seen in tokens::all_seen(cache)? {
        let path = PathBuf::from(&seen.info.name);
        let (info, tokenizer) =
            (Some(seen.info.clone()), tokens::resolved(&seen.config).ok().map(|data| data.tokenizer));
        let (name, hash) = (Some(seen.info.name.clone()), Some(seen.info.hash.clone()));
        items.push(Item { name, hash, bytes: size(&path), path, info, tokenizer, kind: Kind::Prepared(seen) });
    }
    items.sort_by(|a, b| {
        (&a.name, a.tokenizer.map(TokenizerKind::word)).cmp(&(&b.name, b.tokenizer.map(TokenizerKind::word)))
    });
    Ok(items)
}

/// Bytes of the two files of tokens in a folder.
fn size(folder: &Path) -> u64 {
    let bytes = |name| folder.join(name).metadata().map_or(0, |file| file.len());
    bytes("train.bin") + bytes("val.bin")
}
