//! `exp rm RUN|EXPERIMENT…`: takes runs away, and experiments with the runs that are no other's. Says first what will go
//! and what stays, and asks.

use std::{cmp::Reverse, collections::BTreeSet, fs, path::PathBuf, time::Duration};

use serde_json::json;

use super::{columns::Columns, existing_store, nothing_yet, refresh, run::shown, say_damage};
use crate::{
    base::{Context, Error, Exit, Result, RunId, files, folders::Root, manifest::Manifest},
    event::RunState,
    report,
    spec::expr::Expr,
    store::{
        Named, RunRow, Store,
        remove::{self, Remover},
    },
    ui::{
        self,
        format::{self, plural},
        table::{self, numbers, words},
    },
};

/// Arguments of `exp rm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs, by any unique prefix of their ids, and experiments
    #[arg(value_name = "RUN|EXPERIMENT", required_unless_present = "condition")]
    what: Vec<String>,

    /// All runs of which this holds as well: 'experiment == none', 'state == failed and step < 100'
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Say what would go, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Print what goes and what stays as JSON
    #[arg(long)]
    json: bool,
}

/// How many runs are listed one by one.
const LISTED: usize = 20;

/// How long to wait for the index in the end: what is gone from the folders, the next command forgets as well.
const PATIENCE: Duration = Duration::from_secs(4);

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let condition = args.condition.as_ref().map(|text| Expr::condition(text, &Columns)).transpose()?;
    let mut store = existing_store(root)?.ok_or_else(|| nothing_yet(root))?;
    // What others have written since decides what nobody needs any more.
    if !store.refresh(PATIENCE)? {
        let why =
            "another process keeps the index locked, perhaps since it was stopped: what it knows may be out of date";
        return Err(Error::new(Exit::Store, "looking for what to remove", why)
            .hint("let that process go on, or end it; nothing was removed"));
    }
    say_damage(&store)?;
    let mut agreed: Option<Going> = None;
    let going = loop {
        let going = Going::find(&store, root, &args.what, condition.as_ref())?;
        if going.runs.is_empty() && going.experiments.is_empty() {
            ui::note("there is no such run");
            return Ok(Exit::Done);
        }
        going.check(&store, root)?;
        match agreed {
            Some(agreed) if agreed.is_same(&going) => break going,
            Some(_) => ui::note("while you were asked, that has changed:"),
            None => {}
        }
        match (args.json, args.dry_run) {
            (false, _) => ui::print(&going.table(&store)?),
            (true, true) => ui::print_json(&going.json(true)),
            (true, false) => {} // once it is done
        }
        going.notes(root).iter().for_each(|line| ui::note(line));
        if args.dry_run {
            ui::note(&format!("would remove {}", going.sum()));
            return Ok(Exit::Done);
        }
        if args.yes {
            break going;
        }
        if !ui::ask(&format!("remove {}{}?", going.sum(), going.rather())).ok_or_else(|| nobody(&going))? {
            ui::note("nothing was removed");
            return Ok(Exit::Interrupted);
        }
        // An answer may take long: what was agreed to is to be what goes.
        if !store.refresh(PATIENCE)? {
            let why = "another process keeps the index locked, so it cannot be told whether that is still all";
            return Err(Error::new(Exit::Store, format!("removing {}", going.sum()), why)
                .hint("nothing was removed; the same command asks again"));
        }
        agreed = Some(going);
    };
    let runs = going.runs.len();
    let (gone, removed) = going.remove(root);
    refresh(&mut store, PATIENCE)?;
    if args.json {
        ui::print_json(&gone.json(false));
    }
    let stay = match runs - gone.runs.len() {
        0 => String::new(),
        left => format!("; {} of {} stay", left, plural(runs, "run")),
    };
    if gone.runs.is_empty() && gone.experiments.is_empty() {
        ui::note("nothing was removed");
    } else {
        ui::note(&format!("removed {}{stay}", gone.sum()));
    }
    let shown_in = gone.shown_in();
    if !shown_in.is_empty() {
        let what = if gone.runs.len() == 1 { "it" } else { "them" };
        ui::note(&format!(
            "the report of {} still shows {what}, until `exp report` draws it again",
            shown_in.join(", ")
        ));
    }
    removed.map(|()| Exit::Done)
}

fn nobody(going: &Going) -> Error {
    Error::new(Exit::Usage, format!("removing {}", going.sum()), "nobody can be asked: this is no terminal")
        .hint("`--yes` removes without asking, `--dry-run` only says what would go")
}

/// What will go, and what stays of what was named.
struct Going {
    /// The latest first, so that none goes before one that begins with its weights.
    runs: Vec<(RunRow, u64)>,
    experiments: Vec<Report>,
    /// Runs of the experiments that are others' too.
    staying: Vec<RunRow>,
    /// Experiments that were named, and the run of each whose id begins so as well. It was not meant.
    alike: Vec<(String, RunId)>,
}

/// An experiment, and what there is of its report.
struct Report {
    experiment: String,
    folder: PathBuf,
    /// What goes of the report: files that `exp` wrote, or the link that stands in the folder's place.
    own: Vec<PathBuf>,
    /// Bytes of that.
    bytes: u64,
    /// The names of what a person put there.
    foreign: Vec<String>,
}

impl Report {
    fn of(root: &Root, experiment: &str) -> Result<Self> {
        let folder = root.report(experiment);
        let mut report = Self { experiment: experiment.into(), folder, own: vec![], bytes: 0, foreign: vec![] };
        match files::stands(&report.folder).doing(Exit::Store, || format!("looking at {}", shown(&report.folder)))? {
            None => return Ok(report),
            Some(metadata) if !metadata.is_dir() => report.own.push(report.folder.clone()),
            Some(_) => {
                let named = Manifest::read(&report.folder).map_or_else(|_| Vec::new(), |manifest| manifest.files);
                for name in files::names(&report.folder)? {
                    let path = report.folder.join(&name);
                    let name = name.to_string_lossy().into_owned();
                    let is_named = named.iter().any(|file| file.name == name);
                    let is_own = is_named || report::is_own(&name) || name.starts_with(files::ASIDE);
                    match is_own && path.symlink_metadata().is_ok_and(|m| !m.is_dir()) {
                        true => report.own.push(path),
                        false => report.foreign.push(name),
                    }
                }
            }
        }
        report.own.sort();
        report.foreign.sort();
        report.bytes = report.own.iter().map(|path| files::size(path)).sum();
        Ok(report)
    }

    fn remove(&self) -> Result<()> {
        let remove = || -> std::io::Result<()> {
            self.own.iter().try_for_each(|path| files::remove(path))?;
            let is_empty_folder = self.foreign.is_empty() && self.folder.symlink_metadata().is_ok_and(|m| m.is_dir());
            if is_empty_folder { fs::remove_dir(&self.folder) } else { Ok(()) }
        };
        remove().doing(Exit::Store, || format!("removing the report {}", self.folder.display()))
    }
}

impl Going {
    fn find(store: &Store, root: &Root, what: &[String], condition: Option<&Expr>) -> Result<Self> {
        let (mut named, mut experiments, mut alike) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for what in what {
            if what.is_empty() {
                // The beginning of every id; probably a variable of a script that is not set.
                return Err(Error::new(Exit::Usage, "looking for what to remove", "an empty name names nothing"));
            }
            match store.named(what)? {
                Named::Run(row) => drop(named.insert(row.id)),
                Named::Experiment(experiment) => {
                    alike.extend(store.find(what).ok().map(|row| (what.clone(), row.id)));
                    experiments.insert(experiment.name);
                }
            }
        }
        let (mut runs, mut staying) = (Vec::new(), Vec::new());
        let mut rows = store.runs(None)?;
        rows.sort_by_key(|row| Reverse(row.created));
        for row in rows {
            let is_so = condition.is_some_and(|c| c.holds(&|index| Columns::value(index, &row)));
            let (mut of_these, mut of_others) = (row.experiments.clone(), row.experiments.clone());
            of_these.retain(|name| experiments.contains(name));
            of_others.retain(|name| !experiments.contains(name));
            match named.contains(&row.id) || is_so || (!of_these.is_empty() && of_others.is_empty()) {
                true => runs.push((files::size(root.run(&row.id).path()), row)),
                false if !of_these.is_empty() => staying.push(row),
                false => {}
            }
        }
        let runs = runs.into_iter().map(|(bytes, row)| (row, bytes)).collect();
        let experiments = experiments.iter().map(|name| Report::of(root, name)).collect::<Result<_>>()?;
        Ok(Self { runs, experiments, staying, alike })
    }

    fn ids(&self) -> Vec<RunId> {
        self.runs.iter().map(|(row, _)| row.id).collect()
    }

    /// Whether the same would go and stay. Sizes may have changed, and how far a run is.
    fn is_same(&self, other: &Self) -> bool {
        let of = |row: &RunRow| (row.id, row.experiments.iter().cloned().collect::<BTreeSet<_>>());
        let runs = |going: &Self| -> Vec<_> { going.runs.iter().map(|(row, _)| of(row)).collect() };
        let staying = |going: &Self| -> Vec<_> { going.staying.iter().map(of).collect() };
        let reports = |going: &Self| -> Vec<_> {
            going.experiments.iter().map(|r| (r.experiment.clone(), r.own.clone(), r.foreign.clone())).collect()
        };
        runs(self) == runs(other) && staying(self) == staying(other) && reports(self) == reports(other)
    }

    /// Refuses while any of the runs is trained, or one that stays needs one of them, or an `exp run` of an experiment is at
    /// work.
    fn check(&self, store: &Store, root: &Root) -> Result<()> {
        let ids = self.ids();
        let doing = || format!("removing {}", self.sum());
        let listed = |runs: &[RunId]| runs.iter().map(RunId::short).collect::<Vec<_>>().join(", ");
        let trained = remove::trained(root, &ids)?;
        if !trained.is_empty() {
            let are = if trained.len() == 1 { "is" } else { "are" };
            let why = format!("{} {are} being trained: {}", plural(trained.len(), "run"), listed(&trained));
            let stop = trained.iter().map(|run| format!("`exp cancel {}`", run.short())).collect::<Vec<_>>().join(", ");
            return Err(Error::new(Exit::Usage, doing(), why).hint(format!("{stop} first: nothing was removed")));
        }
        self.experiments.iter().try_for_each(|report| remove::refuse_running(root, &report.experiment))?;
        for row in store.runs(None)? {
            let Some(from) = &row.config.run.init_from else { continue };
            let needed = ids.iter().find(|id| id.to_string() == *from);
            if let Some(needed) = needed.filter(|_| row.state != RunState::Done && !ids.contains(&row.id)) {
                let (needed, by) = (needed.short(), row.id.short());
                let why = format!("run {by}, which is {}, begins with the weights of {needed}", row.state.word());
                return Err(Error::new(Exit::Usage, doing(), why)
                    .hint(format!("finish {by} first, or remove it as well: nothing was removed")));
            }
        }
        Ok(())
    }

    /// The runs, and then what else there is of the experiments: who is killed in between does the rest by the same
    /// command. Returns what is gone, all unless something failed.
    fn remove(mut self, root: &Root) -> (Self, Result<()>) {
        let (all, experiments) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.experiments));
        let remove = || -> Result<()> {
            let remover = Remover::new(root, &all.iter().map(|(row, _)| row.id).collect::<Vec<_>>())?;
            for (row, bytes) in all {
                remover.run(&row.id)?;
                self.runs.push((row, bytes));
            }
            for report in experiments {
                report.remove()?;
                remover.experiment(&report.experiment)?;
                self.experiments.push(report);
            }
            Ok(())
        };
        let removed = remove();
        (self, removed)
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|(_, bytes)| bytes).sum::<u64>()
            + self.experiments.iter().map(|report| report.bytes).sum::<u64>()
    }

    /// `the experiment tiny and 3 runs, 1.20 MiB`.
    fn sum(&self) -> String {
        let names: Vec<&str> = self.experiments.iter().map(|report| report.experiment.as_str()).collect();
        let experiments = match &names[..] {
            [] => None,
            [one] => Some(format!("the experiment {one}")),
            some => Some(format!("the experiments {}", some.join(", "))),
        };
        let runs = match &self.runs[..] {
            [] => None,
            [(row, _)] => Some(format!("the run {}", row.id.short())),
            some => Some(plural(some.len(), "run")),
        };
        let parts: Vec<String> = experiments.into_iter().chain(runs).collect();
        format!("{}, {}", parts.join(" and "), format::bytes(self.bytes()))
    }

    fn table(&self, store: &Store) -> Result<String> {
        if self.runs.is_empty() {
            return Ok(String::new());
        }
        let digits = store.shortest(&self.ids())?;
        let are_tagged = self.runs.iter().any(|(row, _)| !row.tags.is_empty());
        let row = |(row, bytes): &(RunRow, u64)| {
            let mut cells = vec![
                row.id.to_string()[..digits].to_owned(),
                row.experiments.join(", "),
                row.state.word().to_owned(),
                format!("{}/{}", row.step, row.config.train.steps),
                format::bytes(*bytes),
            ];
            cells.extend(are_tagged.then(|| format::short(&row.tags.join(", "), 48)));
            cells
        };
        let mut rows: Vec<Vec<String>> = self.runs.iter().take(LISTED).map(row).collect();
        if let Some(more) = self.runs.len().checked_sub(LISTED).filter(|more| *more > 0) {
            let bytes = self.runs[LISTED..].iter().map(|(_, bytes)| bytes).sum();
            rows.push(vec![format!("{more} more"), String::new(), String::new(), String::new(), format::bytes(bytes)]);
        }
        let mut columns = vec![words("run"), words("experiments"), words("state"), numbers("step"), numbers("size")];
        columns.extend(are_tagged.then(|| words("tags")));
        Ok(table::render(&columns, &rows))
    }

    /// What else goes, and what stays.
    fn notes(&self, root: &Root) -> Vec<String> {
        let mut lines = Vec::new();
        for report in &self.experiments {
            lines.push(format!("goes:  {}", shown(&root.experiment(&report.experiment))));
            let is_link = report.own.first() == Some(&report.folder);
            match report.own.len() {
                0 => {}
                _ if is_link => lines.push(format!("goes:  {}, a link; not what it leads to", shown(&report.folder))),
                n => lines.push(format!(
                    "goes:  {}, {}, {}",
                    shown(&report.folder),
                    plural(n, "file"),
                    format::bytes(report.bytes)
                )),
            }
            if !report.foreign.is_empty() {
                let names = report.foreign.join(", ");
                lines.push(format!("stays: {}: not written by exp: {names}", shown(&report.folder)));
            }
        }
        let staying = |row: &RunRow| {
            let others = row.experiments.iter().filter(|name| !self.experiments.iter().any(|r| r.experiment == **name));
            let others: Vec<&str> = others.map(String::as_str).collect();
            format!("stays: run {}, which is of {} too", row.id.short(), others.join(", "))
        };
        lines.extend(self.alike.iter().map(|(name, run)| {
            let digits = &run.to_string()[..16];
            format!("stays: run {digits}, unless it is of {name}: the experiment is meant; more digits name the run")
        }));
        lines.extend(self.staying.iter().take(LISTED).map(staying));
        if let Some(more) = self.staying.len().checked_sub(LISTED).filter(|more| *more > 0) {
            lines.push(format!("stays: {} more that are of other experiments too", plural(more, "run")));
        }
        lines
    }

    /// For the question: what else a name could have meant.
    fn rather(&self) -> String {
        let runs = self.alike.iter().map(|(name, run)| format!(" ({name} is not the run {} here)", run.short()));
        runs.collect()
    }

    /// The experiments that stay, in whose reports runs may be that go.
    fn shown_in(&self) -> Vec<String> {
        let all = self.runs.iter().flat_map(|(row, _)| &row.experiments).collect::<BTreeSet<_>>().into_iter();
        all.filter(|name| !self.experiments.iter().any(|report| report.experiment == **name)).cloned().collect()
    }

    fn json(&self, is_dry: bool) -> serde_json::Value {
        let paths = |of: fn(&Report) -> Vec<String>| self.experiments.iter().flat_map(of).collect::<Vec<_>>();
        let foreign = |r: &Report| r.foreign.iter().map(|name| format!("reports/{}/{name}", r.experiment)).collect();
        json!({
            "dry_run": is_dry,
            "runs": self.runs.iter().map(|(row, bytes)| json!({"id": row.id, "bytes": bytes})).collect::<Vec<_>>(),
            "experiments": paths(|r| vec![r.experiment.clone()]),
            "bytes": self.bytes(),
            "staying_runs": self.staying.iter().map(|row| row.id).collect::<Vec<_>>(),
            "staying_files": paths(foreign),
        })
    }
}
