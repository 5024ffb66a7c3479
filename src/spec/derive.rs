//! Leaves that follow from others: `derive: {min_lr: lr / 10}`, and `train.tokens` or `train.flops` in the place of
//! `train.steps`. In which order they are worked out, and what they come to for a point.
//!
//! Derivations are worked out after axes and blocks, those first that others name. A result is rounded to twelve digits,
//! so that 3e-4 / 10 is the 3e-5 that one would write, and one run with it.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    RunConfig,
    expr::{self, Expr, Field, Leaves, Names},
    kind::Kind,
    layer::{Layer, Setting},
    leaf::{self, BUDGETS},
    source::{Fault, Place, Result},
    tree::{Content, Key, Node},
    values::{digits, told},
};

/// A leaf and what it follows from.
#[derive(Clone, Debug)]
pub(super) struct Derivation {
    /// The leaf, where its arithmetic stands; without a value.
    pub leaf: Setting,
    /// Where the leaf's name stands.
    pub key: Place,
    expr: Expr,
    /// The leaves and budgets that it names.
    names: Vec<usize>,
}

/// The names of derivations: leaves, and the budgets that steps follow from.
struct Quantities;

impl Names for Quantities {
    fn find(&self, name: &str) -> std::result::Result<Field, (String, Option<String>)> {
        match leaf::lookup(name) {
            Ok(index) if index >= leaf::all().len() => Ok(Field { index, kind: expr::Kind::Number, words: &[] }),
            _ => Leaves.find(name),
        }
    }
}

impl Derivation {
    /// Reads what a leaf follows from.
    pub fn read(leaf: usize, key: &Key, node: &Node) -> Result<Self> {
        let path = leaf::at(leaf).path;
        let wanted = match leaf::at(leaf).kind {
            Kind::Integer { .. } | Kind::Number(..) => expr::Kind::Number,
            Kind::Bool => expr::Kind::Bool,
            _ => {
                let why = format!("`{path}` takes {}, which is not worked out", leaf::at(leaf).kind.describe());
                return Err(Fault::at(&key.place, why).hint("numbers and conditions can be derived"));
            }
        };
        if leaf >= leaf::all().len() {
            let why = format!("`{path}` is a budget that `train.steps` follows from, and follows from nothing itself");
            return Err(Fault::at(&key.place, why).hint("derive `steps`"));
        }
        let Content::Scalar { text, .. } = &node.content else {
            let why = format!("`{path}` is derived by arithmetic, not by {}", node.describe());
            return Err(Fault::at(&node.place, why).hint("`derive: {min_lr: lr / 10}`"));
        };
        if node.is_null() {
            let why = format!("`{path}` is derived by arithmetic, not by {}", node.describe());
            return Err(Fault::at(&node.place, why).hint("leave it out to have its default"));
        }
        let expr = Expr::of_spec(text, &node.place, &Quantities, wanted)?;
        let names = expr.fields();
        let leaf = Setting { leaf, value: Value::Null, place: node.place.clone() };
        Ok(Self { leaf, key: key.place.clone(), expr, names })
    }
}

/// One thing to work out for a point.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A derivation, by its number.
    Derived(usize),
    /// The steps, from the budget.
    Steps,
}

/// What is worked out for a point, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    steps: Vec<Step>,
    /// The derivations that follow from `train.steps`, by number.
    late: HashSet<usize>,
    /// The leaves that are derived.
    derived: HashSet<usize>,
}

/// What only the planner knows of a point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// Values of leaves that the spec leaves out.
    pub left_out: &'a [(usize, Value)],
    /// The updates that `train.flops` comes to.
    pub steps: Option<u64>,
}

impl Order {
    /// Orders the derivations of a whole spec.
    pub fn of(layer: &Layer) -> Result<Self> {
        let graph = Graph::of(layer);
        let derived = layer.derive.iter().map(|derivation| derivation.leaf.leaf).collect();
        let mut order = Self { derived, ..Self::default() };
        if layer.derive.is_empty() && !layer.has_budget(TOKENS) && !layer.has_budget(FLOPS) {
            return Ok(order);
        }
        let mut done = HashSet::new();
        for number in 0..layer.derive.len() {
            graph.visit(layer.derive[number].leaf.leaf, &mut Vec::new(), &mut done, &mut order.steps)?;
        }
        graph.visit(steps(), &mut Vec::new(), &mut done, &mut order.steps)?;
        let is_late = |number: &usize| graph.reaches(layer.derive[*number].leaf.leaf, &|leaf| leaf == steps());
        order.late = (0..layer.derive.len()).filter(is_late).collect();
        Ok(order)
    }

    /// Whether a leaf is derived.
    pub fn derives(&self, leaf: usize) -> bool {
        self.derived.contains(&leaf)
    }

    /// The config of a point that has these settings. What follows from `train.flops` is left at its default where the
    /// steps are not known yet.
    pub fn resolve(&self, layer: &Layer, row: &[Option<&Setting>], known: Known) -> Result<RunConfig> {
        let left_out = known.left_out.iter().map(|(leaf, value)| (*leaf, value));
        let written: Vec<_> =
            left_out.chain(row.iter().flatten().map(|setting| (setting.leaf, &setting.value))).collect();
        let mut config = leaf::resolve(written.iter().copied());
        let mut found: Vec<(usize, Value)> = Vec::new();
        let budget = |budget: usize| row[leaf::all().len() + budget].and_then(|setting| setting.value.as_f64());
        let waits = budget(FLOPS).is_some() && known.steps.is_none() && !self.derives(steps());
        for step in &self.steps {
            match *step {
                Step::Steps => {
                    let per_step = config.tokens_per_step() as f64;
                    let tokens = budget(TOKENS).map(|tokens| (tokens / per_step).ceil().max(1.0) as u64);
                    let Some(count) = known.steps.or(tokens) else { continue };
                    found.push((steps(), count.into()));
                }
                Step::Derived(number) if waits && self.late.contains(&number) => continue,
                Step::Derived(number) => {
                    let derivation = &layer.derive[number];
                    let value = |index: usize| match index.checked_sub(leaf::all().len()) {
                        Some(of) => budget(of).map_or(expr::Value::None, expr::Value::Number),
                        None => Leaves::value(index, &config),
                    };
                    for name in derivation.names.iter().filter(|name| **name >= leaf::all().len()) {
                        if value(*name) == expr::Value::None {
                            let why = format!("`{}` is named, and the spec does not set it", leaf::at(*name).path);
                            let example = format!("`train: {{{}: 1e12}}`", leaf::at(*name).word());
                            return Err(Fault::at(&derivation.leaf.place, why).hint(example));
                        }
                    }
                    let result = derivation.expr.value(&value);
                    found.push((derivation.leaf.leaf, fit(derivation, &result, layer, row)?));
                }
            }
            config = leaf::resolve(written.iter().copied().chain(found.iter().map(|(leaf, value)| (*leaf, value))));
        }
        Ok(config)
    }
}

/// The value of a leaf that an expression comes to.
fn fit(derivation: &Derivation, result: &expr::Value, layer: &Layer, row: &[Option<&Setting>]) -> Result<Value> {
    let leaf = derivation.leaf.leaf();
    let (text, shown) = match result {
        expr::Value::Bool(holds) => return Ok((*holds).into()),
        expr::Value::Number(x) => {
            let x = if x.fract() == 0.0 { *x } else { digits(*x, 12) };
            (format!("{x:?}"), told(x))
        }
        _ => (String::new(), "nothing".into()),
    };
    leaf.kind.read(&text, true).map_err(|misfit| {
        let swept = layer.axes().filter_map(|axis| row[axis.leaf]).filter(|setting| !setting.value.is_null());
        let point: Vec<String> = swept.map(|s| format!("{}={}", s.leaf().word(), s.value)).take(8).collect();
        let point = if point.is_empty() { String::new() } else { format!(" for {}", point.join(" ")) };
        let why = format!("`{}` takes {}, and this comes to {shown}{point}", leaf.path, misfit.takes);
        let is_whole = matches!(leaf.kind, Kind::Integer { .. });
        let hint = (is_whole && shown.contains('.')).then(|| "round(…), floor(…) and ceil(…) give integers".into());
        Fault::at(&derivation.leaf.place, why).maybe_hint(hint)
    })
}

/// What follows from what, over a whole spec.
pub(super) struct Graph<'a> {
    layer: &'a Layer,
    /// Leaves that are given values, so that no default of theirs follows from others.
    given: HashSet<usize>,
}

impl<'a> Graph<'a> {
    pub fn of(layer: &'a Layer) -> Self {
        let axes = layer.axes().map(|axis| axis.leaf);
        let given = layer.settings.iter().map(|setting| setting.leaf).chain(axes).collect();
        Self { layer, given }
    }

    /// The leaves that a leaf follows from: by its derivation, by the budget, by its default.
    fn follows(&self, leaf: usize) -> Vec<usize> {
        let number = self.layer.derive.iter().position(|derivation| derivation.leaf.leaf == leaf);
        if let Some(number) = number {
            return self.layer.derive[number].names.clone();
        }
        let named = |paths: &[&str]| paths.iter().filter_map(|path| leaf::lookup(path).ok()).collect();
        if leaf == steps() {
            // What a token costs follows from the model and, by its vocabulary, from the data.
            let costs = |index: &usize| ["model", "data"].contains(&leaf::at(*index).group());
            let mut all: Vec<usize> = Vec::new();
            if self.layer.has_budget(FLOPS) {
                all.extend((0..leaf::all().len()).filter(costs));
            }
            if self.layer.has_budget(FLOPS) || self.layer.has_budget(TOKENS) {
                all.extend::<Vec<usize>>(named(&["train.batch", "train.grad_accum", "model.context"]));
            }
            return all;
        }
        if self.given.contains(&leaf) || leaf >= leaf::all().len() {
            return Vec::new();
        }
        named(leaf::at(leaf).follows())
    }

    /// Puts what is to be worked out for a leaf behind what that follows from.
    fn visit(
        &self,
        leaf: usize,
        path: &mut Vec<usize>,
        done: &mut HashSet<usize>,
        order: &mut Vec<Step>,
    ) -> Result<()> {
        if let Some(begin) = path.iter().position(|before| *before == leaf) {
            return Err(self.circle(&path[begin..]));
        }
        if done.contains(&leaf) {
            return Ok(());
        }
        path.push(leaf);
        self.follows(leaf).into_iter().try_for_each(|other| self.visit(other, path, done, order))?;
        path.pop();
        done.insert(leaf);
        match self.layer.derive.iter().position(|derivation| derivation.leaf.leaf == leaf) {
            Some(number) => order.push(Step::Derived(number)),
            None if leaf == steps() && (self.layer.has_budget(TOKENS) || self.layer.has_budget(FLOPS)) => {
                order.push(Step::Steps);
            }
            None => {}
        }
        Ok(())
    }

    /// Leaves that follow from one another in a circle.
    fn circle(&self, leaves: &[usize]) -> Box<Fault> {
        let derived = self.layer.derive.iter().find(|derivation| leaves.contains(&derivation.leaf.leaf));
        let first = derived.map_or(leaves[0], |derivation| derivation.leaf.leaf);
        let begin = leaves.iter().position(|leaf| *leaf == first).unwrap_or_default();
        let circle = leaves.iter().cycle().skip(begin).take(leaves.len() + 1);
        let circle: Vec<String> = circle.map(|leaf| format!("`{}`", leaf::at(*leaf).path)).collect();
        let place = derived.map(|derivation| derivation.leaf.place.clone());
        Fault::new(place, format!("this goes round in a circle: {}", circle.join(" follows from ")))
            .hint("give one of them a value that follows from none of the others")
    }

    /// Whether a leaf follows from one for which `is_it` holds, or is one.
    pub fn reaches(&self, leaf: usize, is_it: &dyn Fn(usize) -> bool) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![leaf]);
        while let Some(leaf) = next.pop() {
            if is_it(leaf) {
                return true;
            }
            if seen.insert(leaf) {
                next.extend(self.follows(leaf));
            }
        }
        false
    }
}

/// Refuses a leaf that is given a value as well as derived.
pub(super) fn refuse_given(layer: &Layer) -> Result<()> {
    for derivation in &layer.derive {
        let leaf = derivation.leaf.leaf;
        if let Some((_, place)) = layer.gives().find(|(given, _)| *given == leaf) {
            let why = format!("`{}` is derived, and it is set as well", derivation.leaf.leaf().path);
            return Err(Fault::at(&derivation.key, why).also(place, "set here").hint("keep one of the two"));
        }
    }
    Ok(())
}

/// Whether leaves follow from what is worked out.
pub(super) fn are_derived(layer: &Layer, leaves: &[usize]) -> bool {
    first_derived(layer, leaves).is_some()
}

fn first_derived(layer: &Layer, leaves: &[usize]) -> Option<usize> {
    let has_budget = layer.has_budget(TOKENS) || layer.has_budget(FLOPS);
    let is_derived = |leaf: usize| {
        leaf == steps() && has_budget || layer.derive.iter().any(|derivation| derivation.leaf.leaf == leaf)
    };
    let graph = Graph::of(layer);
    leaves.iter().copied().find(|leaf| graph.reaches(*leaf, &is_derived))
}

/// Refuses a `when` that looks at what is worked out after blocks.
pub(super) fn refuse_derived(layer: &Layer, leaves: &[usize], place: &Place) -> Result<()> {
    let Some(leaf) = first_derived(layer, leaves) else { return Ok(()) };
    let why = format!("`{}` is worked out after blocks, so none can look at it", leaf::at(leaf).path);
    Err(Fault::at(place, why).hint("ask for the leaves that it follows from"))
}

/// Refuses an exclusion that looks at what the planner alone knows.
pub(super) fn refuse_unknown(layer: &Layer, leaves: &[usize], place: &Place) -> Result<()> {
    let derives_steps = layer.derive.iter().any(|derivation| derivation.leaf.leaf == steps());
    if derives_steps || !layer.has_budget(FLOPS) {
        return Ok(());
    }
    let graph = Graph::of(layer);
    let Some(leaf) = leaves.iter().find(|leaf| graph.reaches(**leaf, &|leaf| leaf == steps())) else { return Ok(()) };
    let why =
        format!("`{}` follows from `train.flops`, and is not known when points are excluded", leaf::at(*leaf).path);
    Err(Fault::at(place, why).hint("`--only` can ask for it"))
}

/// The numbers of the budgets.
pub(super) const TOKENS: usize = 0;
pub(super) const FLOPS: usize = 1;

/// The index of `train.steps`.
pub(super) fn steps() -> usize {
    leaf::lookup("train.steps").unwrap_or_default()
}

/// `train.steps` and the budgets, one of which says how long is trained.
pub(super) fn lengths() -> impl Iterator<Item = usize> {
    [steps()].into_iter().chain((0..BUDGETS.len()).map(|budget| leaf::all().len() + budget))
}
