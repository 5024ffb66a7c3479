//! What a spec says of stopping what loses: `search: {prune: asha, metric: val_loss, min_steps: 100, reduction: 3}`.
//!
//! It decides which runs are trained to their end, and never what a run computes: so it is no leaf and no part of an id.
//! What it comes to is decided by the scheduler.

use serde_json::{Value, json};

use super::{
    RunConfig,
    kind::{EXACT, Kind, list},
    names::nearest,
    source::{Fault, Place, Result},
    tree::{Content, Key, Node},
};

/// By which rule runs are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Asynchronous successive halving: the best `1 / reduction` of those that reach a rung go on.
    Asha,
    /// A run goes on unless its best is worse than the median of what the others had on average by then.
    Median,
}

impl Prune {
    /// The word in a spec.
    pub fn word(self) -> &'static str {
        match self {
            Self::Asha => "asha",
            Self::Median => "median",
        }
    }
}

/// How runs of a sweep are stopped that fall behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The rule.
    pub prune: Prune,
    /// The metric that runs are compared by, as it is stored: `val/loss`. The lower the better.
    pub metric: &'static str,
    /// No run is stopped before it has done so many updates.
    pub min_steps: u64,
    /// One in so many goes on at a rung of [`Prune::Asha`]; each rung is so many times further than the one before.
    pub reduction: u64,
}

impl Search {
    /// The updates after which a run is judged first: those of its first evaluation from `min_steps` on, where it has one
    /// before its end.
    pub fn first_judged(&self, run: &RunConfig) -> Option<u64> {
        let every = if self.metric == EACH_STEP { 1 } else { run.eval.every.max(1) };
        let first = self.min_steps.div_ceil(every).checked_mul(every)?;
        (first < run.train.steps).then_some(first)
    }

    /// The steps of the rungs that a run of `steps` updates has before its end, in ascending order.
    pub fn rungs(&self, steps: u64) -> Vec<u64> {
        let next = |rung: &u64| rung.checked_mul(self.reduction);
        std::iter::successors(Some(self.min_steps), next).take_while(|rung| *rung < steps).collect()
    }
}

/// `third`: one in so many, as it stands in a sentence.
pub fn part(reduction: u64) -> String {
    match reduction {
        2 => "half".into(),
        3 => "third".into(),
        4 => "quarter".into(),
        n => format!("1/{n}"),
    }
}

/// What one text says under `search`: a rule, or `null`, which takes that of its base away.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub search: Option<Search>,
    /// Where `min_steps` stands.
    place: Place,
}

const PRUNE: Kind = Kind::Words(&["asha", "median"]);
const MIN_STEPS: Kind = Kind::Integer { min: 1, max: EXACT };
const REDUCTION: Kind = Kind::Integer { min: 2, max: 1000 };
const METRIC: Kind = Kind::Words(&WORDS);

/// The words that `metric` takes: names of metrics, and the short one of the first.
const WORDS: [&str; 5] = ["val_loss", "val/loss", "val/bits_per_char", "eval/train_loss", "train/loss"];

/// The one of them that is logged after every update.
const EACH_STEP: &str = "train/loss";

const KEYS: [&str; 4] = ["prune", "metric", "min_steps", "reduction"];
const EXAMPLE: &str = "`search: {prune: asha, min_steps: 100}`";

/// Reads what stands under `search`.
pub(super) fn read(key: &Key, node: &Node) -> Result<Wish> {
    if node.is_null() && !node.is_empty() {
        return Ok(Wish { search: None, place: node.place.clone() });
    }
    let Content::Map(entries) = &node.content else {
        let why = format!("`search` is a map that says how to stop what loses, not {}", node.describe());
        return Err(Fault::at(if node.is_empty() { &key.place } else { &node.place }, why).hint(EXAMPLE));
    };
    if let Some((unknown, _)) = entries.iter().find(|(key, _)| !KEYS.contains(&key.text.as_str())) {
        let near = nearest(&unknown.text, KEYS).map(|near| format!("did you mean `{near}`?"));
        let hint = near.unwrap_or_else(|| format!("`search` has {}", list(&KEYS)));
        return Err(Fault::at(&unknown.place, format!("unknown key `{}` in `search`", unknown.text)).hint(hint));
    }
    let find = |name: &str| entries.iter().find(|(key, node)| key.text == name && !node.is_null());
    let needed = |name: &str, what: &str| {
        find(name).ok_or_else(|| Fault::at(&key.place, format!("`search` lacks `{name}`, {what}")).hint(EXAMPLE))
    };
    let (_, rule) = needed("prune", "the rule")?;
    let prune = match word("prune", PRUNE, rule)?.as_str() {
        Some("median") => Prune::Median,
        _ => Prune::Asha,
    };
    let (_, least) = needed("min_steps", "the updates that every run may do")?;
    let min_steps = word("min_steps", MIN_STEPS, least)?.as_u64().unwrap_or(1);
    let metric = match find("metric") {
        Some((_, node)) => {
            let said = word("metric", METRIC, node)?;
            WORDS[1..].iter().find(|name| said == **name).copied().unwrap_or(WORDS[1])
        }
        None => WORDS[1],
    };
    let reduction = match find("reduction") {
        Some((key, _)) if prune == Prune::Median => {
            return Err(Fault::at(&key.place, "`reduction` is of `prune: asha`: the median rule has no rungs")
                .hint("leave it out, or write `prune: asha`"));
        }
        Some((_, node)) => word("reduction", REDUCTION, node)?.as_u64().unwrap_or(3),
        None => 3,
    };
    Ok(Wish { search: Some(Search { prune, metric, min_steps, reduction }), place: least.place.clone() })
}

fn word(name: &str, kind: Kind, node: &Node) -> Result<Value> {
    let refuse = |takes: String, hint| {
        let why = format!("`search.{name}` takes {takes}, not {}", node.describe());
        Err(Fault::at(&node.place, why).maybe_hint(hint))
    };
    match &node.content {
        Content::Scalar { text, plain } => kind.read(text, *plain).or_else(|misfit| refuse(misfit.takes, misfit.hint)),
        _ => refuse(kind.describe(), None),
    }
}

impl Wish {
    /// Refuses what could never stop a run.
    pub(super) fn suits(&self, points: &[RunConfig]) -> Result<()> {
        let Some(search) = &self.search else { return Ok(()) };
        let longest = points.iter().map(|point| point.train.steps).max().unwrap_or(0);
        if points.iter().any(|point| search.first_judged(point).is_some()) {
            return Ok(());
        }
        if search.min_steps < longest {
            let metric = search.metric;
            let why = format!(
                "no run could be stopped: none is evaluated for {metric} from step {} to its end",
                search.min_steps
            );
            return Err(Fault::at(&self.place, why).hint(format!(
                "evaluate at least every `min_steps` (`eval.every`), or compare by `metric: {EACH_STEP}`"
            )));
        }
        let why = format!("`search.min_steps` is {}, and no run has more than {longest} steps", search.min_steps);
        Err(Fault::at(&self.place, why).hint("runs are stopped after `min_steps` at the earliest: give less"))
    }
}

/// The JSON Schema of what stands under `search`.
pub(super) fn schema() -> Value {
    let of = |kind: Kind, text: &str| {
        let mut schema = kind.schema();
        schema["description"] = text.into();
        schema
    };
    json!({
        "type": ["object", "null"],
        "properties": {
            "prune": of(PRUNE, "asha: at each rung the best of those that have reached it go on. median: what is worse than the median of the others pauses."),
            "metric": of(METRIC, "What runs are compared by; the lower the better. Default: val_loss."),
            "min_steps": of(MIN_STEPS, "Updates that every run may do; the first rung."),
            "reduction": of(REDUCTION, "For asha: one in so many goes on, and each rung is so many times further. Default: 3."),
        },
        "required": ["prune", "min_steps"],
        "additionalProperties": false,
    })
}
