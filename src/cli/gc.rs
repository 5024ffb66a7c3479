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
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tokens,
    Tokenizers,
    Checkpoints,
    Leftovers,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Tokens, Self::Tokenizers, Self::Checkpoints, Self::Leftovers];

    /// As programs read it.
    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Tokenizers => "tokenizers",
            Self::Checkpoints => "checkpoints",
            Self::Leftovers => "leftovers",
        }
    }

    /// As people read it.
    fn what(self) -> &'static str {
        match self {
            Self::Tokens => "cached tokens of no run",
            Self::Tokenizers => "tokenizers' files of no run",
            Self::Checkpoints => "checkpoints set aside",
            Self::Leftovers => "leftovers of commands that were killed",
        }
    }
}

/// How much of a kind.
struct Sum {
    kind: Kind,
    count: usize,
    bytes: u64,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    if !root.runs().exists() {
        return Err(nothing_yet(root));
    }
    let mut runs = Runs::read(root)?;
    let finds = runs.finds(root)?;
    let orphans = Orphans::count(root)?; // before anything goes: an index that cannot be read is a reason to look first
    let freed = free(root, finds, args.dry_run);
    let (freed, failed): (Vec<_>, Vec<_>) = freed.into_iter().partition(Result::is_ok);
    let (freed, in_use): (Vec<Freed>, Vec<Freed>) = freed.into_iter().flatten().partition(|freed| freed.is_gone);
    let sums: Vec<Sum> = Kind::ALL.into_iter().map(|kind| Sum::of(kind, &freed)).collect();
    if args.json {
        ui::print_json(&json(args.dry_run, &sums, &runs, &orphans, &in_use, root));
    } else {
        ui::print(&table(args.dry_run, &sums));
        let used = in_use.iter().map(|freed| format!("stays: {} is in use by now", shown(&freed.path)));
        runs.notes().into_iter().chain(used).chain(orphans.note()).for_each(|line| ui::note(&line));
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
    /// Cached tokens of which it cannot be told whose they are, and why not.
    unclear: Vec<(PathBuf, String)>,
}

impl Runs {
    fn read(root: &Root) -> Result<Self> {
        let (all, corpora) = (root.run_folders()?, HashSet::new());
        let mut runs = Self { all, corpora, unreadable: vec![], trained: vec![], unclear: vec![] };
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
    fn finds(&mut self, root: &Root) -> Result<Vec<Find>> {
        let mut finds = Vec::new();
        let cached = cache::all(&root.cache())?;
        let why = |kept: &cache::Kept| Some((kept.folder().to_owned(), kept.unreadable()?.to_string()));
        self.unclear = cached.iter().filter_map(why).collect();
        if self.unreadable.is_empty() {
            let is_used = |kept: &cache::Kept| {
                kept.info().is_some_and(|(info, tokenizer)| self.corpora.contains(&(info.hash.clone(), tokenizer)))
            };
            let may_go = |kept: &cache::Kept| kept.unreadable().is_none() && !is_used(kept);
            finds.extend(cached.into_iter().filter(may_go).map(Find::Tokens));
            finds.extend(tokenizer::unused(root, &with_imports(root)?, None)?.into_iter().map(Find::Tokenizer));
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

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .unreadable
            .iter()
            .map(|(folder, why)| format!("warning: {} cannot be told what it needs: {why}", shown(folder.path())))
            .collect();
        if !notes.is_empty() {
            notes.push("so all cached tokens and tokenizers' files stay, and all that lies in such a folder".into());
        }
        let unclear = self.unclear.iter();
        notes.extend(unclear.map(|(path, why)| format!("warning: {} stays, whosever it is: {why}", shown(path))));
        notes
    }
}

/// The folders of runs, those that are being imported as well, which have no names yet.
fn with_imports(root: &Root) -> Result<Vec<RunFolder>> {
    let names = files::names(&root.runs())?.into_iter();
    let aside = names.filter(|name| name.as_encoded_bytes().starts_with(files::ASIDE.as_bytes()));
    Ok(root.run_folders()?.into_iter().chain(aside.map(|name| RunFolder::new(root.runs().join(name)))).collect())
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
    kind: Kind,
    path: PathBuf,
    bytes: u64,
    /// Whether it is gone, or would be: others may have begun to use it meanwhile.
    is_gone: bool,
}

/// Frees what was found.
fn free(root: &Root, finds: Vec<Find>, is_dry: bool) -> Vec<Result<Freed>> {
    let (tokenizers, others): (Vec<_>, Vec<_>) =
        finds.into_iter().partition(|find| matches!(find, Find::Tokenizer(_)) && !is_dry);
    let mut freed: Vec<_> = others.into_iter().filter_map(|find| find.free(is_dry).transpose()).collect();
    match free_tokenizers(root, tokenizers) {
        Ok(more) => freed.extend(more),
        Err(error) => freed.push(Err(error)),
    }
    freed
}

/// Removes the files of tokenizers, but for those to which a run refers by now: none begins to while the lock is held.
fn free_tokenizers(root: &Root, finds: Vec<Find>) -> Result<Vec<Result<Freed>>> {
    if finds.is_empty() {
        return Ok(Vec::new());
    }
    let alone = tokenizer::alone(root)?;
    let unused = tokenizer::unused(root, &with_imports(root)?, Some(&alone))?;
    let free = |find: Find| {
        let _ = alone.touch(); // those who wait see the work get on, where it can be shown
        match unused.contains(&find.path().to_owned()) {
            true => find.free(false).transpose(),
            false => Some(Ok(find.freed(0, false))).filter(|_| find.path().exists()), // else others freed it
        }
    };
    Ok(finds.into_iter().filter_map(free).collect())
}

impl Find {
    fn path(&self) -> &Path {
        match self {
            Self::Tokens(kept) => kept.folder(),
            Self::Tokenizer(path) | Self::Checkpoint(_, path) | Self::Leftover(_, path) => path,
        }
    }

    fn freed(&self, bytes: u64, is_gone: bool) -> Freed {
        let kind = match self {
            Self::Tokens(_) => Kind::Tokens,
            Self::Tokenizer(_) => Kind::Tokenizers,
            Self::Checkpoint(..) => Kind::Checkpoints,
            Self::Leftover(..) => Kind::Leftovers,
        };
        Freed { kind, path: self.path().to_owned(), bytes, is_gone }
    }

    /// What becomes of it; nothing where others freed it.
    fn free(self, is_dry: bool) -> Result<Option<Freed>> {
        let path = self.path();
        let stands = || files::stands(path).doing(Exit::Store, || format!("looking at {}", shown(path)));
        if stands()?.is_none() {
            return Ok(None);
        }
        let bytes = files::size(path);
        let is_gone = is_dry
            || match &self {
                Self::Tokens(kept) => kept.remove()?,
                Self::Checkpoint(run, _) | Self::Leftover(Some(run), _) => {
                    let alone = remove::alone(run)?;
                    if alone.is_some() {
                        gone(path)?;
                    }
                    alone.is_some()
                }
                Self::Tokenizer(_) | Self::Leftover(None, _) => gone(path).map(|()| true)?,
            };
        Ok(if is_gone || stands()?.is_some() { Some(self.freed(bytes, is_gone)) } else { None })
    }
}

/// Removes what nobody looks at: half of it is no worse than all of it.
fn gone(path: &Path) -> Result<()> {
    files::sweep_away(path).doing(Exit::Store, || format!("removing {}", path.display()))
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

impl Sum {
    fn of(kind: Kind, freed: &[Freed]) -> Self {
        let of_kind = freed.iter().filter(|freed| freed.kind == kind);
        Self { kind, count: of_kind.clone().count(), bytes: of_kind.map(|freed| freed.bytes).sum() }
    }
}

fn table(is_dry: bool, sums: &[Sum]) -> String {
    let row = |what: &str, count: usize, bytes| vec![what.to_owned(), count.to_string(), format::bytes(bytes)];
    let mut rows: Vec<_> = sums.iter().map(|sum| row(sum.kind.what(), sum.count, sum.bytes)).collect();
    rows.push(row("in all", sums.iter().map(|sum| sum.count).sum(), sums.iter().map(|sum| sum.bytes).sum()));
    table::render(&[words(if is_dry { "would be freed" } else { "freed" }), numbers("count"), numbers("size")], &rows)
}

fn json(
    is_dry: bool,
    sums: &[Sum],
    runs: &Runs,
    orphans: &Orphans,
    in_use: &[Freed],
    root: &Root,
) -> serde_json::Value {
    let freed = sums.iter().map(|sum| json!({"what": sum.kind.name(), "count": sum.count, "bytes": sum.bytes}));
    let of_runs = runs.unreadable.iter().map(|(run, why)| (run.path(), why));
    let unreadable = of_runs.chain(runs.unclear.iter().map(|(path, why)| (path.as_path(), why)));
    let unreadable = unreadable.map(|(path, why)| json!({"path": root.relative(path), "why": why}));
    let in_use = in_use.iter().map(|freed| json!({"what": freed.kind.name(), "path": root.relative(&freed.path)}));
    json!({
        "dry_run": is_dry,
        "freed": freed.collect::<Vec<_>>(),
        "bytes": sums.iter().map(|sum| sum.bytes).sum::<u64>(),
        "in_use": in_use.collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "without_experiment": {"runs": orphans.runs, "bytes": orphans.bytes},
    })
}
