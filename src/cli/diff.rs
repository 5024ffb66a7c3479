//! `exp diff A B`: in what two runs differ.

use serde_json::{Map, Value, json};

use super::needed_store;
use crate::{
    base::{Exit, Result, folders::Root, num, provenance::Provenance},
    store::{AttemptRow, RunRow, Store},
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run: any unique prefix of its id
    a: String,

    /// Another
    b: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing in which two runs may differ: its name, and what it is in each.
type Line = (String, [Value; 2]);

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let store = needed_store(root)?;
    let runs = [store.find(&args.a)?, store.find(&args.b)?];
    let mut parts = [
        ("settings", settings(&runs)),
        ("metrics", metrics(&store, &runs)?),
        ("provenance", provenance(&store, &runs)?),
    ];
    for (_, lines) in &mut parts {
        lines.retain(|(_, [a, b])| a != b);
    }
    if args.json {
        let object =
            |lines: &[Line]| lines.iter().map(|(name, pair)| (name.clone(), json!(pair))).collect::<Map<_, _>>();
        let mut all: Map<String, Value> =
            parts.iter().map(|(name, lines)| ((*name).to_owned(), object(lines).into())).collect();
        all.insert("runs".into(), json!(runs.each_ref().map(|run| run.id)));
        ui::print_json(&all.into());
        return Ok(Exit::Done);
    }
    let [a, b] = runs.each_ref().map(|run| run.id.short().to_string());
    let shown: Vec<String> =
        parts.iter().filter(|(_, lines)| !lines.is_empty()).map(|(name, lines)| part(name, lines, &a, &b)).collect();
    match shown.is_empty() {
        true => ui::note("they do not differ in anything"),
        false => ui::print(&shown.join("\n")),
    }
    Ok(Exit::Done)
}

fn part(name: &str, lines: &[Line], a: &str, b: &str) -> String {
    let is_metrics = name == "metrics";
    let cell = |value: &Value| match value {
        Value::Null => "–".into(),
        Value::Number(x) if is_metrics => match x.as_u64() {
            Some(whole) => format::grouped(whole),
            None => x.as_f64().map_or(String::new(), format::significant),
        },
        value => format::short(&format::value(value), 60),
    };
    let change = |[a, b]: &[Value; 2]| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) if a != 0.0 && (b / a).abs() >= 100.0 => format!("× {:.3e}", b / a),
        (Some(a), Some(b)) if a != 0.0 => format!("{:+.2} %", 100.0 * (b - a) / a),
        _ => "–".into(),
    };
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|(name, pair)| {
            let mut row = vec![name.clone(), cell(&pair[0]), cell(&pair[1])];
            row.extend(is_metrics.then(|| change(pair)));
            row
        })
        .collect();
    let mut columns = vec![words(name)];
    match is_metrics {
        true => columns.extend([numbers(a), numbers(b), numbers("change")]),
        false => columns.extend([words(a), words(b)]),
    }
    table::render(&columns, &rows)
}

fn settings([a, b]: &[RunRow; 2]) -> Vec<Line> {
    let (a, b) = (a.config.leaves(), b.config.leaves());
    a.into_iter().map(|(path, value)| (path.clone(), [value, b.get(&path).cloned().unwrap_or_default()])).collect()
}

/// What came of them: the last value of each metric, and what a list of runs shows.
fn metrics(store: &Store, runs: &[RunRow; 2]) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |name: &str, value: &dyn Fn(&RunRow) -> Value| lines.push((name.into(), runs.each_ref().map(value)));
    let number = |x: Option<f64>| x.map_or(Value::Null, num::json);
    add("step", &|run| run.step.into());
    add("params", &|run| run.ready.as_ref().map_or(Value::Null, |ready| ready.params.into()));
    add("best_val_loss", &|run| number(run.best.map(|best| best.1)));
    add("best_step", &|run| run.best.map_or(Value::Null, |best| best.0.into()));
    add("tokens_per_second", &|run| number(run.tokens_per_second));
    let curves = [store.metrics(&runs[0].id)?, store.metrics(&runs[1].id)?];
    let names: std::collections::BTreeSet<_> = curves.iter().flat_map(|curves| curves.keys()).collect();
    for name in names {
        let last = curves
            .each_ref()
            .map(|curves| number(curves.get(name).and_then(|points| points.last()).map(|point| point.1)));
        lines.push((format!("{name} (last)"), last));
    }
    Ok(lines)
}

/// By what, where and on what the latest attempts were made.
fn provenance(store: &Store, runs: &[RunRow; 2]) -> Result<Vec<Line>> {
    let last = [store.attempts(&runs[0].id)?.pop(), store.attempts(&runs[1].id)?.pop()];
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |name: &str, value: &dyn Fn(&AttemptRow) -> Value| {
        lines.push((name.into(), last.each_ref().map(|last| last.as_ref().map_or(Value::Null, value))));
    };
    add("version", &|a| a.started.version.clone().into());
    add("host", &|a| a.started.host.clone().into());
    add("device", &|a| a.started.device.clone().into());
    add("threads", &|a| a.started.threads.into());
    let from = |name: fn(&Provenance) -> Value| {
        move |a: &AttemptRow| a.started.provenance.as_deref().map_or(Value::Null, name)
    };
    add("program", &from(|p| p.program.clone().into()));
    add("git", &from(|p| json!(p.git)));
    add("folder", &from(|p| p.folder.clone().into()));
    add("command", &from(|p| p.command.join(" ").into()));
    add("environment", &from(|p| json!(p.environment)));
    let ready =
        |name: fn(&crate::event::Ready) -> Value| move |a: &AttemptRow| a.ready.as_ref().map_or(Value::Null, name);
    add("engine", &ready(|r| r.engine.clone().into()));
    add("simd", &ready(|r| r.simd.clone().into()));
    add("processor", &ready(|r| r.processor.clone().into()));
    add("corpus hash", &ready(|r| r.corpus_hash.clone().into()));
    lines.push(("attempts".into(), runs.each_ref().map(|run| run.attempts.into())));
    lines.push(("state".into(), runs.each_ref().map(|run| run.state.word().into())));
    Ok(lines)
}
