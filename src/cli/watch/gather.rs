//! Gathers what the live view shows: from the index, from the slots, and of the runs that are looked at from their curves.
//! What was read of a curve is not read again.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::outlook::{self, Outlook};
use crate::{
    base::{
        Result, RunId,
        clock::{self, Millis},
        folders::Root,
    },
    cli::{PATIENCE, no_runs_yet, store_within},
    event::RunState,
    exec::{device, slots},
    spec::leaf,
    store::{RunRow, Store, running},
    ui::{
        format,
        watch::{Detail, Device, Group, Look, Run, Scene, curve::Curve},
    },
};

/// How long ago is recent.
const RECENT: Duration = Duration::from_secs(12 * 3600);

/// How long to wait for another process that writes the index: rather is the last state shown.
const LIVE_PATIENCE: Duration = Duration::from_millis(500);

/// Gathers scenes, each from what the one before knew.
pub struct Gatherer {
    root: Root,
    experiment: Option<String>,
    store: Option<Store>,
    /// Without what nobody looks at.
    scene: Scene,
    rows: HashMap<RunId, RunRow>,
    curves: HashMap<RunId, Seen>,
}

/// What was read of a run's loss.
struct Seen {
    /// What the curve belongs to: another attempt may have made steps void.
    attempt: (u32, Option<u64>),
    curve: Arc<Curve>,
}

impl Gatherer {
    /// For one experiment, or for all that something happens in.
    pub fn new(root: &Root, experiment: Option<String>) -> Self {
        let (scene, rows, curves) = (Scene::default(), HashMap::new(), HashMap::new());
        Self { root: root.clone(), experiment, store: None, scene, rows, curves }
    }

    /// Whether anything was ever run under the root.
    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The runs that there are.
    pub fn runs(&self) -> Vec<RunId> {
        self.rows.keys().copied().collect()
    }

    /// Looks how runs and devices stand now.
    ///
    /// # Errors
    /// Where the index cannot be read, or the experiment is not known.
    pub fn refresh(&mut self) -> Result<()> {
        let mut notes = Vec::new();
        match &mut self.store {
            // It may be gone, and another in its place.
            Some(_) if !self.root.database().exists() => self.store = store_within(&self.root, PATIENCE)?,
            None => self.store = store_within(&self.root, PATIENCE)?,
            Some(store) => {
                if !store.refresh(LIVE_PATIENCE)? {
                    notes.push("another process keeps the index locked: this is how things stood before".to_owned());
                }
                let damaged = store.damage()?.len();
                if damaged > 0 {
                    let files = format::plural(damaged, "file");
                    notes.push(format!("warning: {files} cannot be read; `exp verify` names them"));
                }
            }
        }
        let now = clock::now();
        let Some(store) = &self.store else {
            let empty = no_runs_yet(&self.root);
            self.rows.clear();
            self.scene = Scene { at: now, devices: self.devices(6), empty, notes, ..Scene::default() };
            return Ok(());
        };
        let (groups, rows) = groups(&self.root, store, self.experiment.as_deref(), now)?;
        let digits = store.shortest(&rows.iter().map(|row| row.id).collect::<Vec<_>>())?;
        self.rows = rows.into_iter().map(|row| (row.id, row)).collect();
        self.curves.retain(|run, _| self.rows.contains_key(run));
        let empty = "no runs yet; `exp run SPEC` makes some".to_owned();
        self.scene = Scene { at: now, groups, devices: Vec::new(), detail: None, notes, digits, empty };
        self.scene.devices = self.devices(digits);
        Ok(())
    }

    /// How things stood when that was last looked at, with the curves of the runs on screen and more of the selected one.
    /// Curves are read until a time; `false` where some are still to be read.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn scene(&mut self, look: &Look, until: Instant) -> Result<(Scene, bool)> {
        let mut scene = self.scene.clone();
        let Some(store) = &self.store else { return Ok((scene, true)) };
        let mut is_whole = true;
        for row in look.selected.iter().chain(&look.visible).filter_map(|run| self.rows.get(run)) {
            if Instant::now() > until {
                is_whole = false;
                break;
            }
            read_on(store, row, &mut self.curves)?;
        }
        for run in scene.groups.iter_mut().flat_map(|group| &mut group.runs) {
            run.curve = self.curves.get(&run.id).map(|seen| Arc::clone(&seen.curve));
            run.train_loss = run.curve.as_ref().and_then(|curve| curve.last).map(|(_, loss)| loss);
        }
        if let Some(row) = look.selected.and_then(|run| self.rows.get(&run)) {
            let of = |group: &Group| Some(group.named(group.runs.iter().find(|run| run.id == row.id)?));
            let settings = scene.groups.iter().find_map(of).filter(|settings| !settings.is_empty());
            let settings = settings.map_or(String::new(), |settings| settings + "; ");
            scene.detail = Some(detail(&self.root, store, row, &settings)?);
        }
        Ok((scene, is_whole))
    }

    /// The devices of this machine, and who is there. Where that cannot be told, nobody is said to be.
    fn devices(&self, digits: usize) -> Vec<Device> {
        let mut occupants = slots::occupants(&self.root).unwrap_or_default();
        let label = |run: RunId| {
            let row = || self.store.as_ref()?.run(&run).ok()?;
            let experiment = match self.rows.get(&run) {
                Some(_) if self.scene.groups.len() == 1 => None,
                Some(row) => row.experiments.first().cloned(),
                None => row().and_then(|row| row.experiments.first().cloned()),
            };
            let id = &run.to_string()[..digits.min(64)];
            experiment.map_or_else(|| id.to_owned(), |name| format!("{id} ({name})"))
        };
        let known = |device: device::DeviceInfo| Device {
            runs: occupants.remove(&device.id).unwrap_or_default().into_iter().map(label).collect(),
            load: device.cores.and_then(|_| device::load()),
            memory: device.memory_total.zip(device.memory_free),
            name: device.name,
            model: device.model,
            cores: device.cores,
        };
        device::list().into_iter().map(known).collect()
    }
}

/// The experiments to show, and all of their runs.
fn groups(root: &Root, store: &Store, asked: Option<&str>, now: Millis) -> Result<(Vec<Group>, Vec<RunRow>)> {
    let known = store.experiments()?;
    let mut others = Vec::new();
    let names = match asked {
        Some(name) => vec![store.experiment(name)?.name],
        None => {
            let recent = store.recent(now - RECENT.as_millis() as Millis)?;
            others = recent.others;
            let mut names = recent.experiments;
            for experiment in &known {
                // One that waits for devices since long has nothing else to show for it.
                if !names.contains(&experiment.name) && running::count(root, &experiment.name)? > 0 {
                    names.push(experiment.name.clone());
                }
            }
            if names.is_empty() && others.is_empty() {
                names.extend(known.first().map(|latest| latest.name.clone()));
            }
            names
        }
    };
    let (mut groups, mut all) = (Vec::new(), Vec::new());
    for experiment in names.iter().filter_map(|name| known.iter().find(|known| known.name == *name)) {
        let rows = store.runs(Some(&experiment.name))?;
        let ends = store.ends(&experiment.name)?;
        let is_at_work = running::count(root, &experiment.name)? > 0;
        let Outlook { share, left } = Outlook::of(&rows, experiment.at, &ends, is_at_work, now);
        let since = |row: &RunRow| match row.state {
            RunState::Running { since, .. } => Some(since),
            _ => None,
        };
        let elapsed = match rows.iter().filter_map(since).min() {
            _ if is_at_work => Some(now - experiment.at),
            Some(since) => Some(now - since),
            None => ends.values().max().map(|end| end - experiment.at).filter(|took| *took > 0),
        };
        let settings = format::headings(&experiment.axes, &[]).into_iter().map(str::to_owned).collect();
        groups.push(Group {
            name: experiment.name.clone(),
            is_at_work,
            settings,
            share,
            elapsed: elapsed.map(|ms| ms as f64 / 1000.0),
            left,
            runs: rows.iter().map(|row| one(row, &experiment.axes, now)).collect(),
        });
        all.extend(rows);
    }
    // Where something is done stands first.
    groups.sort_by_key(|group| !group.is_at_work && group.left.is_none());
    let mut rows = Vec::new();
    for run in others {
        rows.extend(store.run(&run)?);
    }
    if !rows.is_empty() {
        let Outlook { share, left } = Outlook::of(&rows, now, &HashMap::new(), false, now);
        let runs = rows.iter().map(|row| one(row, &[], now)).collect();
        groups.push(Group { share, left, runs, ..Group::default() });
        all.extend(rows);
    }
    Ok((groups, all))
}

/// A run as it is shown.
fn one(row: &RunRow, axes: &[String], now: Millis) -> Run {
    let value = |path: &String| leaf::find(path).map_or(String::new(), |leaf| format::value(&leaf.get(&row.config)));
    Run {
        id: row.id,
        state: row.state.clone(),
        settings: axes.iter().map(value).collect(),
        step: row.step,
        steps: row.config.train.steps,
        train_loss: None,
        best: row.best.map(|(_, loss)| loss),
        speed: row.tokens_per_second,
        left: outlook::left(row, now),
        curve: None,
    }
}

/// Reads what is new of a run's loss.
fn read_on(store: &Store, row: &RunRow, curves: &mut HashMap<RunId, Seen>) -> Result<()> {
    let attempt = (row.attempts, row.ready.as_ref().map(|ready| ready.from_step));
    let new = || Seen { attempt, curve: Arc::default() };
    let seen = curves.entry(row.id).or_insert_with(new);
    if seen.attempt != attempt {
        *seen = new();
    }
    let after = seen.curve.last.map_or(0, |(step, _)| step);
    if after > 0 && after >= row.step {
        return Ok(());
    }
    let mut points = Vec::new();
    store.each_point_after(&row.id, "train/loss", after, &mut |point| points.push(point))?;
    if !points.is_empty() {
        let curve = Arc::make_mut(&mut seen.curve);
        points.iter().for_each(|point| curve.push(point.step, point.value));
    }
    Ok(())
}

/// What there is to say of a run: what is wrong before what it is and where.
fn detail(root: &Root, store: &Store, row: &RunRow, settings: &str) -> Result<Detail> {
    let attempts = store.attempts(&row.id)?;
    let mut lines = Vec::new();
    lines.extend(row.state.why().map(|why| format!("{}: {why}", row.state.word())));
    let last = attempts.last();
    lines.extend(last.and_then(|attempt| attempt.warnings.last()).map(|warning| format!("warning: {warning}")));
    if let Some(attempt) = last {
        let log = last_line(&root.run(&row.id).log(attempt.started.attempt));
        lines.extend(log.map(|line| format!("log: {line}")));
        let (started, tries) = (&attempt.started, attempts.len());
        let threads = format::plural(started.threads, "thread");
        let begun = clock::local(started.at);
        let tries = if tries > 1 { format!(", attempt {tries}") } else { String::new() };
        lines.push(format!("{settings}{} of {}, {threads}, begun {begun}{tries}", started.device, started.host));
    }
    let tags = (!row.tags.is_empty()).then(|| format!("tags: {}", row.tags.join(", ")));
    lines.extend(tags);
    if lines.is_empty() {
        lines.push("not begun yet".into());
    }
    let mut validation = Vec::new();
    store.each_point(&row.id, "val/loss", &mut |point| validation.push((point.step, point.value)))?;
    Ok(Detail { id: row.id, lines, validation })
}

/// The last line of a log that says anything.
fn last_line(path: &Path) -> Option<String> {
    const LOOKED_AT: u64 = 4096;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT))).ok()?;
    let mut end = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut end).ok()?;
    let text = String::from_utf8_lossy(&end);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}
