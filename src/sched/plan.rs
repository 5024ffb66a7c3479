//! From the points of a spec to a plan: every point is checked against the devices and the corpora at hand before the
//! first run starts, named, and given its reason: why it is to be run, or why not.

use std::collections::HashSet;

use serde_json::Value;

use super::{budget, curves, planner::Planner};
use crate::{
    base::{Error, Exit, Result, RunId, folders::Root},
    cost::Cost,
    data::{self, CorpusInfo},
    event::{CANCELLED, RunState},
    exec::device,
    spec::{Sweep, expr::Expr, identity::FrozenRun, leaf, search::Search},
    store::{RunRow, Store},
};

/// Why a run is to be done, or is not.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It was never begun.
    New,
    /// It failed, and is tried again.
    FailedBefore {
        /// Why it failed.
        why: String,
    },
    /// It was stopped or died, and continues from its last checkpoint.
    Interrupted {
        /// Updates done.
        step: u64,
    },
    /// It fell behind the others of a sweep, and pauses. It goes on where the spec has no `search` any more.
    Paused {
        /// Updates done.
        step: u64,
        /// How it stood.
        why: String,
        /// Whether it goes on by what is known of the others now.
        goes_on: bool,
    },
    /// It is done; nothing is to do.
    Done,
    /// Another process trains it; it is waited for.
    Elsewhere,
    /// It is left out on purpose, unless asked for by force.
    Skipped {
        /// Why.
        why: String,
    },
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Its resolved config and its name.
    pub frozen: FrozenRun,
    /// Why it is to be done, or is not.
    pub reason: Reason,
    /// What all of it costs.
    pub cost: Cost,
    /// What it is trained on.
    pub corpus: CorpusInfo,
    /// Bytes that its checkpoints may take, where that is limited.
    pub checkpoint_bytes: Option<u64>,
}

impl PlannedRun {
    /// The share of its steps that is still to be done, were it gone on with.
    pub fn left(&self) -> f64 {
        match self.reason {
            Reason::Done => 0.0,
            Reason::Interrupted { step } | Reason::Paused { step, .. } => {
                1.0 - (step as f64 / self.frozen.config.train.steps.max(1) as f64).min(1.0)
            }
            _ => 1.0,
        }
    }
}

/// What a spec comes to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The paths of the swept leaves, in the spec's order.
    pub axes: Vec<String>,
    /// The spec's text.
    pub spec: String,
    /// All runs that the spec comes to, in the grid's order: the members of the experiment.
    pub members: Vec<RunId>,
    /// Those that are planned, in the same order: all, unless somebody asked for some.
    pub runs: Vec<PlannedRun>,
    /// Points that resolve to the run of an earlier one.
    pub duplicates: usize,
    /// Points that the spec's `exclude` takes out.
    pub excluded: usize,
    /// How runs are stopped that fall behind, where they are.
    pub search: Option<Search>,
}

impl Plan {
    /// The swept leaves, each with the values that the planned runs have, in their order.
    pub fn axis_values(&self) -> Vec<(&str, Vec<Value>)> {
        let of = |axis: &'_ str| {
            let mut seen = HashSet::new();
            let values = self.runs.iter().filter_map(|run| Some(leaf::find(axis)?.get(&run.frozen.config)));
            values.filter(|value| seen.insert(value.to_string())).collect()
        };
        self.axes.iter().map(|axis| (axis.as_str(), of(axis))).collect()
    }

    /// Members that are not planned, since nobody asked for them.
    pub fn left_out(&self) -> usize {
        self.members.len() - self.runs.len()
    }
}

/// Plans `sweep` under `root`. Corpora are tokenized into the root's cache; nothing else is written. What `store` knows
/// of the runs is taken as it is: bring it up to date first.
///
/// # Errors
///
/// [`Exit::Spec`], with the place in the spec, for the first point that cannot be run here: its device is not at hand or
/// does not suit its settings, its corpus is missing or too short, the run that it starts from is unknown, unfinished or
/// of another shape.
pub fn plan(sweep: &Sweep, root: &Root, store: Option<&Store>) -> Result<Plan> {
    plan_only(sweep, root, store, None)
}

/// As [`plan`], of those points alone for which `only` holds, with names of [`Leaves`](crate::spec::expr::Leaves). The others are named, and checked no
/// further: a device that is not here is none of theirs.
///
/// # Errors
/// As [`plan`], and [`Exit::Usage`] where it holds for none.
pub fn plan_only(sweep: &Sweep, root: &Root, store: Option<&Store>, only: Option<&Expr>) -> Result<Plan> {
    let mut planner = Planner::new(sweep, root, store, only)?;
    let (mut named, mut planned) = (HashSet::new(), HashSet::new());
    let (mut members, mut runs) = (Vec::new(), Vec::new());
    for (point, config) in sweep.points.iter().enumerate() {
        let (id, run) = planner.point(point, config.clone())?;
        if named.insert(id) {
            members.push(id);
        }
        runs.extend(run.filter(|_| planned.insert(id)));
    }
    if runs.is_empty() {
        let why = format!("`--only` holds for none of {} points", sweep.points.len());
        return Err(Error::new(Exit::Usage, format!("planning {}", sweep.experiment), why)
            .hint("`exp plan` without it lists the points and their settings"));
    }
    budget::share_out(sweep, &mut runs, members.len())?;
    if let (Some(search), Some(store)) = (&sweep.search, store) {
        curves::keep_paused(&mut runs, store, search)?;
    }
    Ok(Plan {
        experiment: sweep.experiment.clone(),
        axes: sweep.axes.clone(),
        spec: sweep.text.clone(),
        duplicates: sweep.points.len() - members.len(),
        excluded: sweep.excluded,
        search: sweep.search.clone(),
        members,
        runs,
    })
}

/// A stored run, planned as it was frozen: what `exp resume` continues, whatever became of its spec.
///
/// # Errors
///
/// [`Exit::Spec`] where its device is not at hand, or its corpus is no longer the text that it was begun with.
pub fn planned(root: &Root, store: &Store, row: &RunRow) -> Result<PlannedRun> {
    let frozen = FrozenRun::read(&root.run(&row.id).config())?;
    device::resolve(&frozen.config.run.device)?;
    let corpus = data::prepare(&frozen.config.data, &root.cache())?;
    if corpus.hash != frozen.corpus_hash {
        let doing = format!("resuming the run {}", row.id.short());
        return Err(Error::new(
            Exit::Spec,
            doing,
            format!("{} is no longer the text that it was begun with", corpus.name),
        )
        .hint("put the old text back; `exp run` of its spec begins a new run on the new one"));
    }
    let cost = Cost::of(&frozen.config, corpus.vocab_size);
    let reason = reason(store.run(&row.id)?.map(|row| row.state));
    let checkpoint_bytes = budget::part_of(root, store, row, &frozen)?;
    Ok(PlannedRun { reason, cost, corpus, checkpoint_bytes, frozen })
}

/// What became of a run before, by where it stands.
pub(super) fn reason(state: Option<RunState>) -> Reason {
    match state {
        None | Some(RunState::Queued) => Reason::New,
        // Who plans it again wants it after all.
        Some(RunState::Skipped { why }) if why == CANCELLED => Reason::New,
        Some(RunState::Skipped { why }) => Reason::Skipped { why },
        Some(RunState::Failed { why }) => Reason::FailedBefore { why },
        Some(RunState::Interrupted { step }) => Reason::Interrupted { step },
        Some(RunState::Paused { step, why }) => Reason::Paused { step, why, goes_on: true },
        Some(RunState::Running { .. }) => Reason::Elsewhere,
        Some(RunState::Done) => Reason::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock,
        event::{Checkpointed, Event, Expansion, FileRef, Outcome, Started},
        spec::{self, expr::Leaves},
    };

    const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus_chars: 20000}
";

    struct Lab {
        folder: tempfile::TempDir,
        root: Root,
    }

    impl Lab {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            Self { folder, root }
        }

        fn sweep(&self, more: &str) -> Result<Sweep> {
            let path = self.folder.path().join("spec.yaml");
            std::fs::write(&path, format!("{SPEC}{more}")).unwrap();
            spec::load(&path, &[])
        }

        fn plan(&self, more: &str) -> Result<Plan> {
            let store = Store::open_existing(&self.root)?;
            plan(&self.sweep(more)?, &self.root, store.as_ref())
        }

        /// The error of a spec, with its line and caret.
        fn refusal(&self, more: &str) -> String {
            let error = self.plan(more).unwrap_err();
            assert_eq!(error.exit, Exit::Spec, "{error}");
            format!("{error}\nhint: {}", error.hint.as_deref().unwrap_or_default())
        }

        /// Registers a run, and writes the events of an attempt at it.
        fn attempt(&self, run: &PlannedRun, events: &[Event]) {
            let mut store = Store::open(&self.root).unwrap();
            let id = run.frozen.id;
            let expansion = Expansion { at: clock::now(), axes: vec![], members: vec![id], spec: String::new() };
            store.register("lab", &expansion, std::slice::from_ref(&run.frozen)).unwrap();
            let path = self.root.run(&id).events(1);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
            std::fs::write(&path, lines.concat()).unwrap();
            store.ingest(&id).unwrap();
        }
    }

    fn started() -> Event {
        Event::Started(Started { attempt: 1, ..Started::default() })
    }

    fn finished(outcome: Outcome) -> Event {
        Event::Finished { at: 2, outcome, peak_bytes: None }
    }

    #[test]
    fn a_plan_names_each_run_once() {
        let lab = Lab::new();
        let plan = lab.plan("grid: {lr: [1e-3, 1e-4], device: [auto, cpu]}").unwrap();
        let lr: Vec<f64> = plan.runs.iter().map(|run| run.frozen.config.train.lr).collect();
        assert_eq!((lr, plan.duplicates), (vec![1e-3, 1e-4], 2), "auto is the CPU here");
        let run = &plan.runs[0];
        assert_eq!((run.frozen.config.run.device.as_str(), &run.reason), ("cpu", &Reason::New));
        assert_eq!((&run.frozen.corpus_hash, run.frozen.vocab_size), (&run.corpus.hash, run.corpus.vocab_size));
        assert!(run.cost.flops > 0.0);
    }

    #[test]
    fn flops_stand_for_the_steps_that_reach_them() {
        let lab = Lab::new();
        let budget = 1e9;
        let plan = lab.plan("grid: {layers: [1, 3]}\nflops: 1e9\nderive: {warmup_steps: floor(steps / 3)}").unwrap();
        for run in &plan.runs {
            let config = &run.frozen.config;
            let per_step = run.cost.flops_per_token * config.tokens_per_step() as f64;
            assert!(run.cost.flops >= budget && run.cost.flops - per_step < budget, "{:?}", run.cost);
            assert_eq!(config.train.warmup_steps, config.train.steps / 3, "what follows from the steps is of these");
            let train = &config.train;
            let written = format!(
                "grid: {{layers: [{}]}}\nsteps: {}\nwarmup_steps: {}",
                config.model.layers, train.steps, train.warmup_steps
            );
            assert_eq!(lab.plan(&written).unwrap().runs[0].frozen.id, run.frozen.id, "the same run by either");
        }
        let steps: Vec<u64> = plan.runs.iter().map(|run| run.frozen.config.train.steps).collect();
        assert!(steps[0] > 2 * steps[1], "{steps:?}");
        let axis = lab.plan("grid: {flops: [1e9, 2e9]}").unwrap();
        assert_eq!((axis.runs.len(), axis.axes.join(" ")), (2, "train.steps".into()));
        let only = Expr::condition(&format!("steps == {}", steps[0]), &Leaves).unwrap();
        let sweep = lab.sweep("grid: {layers: [1, 3]}\nflops: 1e9").unwrap();
        assert_eq!(plan_only(&sweep, &lab.root, None, Some(&only)).unwrap().left_out(), 1, "--only knows the steps");
        let error = lab.refusal("grid: {flops: [1e9, 1e300]}");
        assert!(
            error.contains("updates, and 1e12 are the most") && error.contains("grid: {flops: [1e9, 1e300]}"),
            "{error}"
        );
        lab.plan("flops: 1e9\nderive: {beta1: steps / 400}").expect("the default, 500 steps, is nowhere looked at");
        let unfit = lab.refusal("flops: 1e9\nderive: {beta1: steps}");
        assert!(unfit.contains("derive: {beta1: steps}") && unfit.contains("a number in [0, 1)"), "{unfit}");
    }

    #[test]
    fn what_cannot_run_here_is_refused_where_the_spec_says_it() {
        let lab = Lab::new();
        for (spec, words) in [
            ("grid: {context: [16, 4096]}", ["context: [16, 4096]", "a context of 4096 needs at least 4097"]),
            ("run: {device: cudda}", ["device: cudda", "did you mean `cuda`?"]),
            ("train: {dtype: bf16}", ["dtype: bf16", "needs a GPU"]),
            ("grid: {d_model: [16, 100000]}", ["d_model: [16, 100000]", "GB of memory"]),
            ("run: {init_from: abc123}", ["init_from: abc123", "no run"]),
        ] {
            let error = lab.refusal(spec);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        std::fs::write(lab.folder.path().join("empty.txt"), "").unwrap();
        for path in ["missing.txt", "empty.txt"] {
            let path = lab.folder.path().join(path);
            let spec = format!("zip: [{{corpus: [text], path: [{}]}}]", path.display());
            let error = lab.refusal(&spec);
            assert!(error.contains("path: ["), "{error}");
        }
    }

    #[test]
    fn the_reason_is_what_became_of_the_run_before() {
        let lab = Lab::new();
        let run = lab.plan("").unwrap().runs.remove(0);
        let reason = |events: &[Event]| {
            lab.attempt(&run, events);
            lab.plan("").unwrap().runs.remove(0).reason
        };
        assert_eq!(reason(&[started()]), Reason::Interrupted { step: 0 });
        let lab = Lab::new();
        lab.attempt(&run, &[started(), finished(Outcome::Failed { why: "NaN".into(), retry: false })]);
        assert_eq!(lab.plan("").unwrap().runs[0].reason, Reason::FailedBefore { why: "NaN".into() });
        let lab = Lab::new();
        lab.attempt(&run, &[started(), finished(Outcome::Done)]);
        assert_eq!(lab.plan("").unwrap().runs[0].reason, Reason::Done);
    }

    #[test]
    fn a_text_too_short_for_any_context_asks_for_more_text() {
        let lab = Lab::new();
        let path = lab.folder.path().join("short.txt");
        for (text, hint) in
            [("abcdefghij", "hint: use more text"), (&"ab".repeat(20), "hint: use a context of at most 3, or")]
        {
            std::fs::write(&path, text).unwrap();
            let error = lab.refusal(&format!("grid: {{corpus: [text], path: [{}]}}", path.display()));
            assert!(error.contains("needs at least 17") && error.contains(hint), "{error}");
        }
    }

    #[test]
    fn a_run_that_another_starts_from_is_named_whole_and_must_be_done_with_a_checkpoint_that_fits() {
        let lab = Lab::new();
        let run = lab.plan("").unwrap().runs.remove(0);
        let from = format!("run: {{init_from: {}}}", &run.frozen.id.to_string()[..8]);
        lab.attempt(&run, &[started(), finished(Outcome::Done)]);
        assert!(lab.refusal(&from).contains("has no checkpoint"));
        let file = FileRef { name: "model.safetensors".into(), bytes: 1, blake3: String::new() };
        let folder = "checkpoints/step-5.attempt-1".to_owned();
        let saved = Checkpointed { step: 5, folder, files: vec![file], ..Checkpointed::default() };
        let lab = Lab::new();
        let place = lab.root.run(&run.frozen.id).path().join(&saved.folder);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("model.safetensors"), "w").unwrap();
        let events = [started(), Event::Checkpointed(saved), finished(Outcome::Done)];
        lab.attempt(&run, &events[..2]);
        let unfinished = lab.refusal(&from);
        assert!(unfinished.contains("init_from: ") && unfinished.contains("is interrupted, and only"), "{unfinished}");
        lab.attempt(&run, &events);
        for (leaves, misfit) in [
            ("d_ff: 32", "model.d_ff 64, and this run 32"),
            ("tokenizer: byte", "and this run 256"),
            ("context: 32", "model.context 16, and this run 32"),
            ("norm_eps: 1e-6", "model.norm_eps 0.00001, and this run 1e-6"),
        ] {
            let (leaf, value) = leaves.split_once(": ").unwrap();
            let error = lab.refusal(&format!("{from}\ngrid: {{{leaf}: [{value}]}}"));
            assert!(error.contains(misfit) && error.contains("init_from: "), "{error}");
        }
        for fits in ["dropout: [0.5]", "context: [8]", "rope_theta: [5e5]"] {
            lab.plan(&format!("{from}\ngrid: {{{fits}}}")).unwrap();
        }
        // What of the model is left out is as it is in that run.
        let bare = "data: {corpus_chars: 20000}";
        let plain = |more: &str| {
            let path = lab.folder.path().join("plain.yaml");
            std::fs::write(&path, format!("{bare}\n{from}\n{more}")).unwrap();
            let store = Store::open_existing(&lab.root).unwrap();
            Ok::<_, Error>(plan(&spec::load(&path, &[])?, &lab.root, store.as_ref())?.runs.remove(0).frozen)
        };
        let child = &lab.plan(&from).unwrap().runs[0].frozen;
        assert_eq!((&plain("").unwrap(), plain("context: 8").unwrap().config.model.context), (child, 8));
        assert!(plain("preset: gpt2").unwrap_err().to_string().contains("do not fit"), "a preset is not left out");
        assert_eq!(child.config.run.init_from, Some(run.frozen.id.to_string()));
        assert_ne!(child.id, run.frozen.id);
    }
}
