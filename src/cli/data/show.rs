//! `exp data show WHAT`: a corpus at a glance.

use std::{collections::BTreeSet, path::Path};

use serde_json::json;

use crate::{
    base::{Error, Exit, Result, folders::Root, progress::Progress, visible::visible},
    cli::run::shown,
    data::{
        self, Dataset, Split,
        shelf::{self, Item},
        tokens::PREPARING,
    },
    spec::{self, RunConfig},
    ui::{self, format},
};

/// Arguments of `exp data show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// playbook, shakespeare, a text, a folder of texts or of tokens, or the first digits of a hash of `exp data ls`
    corpus: String,

    /// A setting of the corpus: --set tokenizer=gpt2, --set corpus_seed=2
    #[arg(long, value_name = "LEAF=VALUE")]
    set: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How many tokens of its beginning are shown.
const SAMPLE: usize = 400;

/// How many characters of it, and of its alphabet.
const WIDTH: usize = 300;

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let data = args.open(root)?;
    let of = data.info().tokens(Split::Whole);
    let progress = Progress::of("looking at its characters");
    let characters = data.characters(&mut |done| progress.at(done, of));
    drop(progress);
    if args.json {
        ui::print_json(&as_json(&data, &characters));
    } else {
        ui::print(&text(&data, &characters));
    }
    Ok(Exit::Done)
}

impl Args {
    fn open(&self, root: &Root) -> Result<Dataset> {
        let path = Path::new(&self.corpus);
        let of_path = |kind: &str| vec![format!("corpus={kind}"), format!("data.path={}", json!(self.corpus))];
        let named = match self.corpus.as_str() {
            name @ ("playbook" | "shakespeare") => vec![format!("corpus={name}")],
            _ if ["train.bin", "val.bin", PREPARING].iter().any(|name| path.join(name).exists()) => of_path("tokens"),
            // What cannot be looked at is not taken for what is not there: opening it says why.
            _ if path.try_exists().unwrap_or(true) => of_path("text"),
            hash => return self.by_hash(root, hash),
        };
        let known = |leaf: &str| leaf.starts_with("data.") && leaf != "data.corpus" && leaf != "data.path";
        let refuse = |_: &RunConfig, leaf: &str| {
            (!known(leaf)).then(|| format!("`{leaf}` cannot be set here: only how the corpus is read"))
        };
        let config = spec::amend(&RunConfig::default(), &named, &|_, _| None)?;
        let config = spec::amend(&config, &self.set, &refuse)?;
        data::open(&config.data, &root.cache(), &|| false)
    }

    /// What `exp data ls` lists under a hash or a folder of the cache that begins so.
    fn by_hash(&self, root: &Root, hash: &str) -> Result<Dataset> {
        let name = |item: &Item| item.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let begins = |item: &Item| {
            item.hash.as_ref().is_some_and(|known| known.starts_with(hash))
                || item.is_cached() && name(item).starts_with(hash)
        };
        let refused = |why: &str, hint: String| {
            Err(Error::new(Exit::Usage, format!("looking for the corpus {hash}"), why).hint(hint))
        };
        let mut found = shelf::items(&root.cache())?;
        found.retain(|item| hash.len() >= 4 && begins(item));
        if found.len() > 1 && found.iter().any(|item| item.info != found[0].info) {
            let of = |item: &Item| {
                let tokenizer = item.tokenizer.map_or("no tokens", |tokenizer| tokenizer.word());
                format!("{} ({tokenizer})", if item.is_cached() { name(item) } else { item.path.display().to_string() })
            };
            let all: Vec<String> = found.iter().map(of).collect();
            return refused("several begin so", format!("name one of {}", all.join(", ")));
        }
        match found.pop() {
            Some(_) if !self.set.is_empty() => {
                refused("it is tokenized already", "`--set` is for a text, by its name or path".into())
            }
            Some(item) if item.info.is_none() && !item.is_cached() => {
                refused("it is a text that nothing has tokenized yet", format!("name it: {}", item.name.unwrap_or_default()))
            }
            Some(item) => match item.open(&root.cache())? {
                Some(data) => Ok(data),
                None => refused("it is not whole", "`exp data verify` says what is wrong".into()),
            },
            None => refused(
                "there is no such file or folder, and no hash begins so",
                "`exp data ls` lists what there is, whose hashes go by four digits or more; `playbook` and `shakespeare` go \
                 by their names"
                    .into(),
            ),
        }
    }
}

fn text(data: &Dataset, characters: &BTreeSet<char>) -> String {
    let info = data.info();
    let ([train, val], width) = data.files();
    let bytes = info.tokens(Split::Whole) * width as u64;
    let count = |n: u64| format::grouped(n);
    let mut lines = vec![
        ("corpus", info.name.clone()),
        ("hash", info.hash.clone()),
        ("text", format!("{} characters, {} of them distinct", count(info.chars), count(characters.len() as u64))),
        ("tokenizer", format!("{}, a vocabulary of {}", data.tokenizer_kind().word(), count(info.vocab_size as u64))),
        ("tokens", format!("{} to train on, {} to validate", count(info.train_tokens), count(info.val_tokens))),
        ("chars/token", format!("{:.3}", info.chars_per_token)),
    ];
    lines.extend(
        info.bits_per_char.map(|bits| ("entropy", format!("{bits:.4} bits per character, under its own grammar"))),
    );
    let val = val.file_name().unwrap_or_default().to_string_lossy();
    lines.push(("where", format!("{}, {val} ({})", shown(train), format::bytes(bytes))));
    lines.push(("characters", alphabet(characters)));
    lines.extend(info.notes.iter().map(|note| ("note", note.clone())));
    let mut text = lines.into_iter().map(|(name, value)| format!("{name:<13}{value}\n")).collect::<String>();
    text.push_str("\nIt begins:\n\n");
    let sample: String = data.beginning(SAMPLE).chars().take(WIDTH).collect();
    text.extend(
        sample
            .trim_end()
            .lines()
            .map(|line| format!("    {}", visible(&line.replace('\t', "\\t"))).trim_end().to_owned() + "\n"),
    );
    text
}

/// Characters in the order of their code points, four and more neighbours as a range: `'\n' ' ' ! , A–Z a–z`.
fn alphabet(characters: &BTreeSet<char>) -> String {
    let mut runs: Vec<(char, char)> = Vec::new();
    for &c in characters {
        match runs.last_mut() {
            // Brackets follow letters; they are not meant by A–[.
            Some((_, last)) if *last as u32 + 1 == c as u32 && last.is_alphanumeric() == c.is_alphanumeric() => {
                *last = c
            }
            _ => runs.push((c, c)),
        }
    }
    let shown = |c: char| {
        let text = c.to_string();
        if c.is_whitespace() || visible(&text) != text { format!("{c:?}") } else { text }
    };
    let names = runs.into_iter().flat_map(|(first, last)| match last as u32 - first as u32 {
        0..3 => (first..=last).map(shown).collect(),
        _ => vec![format!("{}–{}", shown(first), shown(last))],
    });
    let (mut line, mut width) = (Vec::new(), 0);
    let mut names = names.peekable();
    while let Some(name) = names.next_if(|_| width < WIDTH) {
        width += name.chars().count() + 1;
        line.push(name);
    }
    let rest = names.count();
    let more = if rest > 0 { format!(" … and {rest} ranges more") } else { String::new() };
    line.join(" ") + &more
}

fn as_json(data: &Dataset, characters: &BTreeSet<char>) -> serde_json::Value {
    let info = data.info();
    let (files, width) = data.files();
    let files = files.map(|path| path.display().to_string());
    json!({
        "name": info.name,
        "hash": info.hash,
        "chars": info.chars,
        "characters": characters.iter().collect::<String>(),
        "tokenizer": data.tokenizer_kind().word(),
        "vocab_size": info.vocab_size,
        "train_tokens": info.train_tokens,
        "val_tokens": info.val_tokens,
        "chars_per_token": info.chars_per_token,
        "bits_per_char": info.bits_per_char,
        "bytes": info.tokens(Split::Whole) * width as u64,
        "files": files,
        "notes": info.notes,
        "sample": data.beginning(SAMPLE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_ranges_and_what_is_not_seen_is_named() {
        assert_eq!(alphabet(&"\n az!bcd\u{7}XYZ[W".chars().collect()), r"'\u{7}' '\n' ' ' ! W–Z [ a–d z");
        let many = alphabet(&(0x4e00..0x5600).step_by(2).filter_map(char::from_u32).collect());
        assert!(many.ends_with(" … and 874 ranges more"), "{many}");
    }
}
