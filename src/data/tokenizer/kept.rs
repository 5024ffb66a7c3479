//! What a run's tokens mean, kept with the run: text can be turned into its tokens and back when its corpus, its spec or
//! the token cache are gone or have changed.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Source, Tokenizer, file::TokenizerFile};
use crate::{
    base::{
        Context, Error, Exit, Result,
        files::{self, Lock},
        folders::{Root, RunFolder},
        lease,
        wait::Wait,
    },
    spec::config::TokenizerKind,
};

/// The version of the file.
const FORMAT: u32 = 1;

/// `runs/<id>/tokenizer.json`.
#[derive(PartialEq, Serialize, Deserialize)]
struct Kept {
    format: u32,
    tokenizer: TokenizerKind,
    /// The characters of `char`; of `ids` the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alphabet: Option<String>,
    /// blake3 of the file of `file`, which lies in `runs/tokenizers/`, once for all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Keeps a tokenizer with a run, unless one is kept there. `alphabet` is the tokenizer's own.
///
/// # Errors
/// [`Exit::Store`] where it cannot be written.
pub fn keep(source: &Source, alphabet: Option<String>, root: &Root, run: &RunFolder) -> Result<()> {
    let path = run.tokenizer();
    let mut kept = Kept { format: FORMAT, tokenizer: source.kind(), alphabet, file: None };
    let mut _alone = None; // until the run refers to the file
    if let Source::File(file) = source {
        _alone = Some(alone(root)?);
        files::write_new(&root.tokenizer(file.hash()), file.content())?;
        kept.file = Some(file.hash().to_owned());
    }
    let doing = || format!("writing {}", path.display());
    let mut text = serde_json::to_vec_pretty(&kept).doing(Exit::Unexpected, doing)?;
    text.push(b'\n');
    files::write_new(&path, &text).map(drop)
}

/// The lock of those who begin or cease to need the files of tokenizers.
///
/// # Errors
/// [`Exit::Store`] where it cannot be taken, or its holder does not get on: a file that is removed while a run begins to
/// refer to it would be lost.
pub fn alone(root: &Root) -> Result<Lock> {
    let (path, patience) = (root.tokenizers_lock(), 2 * lease::period());
    let wait = Wait { what: "looks after the files of tokenizers", patience, is_asked: &|| false };
    wait.take(&path)?.ok_or_else(|| {
        let why = format!("it has not got on for {} s", patience.as_secs_f64());
        Error::new(Exit::Store, format!("waiting for {}", wait.holder(&path)), why)
            .hint("let that process go on, or end it")
    })
}

/// The hash of the tokenizer's file that a run refers to; `None` where it needs none.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told.
pub fn kept_file(run: &RunFolder) -> Result<Option<String>> {
    Ok(read(run)?.and_then(|kept| kept.file))
}

/// The files of tokenizers to which none of these runs refers. That stays so while the lock is held; those who wait for it
/// see the work get on.
///
/// # Errors
/// [`Exit::Store`] where it cannot be told what a run refers to.
pub fn unused(root: &Root, runs: &[RunFolder], alone: Option<&Lock>) -> Result<Vec<PathBuf>> {
    let look = |run| {
        let _ = alone.map(Lock::touch); // where it cannot be shown, they do not wait as long
        kept_file(run)
    };
    let used = runs.iter().map(look).collect::<Result<HashSet<_>>>()?;
    let mut unused = Vec::new();
    for name in files::names(&root.tokenizers())? {
        let hash = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let hash = hash.filter(|hash| blake3::Hash::from_hex(hash).is_ok()).map(str::to_owned);
        unused.extend(hash.filter(|hash| !used.contains(&Some(hash.clone()))).map(|hash| root.tokenizer(&hash)));
    }
    unused.sort();
    Ok(unused)
}

/// The tokenizer that is kept with a run; `None` where none is. Errors as [`kept_source`].
pub fn kept(root: &Root, run: &RunFolder) -> Result<Option<Box<dyn Tokenizer>>> {
    // What was kept needs no text.
    kept_source(root, run)?.map(|source| source.build("")).transpose()
}

/// What the tokenizer is made from that is kept with a run, whatever text it is for; `None` where none is.
///
/// # Errors
/// [`Exit::Store`] where it cannot be read, or is not what was kept.
pub fn kept_source(root: &Root, run: &RunFolder) -> Result<Option<Source>> {
    let Some(kept) = read(run)? else { return Ok(None) };
    let damaged = |path: &Path, why: String| Error::new(Exit::Store, format!("reading {}", path.display()), why);
    let source = match (kept.tokenizer, &kept.file) {
        (TokenizerKind::Char, _) => Source::Alphabet(kept.alphabet.unwrap_or_default()),
        (TokenizerKind::Byte, _) => Source::Byte,
        (TokenizerKind::Ids, _) => {
            let highest = kept.alphabet.and_then(|highest| highest.parse::<usize>().ok());
            let lacks = || damaged(&run.tokenizer(), "it does not say how many ids there are".into());
            Source::Numbers(highest.ok_or_else(lacks)? + 1)
        }
        (TokenizerKind::Gpt2, _) => Source::Gpt2,
        (TokenizerKind::File, Some(hash)) => {
            let file = root.tokenizer(hash);
            let read = TokenizerFile::read(&file)?;
            if read.hash() != hash {
                return Err(damaged(&file, "its content is not what was kept".into()));
            }
            Source::File(read)
        }
        (TokenizerKind::File, None) => return Err(damaged(&run.tokenizer(), "it names no tokenizer's file".into())),
    };
    Ok(Some(source))
}

/// Whether two runs are known to have tokenizers that differ.
///
/// # Errors
/// [`Exit::Store`] where what is kept with one of them cannot be read.
pub fn differ(a: &RunFolder, b: &RunFolder) -> Result<bool> {
    Ok(matches!((read(a)?, read(b)?), (Some(a), Some(b)) if a != b))
}

fn read(run: &RunFolder) -> Result<Option<Kept>> {
    let path = run.tokenizer();
    if files::stands(&path).doing(Exit::Store, || format!("looking for {}", path.display()))?.is_none() {
        return Ok(None);
    }
    let kept: Kept = files::read_json(&path)?;
    if kept.format > FORMAT {
        let why = format!("its format is {}, and this version of exp knows formats up to {FORMAT}", kept.format);
        return Err(Error::new(Exit::Store, format!("reading {}", path.display()), why)
            .hint("use the version of exp that wrote it, or a newer one"));
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_that_is_kept_is_the_same_later() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let run = |name: &str| RunFolder::new(root.runs().join(name));
        assert!(kept(&root, &run("none")).unwrap().is_none());
        for (source, text) in [(Source::Char, "to be"), (Source::Byte, "or ñot"), (Source::Gpt2, "that is")] {
            let run = run(source.kind().word());
            let before = source.build(text).unwrap();
            keep(&source, before.alphabet(), &root, &run).unwrap();
            keep(&Source::Char, Some("x".into()), &root, &run).unwrap(); // the first stays
            let after = kept(&root, &run).unwrap().unwrap();
            let tokens = before.encode(text).unwrap();
            assert_eq!((after.encode(text).unwrap(), after.decode(&tokens)), (tokens, text.to_owned()));
        }
    }

    #[test]
    fn a_file_is_kept_once_and_must_stay_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let path = dir.path().join("words.json");
        let model = r#"{"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}"#;
        let json = format!(r#"{{"version": "1.0", "pre_tokenizer": {{"type": "Whitespace"}}, "model": {model}}}"#);
        std::fs::write(&path, json).unwrap();
        let source = || Source::File(TokenizerFile::read(&path).unwrap());
        let runs = ["one", "two"].map(|name| RunFolder::new(root.runs().join(name)));
        runs.iter().for_each(|run| keep(&source(), None, &root, run).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kept(&root, &runs[1]).unwrap().unwrap().encode("b a").unwrap(), [1, 0]);
        let stored = unused(&root, &[], None).unwrap();
        assert_eq!((stored.len(), unused(&root, &runs[1..], None).unwrap()), (1, vec![]));
        std::fs::write(&stored[0], "{}").unwrap();
        let error = kept(&root, &runs[0]).err().unwrap();
        assert!(error.to_string().contains("not what was kept"), "{error}");
        std::fs::remove_file(runs[1].tokenizer()).unwrap();
        std::os::unix::fs::symlink("tokenizer.json", runs[1].tokenizer()).unwrap(); // ELOOP
        assert!(unused(&root, &runs, None).is_err(), "what cannot be looked at is not taken for what is not there");
    }
}
