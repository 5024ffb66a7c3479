//! `exp gc`: frees what nothing refers to. What there is follows from the folders: from each run's config, what it was
//! trained on, and from its tokenizer, which file that needs. Where one run cannot be read, nothing goes that it may need.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{nothing_yet, refresh, run::shown, say_damage};
use crate::{
    base::{
        Context, Error, Exit, Result, files,
        folders::{Root, RunFolder},
        lease,
    },
    data::{cache, tokenizer},
    spec::{config::TokenizerKind, identity::FrozenRun},
    store::{Store, remove},
    ui::{
        self,
        format::{self, plural},
        table::{self, numbers, words},
    },
};

/// Arguments of `exp gc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Say what would be freed, and free nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is freed, in the order in which it is shown.
const KINDS: [&str; 4] = [
    "cached tokens of no run",
    "tokenizers' files of no run",
    "checkpoints set aside",
    "leftovers of commands that were killed",
];

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    if !root.runs().exists() {
        return Err(nothing_yet(root));
    }
    let runs = Runs::read(root)?;
    let finds = runs.finds(root)?;
    let orphans = Orphans::count(root)?; // before anything goes: an index that cannot be read is a reason to look first
    let freed: Vec<Result<Freed>> = finds.into_iter().map(|find| find.free(root, args.dry_run)).collect();
    let (freed, failed): (Vec<_>, Vec<_>) = freed.into_iter().partition(Result::is_ok);
    let freed: Vec<Freed> = freed.into_iter().flatten().filter(|freed| freed.is_gone).collect();
    let sums = KINDS.iter().enumerate().map(|(kind, what)| {
        let of_kind = freed.iter().filter(|freed| freed.kind == kind);
        (*what, of_kind.clone().count(), of_kind.map(|freed| freed.bytes).sum())
    });
    let sums: Vec<(&str, usize, u64)> = sums.collect();
    if args.json {
        ui::print_json(&json(args.dry_run, &sums, &runs, &orphans, root));
    } else {
        ui::print(&table(args.dry_run, &sums));
        runs.notes().iter().chain(&orphans.note()).for_each(|line| ui::note(line));
    }
    for error in failed.iter().filter_map(|failed| failed.as_ref().err()) {
        ui::error(error);
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Store })
}

/// The folders of runs, read.
struct Runs {
    all: Vec<RunFolder>,
    /// Of each that can be read, its corpus and what its tokens are.
    corpora: HashSet<(String, TokenizerKind)>,
    /// Those that cannot, and why not.
    unreadable: Vec<(RunFolder, String)>,
    /// Those that are being trained.
    trained: Vec<String>,
}

impl Runs {
    fn read(root: &Root) -> Result<Self> {
        let mut runs = Self { all: root.run_folders()?, corpora: HashSet::new(), unreadable: vec![], trained: vec![] };
        for folder in &runs.all {
            match look(folder) {
                Ok(Some((frozen, is_trained))) => {
                    runs.corpora.insert((frozen.corpus_hash, frozen.config.data.tokenizer));
                    runs.trained.extend(is_trained.then(|| folder.name().into_owned()));
                }
                Ok(None) => {}
                Err(error) => runs.unreadable.push((folder.clone(), error.to_string())),
            }
        }
        Ok(runs)
    }

    fn is_readable(&self, folder: &RunFolder) -> bool {
        !self.unreadable.iter().any(|(other, _)| other.path() == folder.path())
    }

    /// Whether something in the folder of a run may go, as far as one look can tell.
    fn may_touch(&self, folder: &RunFolder) -> bool {
        self.is_readable(folder) && !self.trained.iter().any(|name| *name == folder.name())
    }

    /// All that may go.
    fn finds(&self, root: &Root) -> Result<Vec<Find>> {
        let mut finds = Vec::new();
        if self.unreadable.is_empty() {
            let is_used = |kept: &cache::Kept| {
                kept.info().is_some_and(|(info, tokenizer)| self.corpora.contains(&(info.hash.clone(), tokenizer)))
            };
            finds.extend(cache::all(&root.cache())?.into_iter().filter(|kept| !is_used(kept)).map(Find::Tokens));
            finds.extend(tokenizer::unused(root, &self.with_imports(root)?)?.into_iter().map(Find::Tokenizer));
        }
        for folder in self.all.iter().filter(|folder| self.may_touch(folder)) {
            let all = folder.checkpoints();
            let is_aside =
                |name: &str| ["damaged-step-", "bad-step-", "void-step-"].iter().any(|p| name.starts_with(p));
            let names = files::names(&all)?.into_iter().filter(|name| is_aside(&name.to_string_lossy()));
            finds.extend(names.map(|name| Find::Checkpoint(folder.clone(), all.join(name))));
            let mut places = vec![folder.path().to_owned(), all, folder.samples()];
            places.extend(folder.attempts()?.into_iter().map(|attempt| folder.attempt(attempt)));
            let left = places.iter().flat_map(|place| files::left_aside(place, files::DAY));
            finds.extend(left.map(|path| Find::Leftover(Some(folder.clone()), path)));
        }
        finds.extend(leftovers(root)?.into_iter().map(|path| Find::Leftover(None, path)));
        Ok(finds)
    }

    /// With the runs that are being imported, whose folders have no names yet.
    fn with_imports(&self, root: &Root) -> Result<Vec<RunFolder>> {
        let names = files::names(&root.runs())?.into_iter();
        let aside = names.filter(|name| name.as_encoded_bytes().starts_with(files::ASIDE.as_bytes()));
        Ok(self.all.iter().cloned().chain(aside.map(|name| RunFolder::new(root.runs().join(name)))).collect())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .unreadable
            .iter()
            .map(|(folder, why)| format!("warning: {} cannot be told what it needs: {why}", shown(folder.path())))
            .collect();
        if !notes.is_empty() {
            notes.push("so all cached tokens and tokenizers' files stay, and all that lies in such a folder".into());
        }
        notes
    }
}

/// The config of a run, and whether it is being trained; nothing where there is no run in the folder.
///
/// # Errors
/// Where there is one, and cannot be told what it needs.
fn look(folder: &RunFolder) -> Result<Option<(FrozenRun, bool)>> {
    let attempts = folder.attempts()?;
    let exists = |path: PathBuf| path.try_exists().unwrap_or(true);
    if !exists(folder.config()) {
        return match attempts.is_empty() && !exists(folder.checkpoints()) && !exists(folder.tokenizer()) {
            true => Ok(None),
            false => Err(Error::new(Exit::Store, format!("reading {}", shown(&folder.config())), "it is gone")),
        };
    }
    let frozen = FrozenRun::read(&folder.config())?;
    tokenizer::kept_file(folder)?;
    files::names(&folder.checkpoints())?;
    Ok(Some((frozen, lease::is_held(&folder.lock())?)))
}

/// What was left aside outside of the folders of runs.
fn leftovers(root: &Root) -> Result<Vec<PathBuf>> {
    let mut places = vec![root.runs(), root.cache(), root.tokenizers(), root.experiments(), root.reports()];
    for parent in [root.experiments(), root.reports()] {
        let folders = files::names(&parent)?.into_iter().map(|name| parent.join(name));
        // Where a link leads is not ours.
        places.extend(folders.filter(|path| path.symlink_metadata().is_ok_and(|m| m.is_dir())));
    }
    let left = places.iter().flat_map(|place| files::left_aside(place, files::DAY));
    Ok(left.chain(cache::left_aside(&root.cache(), files::DAY)?).collect())
}

/// Something that nothing refers to.
enum Find {
    Tokens(cache::Kept),
    Tokenizer(PathBuf),
    /// Of that run.
    Checkpoint(RunFolder, PathBuf),
    /// Of that run, where it is one's.
    Leftover(Option<RunFolder>, PathBuf),
}

/// What became of it.
struct Freed {
    kind: usize,
    bytes: u64,
    /// Whether it is gone, or would be: others may have begun to use it meanwhile.
    is_gone: bool,
}

impl Find {
    fn free(self, root: &Root, is_dry: bool) -> Result<Freed> {
        let (kind, path) = match &self {
            Self::Tokens(kept) => (0, kept.folder().to_owned()),
            Self::Tokenizer(path) => (1, path.clone()),
            Self::Checkpoint(_, path) => (2, path.clone()),
            Self::Leftover(_, path) => (3, path.clone()),
        };
        let bytes = files::size(&path);
        let is_gone = is_dry
            || match &self {
                Self::Tokens(kept) => kept.remove()?,
                Self::Tokenizer(path) => still_unused(root, path)?,
                Self::Checkpoint(run, path) | Self::Leftover(Some(run), path) => {
                    let alone = remove::alone(run)?;
                    if alone.is_some() {
                        gone(path)?;
                    }
                    alone.is_some()
                }
                Self::Leftover(None, path) => gone(path).map(|()| true)?,
            };
        Ok(Freed { kind, bytes, is_gone })
    }
}

/// Removes a tokenizer's file, unless a run refers to it by now.
fn still_unused(root: &Root, path: &Path) -> Result<bool> {
    let Some(_alone) = tokenizer::alone(root)? else { return Ok(false) };
    let runs = Runs::read(root)?;
    let is_unused =
        runs.unreadable.is_empty() && tokenizer::unused(root, &runs.with_imports(root)?)?.contains(&path.into());
    if is_unused {
        gone(path)?;
    }
    Ok(is_unused)
}

/// Removes what nobody looks at: half of it is no worse than all of it.
fn gone(path: &Path) -> Result<()> {
    match files::sweep_away(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()), // somebody swept it
        removed => removed.doing(Exit::Store, || format!("removing {}", path.display())),
    }
}

/// Runs of no experiment.
struct Orphans {
    runs: usize,
    bytes: u64,
}

impl Orphans {
    fn count(root: &Root) -> Result<Self> {
        // Others sweep away what was left aside when they open the index; here it is to be counted.
        let mut store = Store::open_unswept(root)?;
        refresh(&mut store, super::PATIENCE)?;
        say_damage(&store)?;
        let rows = store.runs(None)?.into_iter().filter(|row| row.experiments.is_empty());
        let sizes: Vec<u64> = rows.map(|row| files::size(root.run(&row.id).path())).collect();
        Ok(Self { runs: sizes.len(), bytes: sizes.iter().sum() })
    }

    fn note(&self) -> Option<String> {
        let runs = plural(self.runs, "run");
        let (verb, them) = if self.runs == 1 { ("belongs", "it") } else { ("belong", "them") };
        let rm = "`exp rm --where 'experiment == none'`";
        (self.runs > 0)
            .then(|| format!("{runs} {verb} to no experiment, {}; {rm} removes {them}", format::bytes(self.bytes)))
    }
}

fn table(is_dry: bool, sums: &[(&str, usize, u64)]) -> String {
    let mut rows: Vec<Vec<String>> = sums
        .iter()
        .map(|(what, count, bytes)| vec![(*what).into(), count.to_string(), format::bytes(*bytes)])
        .collect();
    let all = (sums.iter().map(|(_, count, _)| count).sum::<usize>(), sums.iter().map(|(.., bytes)| bytes).sum());
    rows.push(vec!["in all".into(), all.0.to_string(), format::bytes(all.1)]);
    table::render(&[words(if is_dry { "would be freed" } else { "freed" }), numbers("count"), numbers("size")], &rows)
}

fn json(is_dry: bool, sums: &[(&str, usize, u64)], runs: &Runs, orphans: &Orphans, root: &Root) -> serde_json::Value {
    let names = ["tokens", "tokenizers", "checkpoints", "leftovers"];
    let freed =
        names.iter().zip(sums).map(|(name, (_, count, bytes))| json!({"what": name, "count": count, "bytes": bytes}));
    let unreadable = runs.unreadable.iter().map(|(run, why)| json!({"path": root.relative(run.path()), "why": why}));
    json!({
        "dry_run": is_dry,
        "freed": freed.collect::<Vec<_>>(),
        "bytes": sums.iter().map(|(.., bytes)| bytes).sum::<u64>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "without_experiment": {"runs": orphans.runs, "bytes": orphans.bytes},
    })
}
