//! `exp show RUN`: everything that is known of one run.

use super::{json, needed_store};
use crate::{
    base::{Exit, Result, clock, folders::Root},
    event::{IMPORT, RunState, Started},
    spec::identity::{FrozenRun, Imported},
    store::{AttemptRow, RunRow, Store, Summary},
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// Print JSON, with every metric at every step
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let store = needed_store(root)?;
    let row = store.find(&args.run)?;
    let imported = match row.ready.as_ref().is_some_and(|ready| ready.engine == IMPORT) {
        true => FrozenRun::read(&root.run(&row.id).config())?.imported,
        false => None,
    };
    if args.json {
        ui::print_json(&json::show(&store, &row, imported.as_ref())?);
    } else {
        ui::print(&head(root, &row, imported.as_ref()));
        ui::print(&settings(&row, imported.is_some()));
        ui::print(&attempts(&store, &row)?);
        ui::print(&provenance(&store, &row)?);
        ui::print(&metrics(&store, &row)?);
        ui::print(&artifacts(&store, &row)?);
    }
    Ok(Exit::Done)
}

fn head(root: &Root, row: &RunRow, imported: Option<&Imported>) -> String {
    let state = match &row.state {
        RunState::Running { slot, since } => format!("running on {slot} since {}", clock::local(*since)),
        RunState::Interrupted { step } => {
            format!("interrupted at step {step}; `exp resume {}` continues", row.id.short())
        }
        RunState::Paused { step, why } => {
            format!("paused at step {step}: {why}; `exp resume {}` continues", row.id.short())
        }
        RunState::Failed { why } | RunState::Skipped { why } => format!("{}: {why}", row.state.word()),
        other => other.word().to_owned(),
    };
    let best = row.best.map_or("none yet".into(), |(step, loss)| format!("{loss:.4} at step {step}"));
    [
        ("run", row.id.to_string()),
        ("experiments", row.experiments.join(", ")),
        ("tags", if row.tags.is_empty() { "–".into() } else { row.tags.join(", ") }),
        ("state", state),
        ("steps", format!("{} of {}", row.step, row.config.train.steps)),
        ("best val loss", best),
        ("created", clock::local(row.created)),
        ("folder", super::run::shown(root.run(&row.id).path())),
    ]
    .into_iter()
    .chain(imported.map(|from| ("imported", format!("{} from {}", from.format, from.source))))
    .map(|(name, value)| format!("{name:<14}{value}\n"))
    .collect()
}

/// Of an import, what is known of it: the model.
fn settings(row: &RunRow, is_import: bool) -> String {
    let leaves = row.config.leaves();
    let known = leaves.iter().filter(|(leaf, _)| !is_import || leaf.starts_with("model."));
    let rows: Vec<Vec<String>> = known.map(|(k, v)| vec![k.clone(), format::value(v)]).collect();
    format!("\n{}", table::render(&[words("setting"), words("value")], &rows))
}

fn attempts(store: &Store, row: &RunRow) -> Result<String> {
    let mut rows = Vec::new();
    let mut warnings = String::new();
    for a in store.attempts(&row.id)? {
        rows.push(vec![
            a.started.attempt.to_string(),
            clock::local(a.started.at),
            a.started.host.clone(),
            a.started.device.clone(),
            a.started.threads.to_string(),
            a.ready.as_ref().map_or("–".into(), |r| r.engine.clone()),
            a.ready.as_ref().map_or("–".into(), |r| r.from_step.to_string()),
            a.outcome.lines().next().unwrap_or_default().to_owned(),
        ]);
        warnings.extend(a.warnings.iter().map(|w| format!("warning in attempt {}: {w}\n", a.started.attempt)));
    }
    let columns = [
        numbers("attempt"),
        words("started"),
        words("host"),
        words("device"),
        numbers("threads"),
        words("engine"),
        numbers("from step"),
        words("ended"),
    ];
    Ok(format!("\n{}{warnings}", table::render(&columns, &rows)))
}

/// By what and from where the latest attempt was made; nothing where that is not known.
fn provenance(store: &Store, row: &RunRow) -> Result<String> {
    let Some(AttemptRow { started, ready, ended, .. }) = store.attempts(&row.id)?.pop() else {
        return Ok(String::new());
    };
    let Started { at, version, provenance: Some(from), .. } = started else { return Ok(String::new()) };
    let digits = |hash: &str| hash.chars().take(12).collect::<String>();
    let git = from.git.as_ref().map_or(String::new(), |git| {
        format!(", git {}{}", digits(&git.commit), if git.dirty { " with changes" } else { "" })
    });
    let variables: Vec<String> = from.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let corpus = ready.map_or(String::new(), |ready| digits(&ready.corpus_hash));
    let lines = [
        ("started", clock::local(at)),
        ("ended", ended.map_or(String::new(), clock::local)),
        ("corpus", if corpus.is_empty() { corpus } else { format!("blake3 {corpus}") }),
        ("command", from.command.join(" ")),
        ("given in", format!("{}{git}", from.folder)),
        ("program", format!("exp {version}, blake3 {}", digits(&from.program))),
        ("environment", variables.join(" ")),
    ];
    let shown = lines.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(format!("\n{}", shown.map(|(name, value)| format!("{name:<14}{value}\n")).collect::<String>()))
}

fn metrics(store: &Store, run: &RunRow) -> Result<String> {
    let row = |(name, metric): (String, Summary)| {
        let (low, high) = metric.range.unwrap_or((f64::NAN, f64::NAN));
        let shown = [metric.last, low, high].map(format::significant);
        [vec![name, metric.count.to_string(), metric.step.to_string()], shown.to_vec()].concat()
    };
    let rows: Vec<Vec<String>> = store.summaries(&run.id)?.into_iter().map(row).collect();
    let columns = [words("metric")].into_iter();
    let columns: Vec<_> = columns.chain(["values", "last step", "last", "lowest", "highest"].map(numbers)).collect();
    Ok(format!("\n{}", table::render(&columns, &rows)))
}

fn artifacts(store: &Store, row: &RunRow) -> Result<String> {
    let rows: Vec<Vec<String>> = store
        .artifacts(&row.id)?
        .into_iter()
        .map(|a| vec![a.kind, a.step.map_or("–".into(), |s| s.to_string()), format::bytes(a.bytes), a.path])
        .collect();
    let columns = [words("artifact"), numbers("step"), numbers("size"), words("path")];
    Ok(format!("\n{}", table::render(&columns, &rows)))
}
