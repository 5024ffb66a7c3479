//! Tiny Shakespeare, the text of char-rnn's and nanoGPT's first examples. A copy lies in the user's cache folder, for all
//! roots; it is downloaded on first use, or added by hand where there is no network. What it holds is known beforehand, so
//! that a copy is checked whenever it is read, and nobody needs one whose tokens are cached already.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{
    corpus::{Corpus, Text},
    fetch::{self, Copy, Remote},
};
use crate::base::{Context, Error, Exit, Result, files, folders, num::grouped, wait};

/// Its size.
pub const BYTES: u64 = 1_115_394;

/// Its SHA-256, in hex.
pub const SHA256: &str = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";

/// Its blake3, in hex: what run ids and cached tokens go by.
pub const BLAKE3: &str = "5bd8f6749d3cda816828aabf1aebdc595f673de8102e521bbd8369ad4b7917e9";

/// Where it usually lies.
const URL: &str = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt";

const HINT: &str = "where there is no network, get data/tinyshakespeare/input.txt of github.com/karpathy/char-rnn elsewhere, \
                    then `exp data add shakespeare --from FILE`; EXP_SHAKESPEARE_URL names another address";

/// The corpus, as the user's copy has it.
pub struct Shakespeare;

impl Corpus for Shakespeare {
    fn name(&self) -> String {
        "shakespeare".into()
    }

    fn key(&self) -> Result<String> {
        Ok(BLAKE3.into())
    }

    fn fetch(&self, is_asked: &dyn Fn() -> bool) -> Result<()> {
        if get(is_asked)? {
            wait::say(&format!("downloaded Tiny Shakespeare to {}", path()?.display()));
        }
        Ok(())
    }

    fn read(&self) -> Result<Text> {
        let path = path()?;
        let doing = || format!("reading {}", path.display());
        match remote(&url()).copy(&path)? {
            Copy::Whole(content) => {
                Ok(Text { text: String::from_utf8(content).doing(Exit::Unexpected, doing)?, costs: None })
            }
            _ => Err(Error::new(Exit::Spec, doing(), "it changed a moment ago").hint("the same command tries again")),
        }
    }
}

/// Where the user's copy lies, once there is one.
///
/// # Errors
/// [`Exit::Store`] where the user has no cache folder.
pub fn path() -> Result<PathBuf> {
    Ok(folders::user_cache()?.join("shakespeare.txt"))
}

/// Has a whole copy, downloading it where there is none; `true` where that was done. Errors as
/// [`Remote::fetch`], with what to do about them.
pub fn get(is_asked: &dyn Fn() -> bool) -> Result<bool> {
    remote(&url()).fetch(&path()?, is_asked).map_err(|error| match error.exit {
        Exit::Spec => error.within("getting the corpus shakespeare").hint(HINT),
        _ => of_the_cache(error),
    })
}

/// Makes a file that somebody has the user's copy, and says where that lies.
///
/// # Errors
/// [`Exit::Spec`] where the file is not Tiny Shakespeare to the byte, [`Exit::Store`] where the copy cannot be written.
pub fn add(file: &Path) -> Result<PathBuf> {
    let doing = || format!("adding {} as shakespeare", file.display());
    let refused = |why: &str| Error::new(Exit::Spec, doing(), why);
    let about = match fs::metadata(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(refused("there is no such file")),
        about => about.doing(Exit::Spec, doing)?,
    };
    if about.is_dir() {
        return Err(refused("it is a folder; a file is wanted here"));
    }
    if !about.is_file() {
        return Err(refused("it is no regular file")); // a pipe or a device might never end
    }
    if about.len() > 4 * BYTES {
        let (has, of) = (grouped(about.len()), grouped(BYTES));
        return Err(refused(&format!("it has {has} bytes, and Tiny Shakespeare has {of}")).hint(HINT));
    }
    let content = fs::read(file).doing(Exit::Spec, doing)?;
    let url = url();
    if let Some(why) = remote(&url).differs(&content) {
        return Err(match slips(&content) {
            Some(slips) => refused(&format!("{why}; it is the same text but for {slips}"))
                .hint("save it in UTF-8 without a byte-order mark and with LF line ends, as it came"),
            None => refused(&why).hint(HINT),
        });
    }
    let path = path()?;
    if !matches!(remote(&url).copy(&path), Ok(Copy::Whole(_))) {
        files::write_atomic(&path, &content).map_err(of_the_cache)?;
    }
    Ok(path)
}

/// In what the copy at `path` differs from the text, if it does. Errors as [`Remote::copy`].
pub fn fault(path: &Path) -> Result<Option<String>> {
    Ok(match remote(&url()).copy(path)? {
        Copy::Whole(_) => None,
        Copy::Absent => Some("it is gone".into()),
        Copy::Other(why) => Some(why),
    })
}

fn url() -> String {
    let named = std::env::var("EXP_SHAKESPEARE_URL").ok();
    named.filter(|url| !url.is_empty()).unwrap_or_else(|| URL.into())
}

fn remote(url: &str) -> Remote<'_> {
    Remote { name: "Tiny Shakespeare", url, bytes: BYTES, sha256: SHA256, timeout: fetch::timeout() }
}

fn of_the_cache(error: Error) -> Error {
    match error.exit {
        Exit::Store if error.hint.is_none() => error.hint("EXP_CACHE names another folder for downloads"),
        _ => error,
    }
}

/// What editors and file transfers do to a text, where that is all in which some content differs.
fn slips(content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    let unmarked = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = unmarked.replace("\r\n", "\n").replace('\r', "\n");
    let ended = plain.trim_end_matches('\n').to_owned() + "\n";
    let all = [
        (unmarked.len() != text.len(), "a byte-order mark"),
        (plain != unmarked, "its line ends"),
        (ended != plain, "line ends after the last line"),
    ];
    let found: Vec<&str> = all.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect();
    (fetch::sha256(ended.as_bytes()) == SHA256).then(|| found.join(" and "))
}
