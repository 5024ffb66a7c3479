//! `exp plan SPEC`: what `exp run` would do, and what it costs. Starts nothing; brings only caches and the index up to date.

use serde_json::{Value, json};

use super::{
    current_store, json,
    run::{SpecArgs, notes},
    search,
};
use crate::{
    base::{Error, Exit, Result, RunId, folders::Root},
    sched::{Outlook, Plan, PlannedRun, Reason, is_to_do},
    spec::{
        RunConfig,
        identity::{self, FrozenRun},
        leaf,
    },
    store::Store,
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    spec: SpecArgs,

    /// Show the settings that make the id of this run another than that of the stored run that is nearest to it
    #[arg(long, value_name = "RUN")]
    explain: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let sweep = args.spec.load()?;
    let store = current_store(root)?;
    let plan = args.spec.plan(&sweep, root, store.as_ref())?;
    if let Some(prefix) = &args.explain {
        explain(root, &plan, store.as_ref(), prefix, args.json)?;
        return Ok(Exit::Done);
    }
    let outlook = Outlook::of(&plan, store.as_ref())?;
    if args.json {
        ui::print_json(&json::plan(&plan, &outlook));
    } else {
        ui::print(&table(&plan));
        ui::print(&totals(&plan, &outlook));
        ui::print(&search::told(&plan));
        notes(&plan);
    }
    Ok(Exit::Done)
}

fn table(plan: &Plan) -> String {
    let costs = ["params", "tokens", "FLOPs", "memory"];
    let mut columns = vec![words("run")];
    columns.extend(format::headings(&plan.axes, &costs).into_iter().map(numbers));
    columns.extend(costs.map(numbers));
    columns.push(words("reason"));
    let swept: Vec<_> = plan.axes.iter().filter_map(|axis| leaf::find(axis)).collect();
    let rows: Vec<Vec<String>> = plan
        .runs
        .iter()
        .map(|r| {
            let mut row = vec![r.frozen.id.short()];
            row.extend(swept.iter().map(|leaf| format::value(&leaf.get(&r.frozen.config))));
            row.push(format::count(r.cost.params as f64));
            row.push(format::count(r.cost.tokens as f64));
            row.push(format::count(r.cost.flops));
            row.push(format::bytes(r.cost.bytes));
            row.push(json::reason(&r.reason));
            row
        })
        .collect();
    table::render(&columns, &rows)
}

/// What varies, what is to do, and what all of that takes.
fn totals(plan: &Plan, outlook: &Outlook) -> String {
    let mut text = String::from("\n");
    for ((_, values), name) in plan.axis_values().iter().zip(format::headings(&plan.axes, &[])) {
        let shown = |values: &[Value]| values.iter().map(format::value).collect::<Vec<_>>().join(", ");
        let values = match values.len() {
            0..=12 => shown(values),
            n => format!("{}, … {} ({n} values)", shown(&values[..8]), shown(&values[n - 2..])),
        };
        text += &format!("{name}: {values}\n");
    }
    let todo = || plan.runs.iter().filter(|run| is_to_do(run));
    let sum = |f: fn(&PlannedRun) -> f64| todo().map(f).fold(0.0, |sum, x| sum + x);
    text += &format!(
        "{}: {} of {} runs to do, {} tokens, {} FLOPs",
        plan.experiment,
        todo().count(),
        plan.runs.len(),
        format::count(sum(|r| r.left() * r.cost.tokens as f64)),
        format::count(sum(|r| r.left() * r.cost.flops)),
    );
    for (n, what) in counts(plan) {
        text += &format!(", {n} {what}");
    }
    let most = plan.runs.iter().map(|run| run.cost.params).max().unwrap_or(0);
    text += &format!(
        "\nup to {} parameters and {} of memory a run, {} of checkpoints on disk",
        format::count(most as f64),
        format::bytes(outlook.memory),
        format::bytes(outlook.disk)
    );
    text += &match outlook.time {
        _ if todo().next().is_none() => String::new(),
        Some(time) if time.is_rough => {
            format!("\n~{} on this machine, by runs of other shapes", format::duration(time.seconds))
        }
        Some(time) => {
            format!("\nabout {} on this machine, by runs of the same shapes", format::duration(time.seconds))
        }
        None => "\nhow long it takes is told once something was trained on this machine".into(),
    };
    text + "\n"
}

/// How many runs are what, but for those that there are none of.
fn counts(plan: &Plan) -> Vec<(usize, &'static str)> {
    let count = |is_it: fn(&Reason) -> bool| plan.runs.iter().filter(|run| is_it(&run.reason)).count();
    let named = [
        (count(|r| matches!(r, Reason::New)), "new"),
        (count(|r| matches!(r, Reason::Done)), "cached"),
        (count(|r| matches!(r, Reason::Interrupted { .. })), "to continue"),
        (count(|r| matches!(r, Reason::Paused { goes_on: true, .. })), "paused, to continue"),
        (count(|r| matches!(r, Reason::Paused { goes_on: false, .. })), "paused"),
        (count(|r| matches!(r, Reason::FailedBefore { .. })), "failed before"),
        (count(|r| matches!(r, Reason::Elsewhere)), "trained by another process"),
        (count(|r| matches!(r, Reason::Skipped { .. })), "skipped before"),
        (plan.duplicates, "duplicate"),
        (plan.excluded, "excluded"),
        (plan.left_out(), "left out by --only"),
    ];
    named.into_iter().filter(|(n, _)| *n > 0).collect()
}

/// A run by what its id follows from.
struct Named {
    id: RunId,
    config: RunConfig,
    text: String,
}

impl Named {
    fn of(frozen: &FrozenRun) -> Self {
        Self { id: frozen.id, config: frozen.config.clone(), text: frozen.corpus_hash.clone() }
    }
}

/// Shows what tells a run of the plan, or a stored one, from the stored run that is nearest to it.
fn explain(root: &Root, plan: &Plan, store: Option<&Store>, prefix: &str, as_json: bool) -> Result<()> {
    let run = named(root, plan, store, prefix)?;
    let mut nearest: Option<(Vec<identity::Difference>, RunId)> = None;
    for row in store.map_or(Ok(Vec::new()), |store| store.runs(None))? {
        let text = row.ready.as_ref().map(|ready| ready.corpus_hash.clone());
        let text = text.or_else(|| Some(FrozenRun::read(&root.run(&row.id).config()).ok()?.corpus_hash));
        let differences = identity::differences((&run.config, &run.text), (&row.config, &text.unwrap_or_default()));
        if row.id != run.id && nearest.as_ref().is_none_or(|(least, _)| differences.len() < least.len()) {
            nearest = Some((differences, row.id));
        }
    }
    let Some((differences, other)) = nearest else {
        ui::note(&format!("there is no other run under this root to tell {} from", run.id.short()));
        return Ok(());
    };
    if as_json {
        let settings = differences.iter().map(|d| (d.leaf.clone(), json!([d.here, d.there])));
        let settings: serde_json::Map<String, Value> = settings.collect();
        ui::print_json(&json!({"runs": [run.id, other], "settings": settings}));
        return Ok(());
    }
    let columns = [words("setting"), words(run.id.short()), words(other.short())];
    let shown = |leaf: &str, value: &Value| match leaf {
        identity::TEXT => format::short(value.as_str().unwrap_or_default(), 12),
        _ => format::value(value),
    };
    let rows = differences.iter().map(|d| vec![d.leaf.clone(), shown(&d.leaf, &d.here), shown(&d.leaf, &d.there)]);
    ui::print(&table::render(&columns, &rows.collect::<Vec<_>>()));
    Ok(())
}

/// The run of the plan, or else of the index, whose id starts with `prefix`.
fn named(root: &Root, plan: &Plan, store: Option<&Store>, prefix: &str) -> Result<Named> {
    let lower = prefix.to_ascii_lowercase();
    let mut found = plan.runs.iter().filter(|run| run.frozen.id.to_string().starts_with(&lower));
    let doing = || format!("looking for the run {prefix:?}");
    match (found.next(), found.next()) {
        (Some(run), None) => Ok(Named::of(&run.frozen)),
        (Some(_), Some(_)) => {
            let why = "several runs of the plan have ids that start so";
            Err(Error::new(Exit::Usage, doing(), why).hint("give more digits"))
        }
        (None, _) => match store {
            Some(store) => Ok(Named::of(&FrozenRun::read(&root.run(&store.find(prefix)?.id).config())?)),
            None => Err(Error::new(Exit::Usage, doing(), "no run of the plan has an id that starts so")
                .hint("`exp plan` without --explain lists them")),
        },
    }
}
