//! What one text of a spec says, as written, each thing with its place. What follows from several texts (a base,
//! `--set`) is decided in [`super::inherit`], what they expand to in [`super::sweep`].

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    RunConfig,
    kind::Kind,
    leaf::{self, GROUPS, Leaf},
    names::{self, Noun},
    source::{Fault, Place, Result},
    tree::{Content, Key, Node},
    values::{self, Reader},
    which::Which,
};

/// The keys of a spec beside groups and leaves.
pub(super) const KEYS: [&str; 7] = ["experiment", "base", "grid", "zip", "exclude", "include", "seeds"];

/// Of them, those that `--set` takes.
const SETTABLE: [&str; 2] = ["experiment", "seeds"];

/// Points that a sweep has at most, seeds included, unless somebody says that so many are meant.
pub(super) const MANY: usize = 100_000;

/// Points that a sweep has at most whatever is said: a plan of them takes some 3 GB of memory.
pub(super) const MOST: usize = 1_000_000;

/// A value that a leaf is given, and where.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The leaf's index in the table.
    pub leaf: usize,
    /// Of the leaf's kind, or `null` for its default.
    pub value: Value,
    pub place: Place,
}

impl Setting {
    /// The leaf that is set.
    pub fn leaf(&self) -> &'static Leaf {
        &leaf::all()[self.leaf]
    }

    /// Whether a config has this value.
    pub fn holds(&self, config: &RunConfig) -> bool {
        let value = self.leaf().get(config);
        value == self.value || self.value.is_null() && value == self.leaf().left_out(config)
    }
}

/// A leaf and the values that it is swept over.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub leaf: usize,
    /// Where its name stands.
    pub place: Place,
    /// At least one.
    pub values: Vec<Setting>,
}

impl Axis {
    /// The leaf that is swept.
    pub fn leaf(&self) -> &'static Leaf {
        &leaf::all()[self.leaf]
    }
}

/// Axes that are walked together: one of `grid`, or those of a group of `zip`, which are equally long.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// At least one.
    pub axes: Vec<Axis>,
}

impl Group {
    /// How many points it walks through.
    pub fn len(&self) -> usize {
        self.axes.first().map_or(0, |axis| axis.values.len())
    }

    /// Sets what its axes have at a step of the walk. `row` has a place for each leaf of the table.
    pub fn lay<'a>(&'a self, step: usize, row: &mut [Option<&'a Setting>]) {
        for axis in &self.axes {
            row[axis.leaf] = axis.values.get(step);
        }
    }
}

/// An entry of `exclude`.
#[derive(Clone, Debug)]
pub(super) struct Exclusion {
    pub place: Place,
    pub which: Which,
    /// Whether a later text sets a leaf that it names, so that it may rightly match nothing.
    pub overridden: bool,
}

/// A point of `include`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub settings: Vec<Setting>,
}

impl Entry {
    /// Whether it names a leaf.
    pub fn sets(&self, leaf: usize) -> bool {
        self.settings.iter().any(|setting| setting.leaf == leaf)
    }
}

/// What one text says.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub experiment: Option<(String, Place)>,
    pub base: Option<(PathBuf, Place)>,
    pub settings: Vec<Setting>,
    pub groups: Vec<Group>,
    /// `seeds`, an axis that is walked innermost.
    pub seeds: Option<Group>,
    pub exclude: Option<(Place, Vec<Exclusion>)>,
    pub include: Option<Vec<Entry>>,
}

impl Layer {
    /// All groups that the grid is a product of, the outermost first.
    pub fn walks(&self) -> impl DoubleEndedIterator<Item = &Group> {
        self.groups.iter().chain(&self.seeds)
    }
}

/// Reads a tree as a spec. `folder` is what its paths are relative to.
pub(super) fn read(root: &Node, folder: &Path) -> Result<Layer> {
    let Content::Map(entries) = &root.content else {
        let why = format!("a spec is a map of `key: value`, not {}", root.describe());
        return Err(Fault::at(&root.place, why).hint("a space follows each colon: `layers: 4`"));
    };
    let (own, leaves): (Vec<_>, Vec<_>) = entries.iter().partition(|(key, _)| KEYS.contains(&key.text.as_str()));
    let reader = Reader { folder };
    let mut layer = Layer { settings: reader.settings(leaves, &KEYS)?, ..Layer::default() };
    for (key, node) in own {
        reader.own_key(&mut layer, key, node)?;
    }
    refuse_axes_twice(&layer)?;
    Ok(layer)
}

/// Reads the key and the value of a `--set`, whose value becomes an axis where it is several.
pub(super) fn read_argument(key: &Key, node: &Node, folder: &Path) -> Result<Layer> {
    let reader = Reader { folder };
    let mut layer = Layer::default();
    let name = key.text.as_str();
    if SETTABLE.contains(&name) {
        let listed = values::unbracketed(&leaf::all()[seed()].kind, node).filter(|_| name == "seeds");
        reader.own_key(&mut layer, key, listed.as_ref().unwrap_or(node))?;
    } else if KEYS.contains(&name) || GROUPS.contains(&name) {
        let why = format!("`--set` takes a leaf, not `{name}`");
        return Err(
            Fault::at(&key.place, why).hint("`--set lr=3e-4` sets a leaf, `--set layers=[2,4]` makes it an axis")
        );
    } else {
        let leaf = names::leaf_named(key, Noun::Key, &SETTABLE)?;
        let listed = values::unbracketed(&leaf::all()[leaf].kind, node);
        let node = listed.as_ref().unwrap_or(node);
        let is_axis = matches!(node.content, Content::List(_)) || values::spacing_of(node).is_some();
        match is_axis {
            true => layer.groups.push(Group { axes: vec![reader.axis(leaf, key, node)?] }),
            false => layer.settings.push(reader.value(leaf, node)?),
        }
    }
    Ok(layer)
}

impl Reader<'_> {
    /// Reads what stands under one of [`KEYS`].
    fn own_key(&self, layer: &mut Layer, key: &Key, node: &Node) -> Result<()> {
        match key.text.as_str() {
            "experiment" => layer.experiment = Some((experiment(node)?, node.place.clone())),
            "base" => {
                let path = self.folder.join(word(node, "`base` takes the path of another spec")?);
                layer.base = Some((path, node.place.clone()));
            }
            "grid" => {
                let axes = self.axes(node, "`grid` is a map of axes")?;
                layer.groups.extend(axes.into_iter().map(|axis| Group { axes: vec![axis] }));
            }
            "zip" => layer.groups.extend(self.zip(node)?),
            "exclude" => layer.exclude = Some((key.place.clone(), self.exclusions(node)?)),
            "include" => layer.include = Some(self.included(node)?),
            _ => layer.seeds = Some(self.seeds(key, node)?),
        }
        Ok(())
    }

    fn settings<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a (Key, Node)>,
        own: &[&'static str],
    ) -> Result<Vec<Setting>> {
        named(entries, Noun::Key, own)?.into_iter().map(|(leaf, _, node)| self.value(leaf, node)).collect()
    }

    /// The axes of `grid`, or of a group of `zip`.
    fn axes(&self, node: &Node, what: &str) -> Result<Vec<Axis>> {
        let named = named(map(node, what)?, Noun::Axis, &[])?;
        named.into_iter().map(|(leaf, key, node)| self.axis(leaf, key, node)).collect()
    }

    fn zip(&self, node: &Node) -> Result<Vec<Group>> {
        let mut groups = Vec::new();
        let what = "`zip` is a list of groups of axes";
        for item in list(node, what, "zip: [{layers: [2, 4], d_model: [64, 128]}]")? {
            let axes = self.axes(item, "a group of `zip` is a map of axes")?;
            let Some(first) = axes.first() else { continue };
            if let Some(other) = axes.iter().find(|axis| axis.values.len() != first.values.len()) {
                let told = |axis: &Axis| format!("`{}` has {}", axis.leaf().path, counted(axis.values.len()));
                let why = format!("axes of a zip must be equally long: {}, {}", told(first), told(other));
                return Err(Fault::at(&other.place, why)
                    .also(&first.place, counted(first.values.len()))
                    .hint("to combine every value with every other, write the axes under `grid`"));
            }
            groups.push(Group { axes });
        }
        Ok(groups)
    }

    /// The entries of `exclude`.
    fn exclusions(&self, node: &Node) -> Result<Vec<Exclusion>> {
        let example = "exclude: [{layers: 8, lr: 1e-2}, 'layers == 2 and lr < 1e-3']";
        let items = list(node, "`exclude` is a list of points and conditions", example)?;
        let entry = |item: &Node| {
            let which = self.which(item, "an entry of `exclude` is a map of leaves or a condition")?;
            Ok(Exclusion { place: item.place.clone(), which, overridden: false })
        };
        items.iter().map(entry).collect()
    }

    /// The points of `include`.
    fn included(&self, node: &Node) -> Result<Vec<Entry>> {
        let what = "a point of `include` is a map of leaves";
        let items = list(node, "`include` is a list of points", "include: [{layers: 8, lr: 1e-2}]")?;
        items.iter().map(|item| Ok(Entry { settings: self.settings(map(item, what)?, &[])? })).collect()
    }

    /// Points by a map of values or by a condition.
    fn which(&self, node: &Node, what: &str) -> Result<Which> {
        match &node.content {
            Content::Scalar { text, .. } if !node.is_null() => Which::condition(text, &node.place),
            _ => Ok(Which::Values(self.settings(map(node, what)?, &[])?)),
        }
    }

    /// `seeds: 3` is `train.seed` 1, 2 and 3; a list is the seeds themselves.
    fn seeds(&self, key: &Key, node: &Node) -> Result<Group> {
        let leaf = seed();
        if matches!(node.content, Content::List(_) | Content::Map(_)) {
            return Ok(Group { axes: vec![self.axis(leaf, key, node)?] });
        }
        let counts = Kind::Integer { min: 1, max: MOST as u64 };
        let count = match &node.content {
            Content::Scalar { text, plain } => counts.read(text, *plain).ok().and_then(|n| n.as_u64()),
            _ => None,
        };
        let Some(count) = count else {
            let why = format!("`seeds` takes how many, from 1 to {MOST}, or a list of seeds, not {}", node.describe());
            return Err(Fault::at(&node.place, why).hint("`seeds: 3` repeats every point with `train.seed` 1, 2 and 3"));
        };
        let values = (1..=count).map(|n| Setting { leaf, value: n.into(), place: node.place.clone() }).collect();
        Ok(Group { axes: vec![Axis { leaf, place: key.place.clone(), values }] })
    }
}

/// The index of `train.seed`.
pub(super) fn seed() -> usize {
    leaf::lookup("train.seed").unwrap_or_default()
}

/// `1 value`, `3 values`.
pub(super) fn counted(n: usize) -> String {
    if n == 1 { "1 value".into() } else { format!("{n} values") }
}

/// The leaves that a map names by path, by last word, or within their groups. Refuses a leaf named twice.
fn named<'a>(
    entries: impl IntoIterator<Item = &'a (Key, Node)>,
    noun: Noun,
    own: &[&'static str],
) -> Result<Vec<(usize, &'a Key, &'a Node)>> {
    let mut found = Vec::new();
    for (key, node) in entries {
        if GROUPS.contains(&key.text.as_str()) {
            for (word, node) in map(node, &format!("`{}` is a group of leaves", key.text))? {
                found.push((names::leaf_in(&key.text, word)?, word, node));
            }
        } else {
            found.push((names::leaf_named(key, noun, own)?, key, node));
        }
    }
    let mut first: HashMap<usize, &Key> = HashMap::new();
    for (leaf, key, _) in &found {
        if let Some(before) = first.insert(*leaf, key) {
            return Err(twice(*leaf, &key.place, &before.place));
        }
    }
    Ok(found)
}

/// An axis stands once, in `grid` or in a group of `zip`; `seeds` is an axis of `train.seed`, and its only value.
fn refuse_axes_twice(layer: &Layer) -> Result<()> {
    let mut first: HashMap<usize, &Place> = HashMap::new();
    for axis in layer.groups.iter().flat_map(|group| &group.axes) {
        if let Some(before) = first.insert(axis.leaf, &axis.place) {
            return Err(twice(axis.leaf, &axis.place, before));
        }
    }
    let Some(seeds) = layer.seeds.iter().flat_map(|group| &group.axes).next() else { return Ok(()) };
    let set = layer.settings.iter().find(|setting| setting.leaf == seeds.leaf).map(|setting| &setting.place);
    match set.or(first.get(&seeds.leaf).copied()) {
        Some(place) => Err(Fault::at(place, "`train.seed` is given twice, here and by `seeds`")
            .also(&seeds.place, "gives it too")
            .hint("`seeds` is a sweep of `train.seed`: keep one of the two")),
        None => Ok(()),
    }
}

fn twice(index: usize, again: &Place, first: &Place) -> Box<Fault> {
    let why = format!("`{}` is given twice", leaf::all()[index].path);
    Fault::at(again, why).also(first, "first given here")
}

/// The entries of a map; none where the key has nothing under it.
fn map<'a>(node: &'a Node, what: &str) -> Result<&'a [(Key, Node)]> {
    match &node.content {
        Content::Map(entries) => Ok(entries),
        _ if node.is_null() => Ok(&[]),
        Content::List(_) => {
            Err(Fault::at(&node.place, format!("{what}, not a list"))
                .hint("`key: value` lines, without `-` and brackets"))
        }
        Content::Scalar { .. } => Err(Fault::at(&node.place, format!("{what}, not {}", node.describe()))),
    }
}

/// The items of a list; none where the key has nothing under it.
fn list<'a>(node: &'a Node, what: &str, example: &str) -> Result<&'a [Node]> {
    match &node.content {
        Content::List(items) => Ok(items),
        _ if node.is_null() => Ok(&[]),
        _ => Err(Fault::at(&node.place, format!("{what}, not {}", node.describe())).hint(format!("`{example}`"))),
    }
}

/// A scalar as text, whatever YAML takes it for.
fn word<'a>(node: &'a Node, what: &str) -> Result<&'a str> {
    match &node.content {
        Content::Scalar { text, .. } if !node.is_null() && !text.is_empty() => Ok(text),
        _ => Err(Fault::at(&node.place, format!("{what}, not {}", node.describe()))),
    }
}

/// The name of an experiment, which is a folder's name as well.
fn experiment(node: &Node) -> Result<String> {
    let name = word(node, "`experiment` takes a name")?;
    match name_fault(name) {
        None => Ok(name.into()),
        Some(why) => Err(Fault::at(&node.place, format!("{} is no name for an experiment: {why}", node.describe()))),
    }
}

/// Why a text is no name of an experiment.
pub fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty".into());
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if let Some((c, what)) = [('.', "dot"), ('-', "dash")].into_iter().find(|(c, _)| name.starts_with(*c)) {
        let why = if c == '-' { ", as options do" } else { "" };
        return Some(format!("it begins with a {what}{why}"));
    }
    if let Some(c) = name.chars().find(|&c| !legal(c)) {
        let found = match c {
            ' ' => "a space".into(),
            c if c.is_control() => "a control character".into(),
            c => format!("a `{c}`"),
        };
        return Some(format!("it has {found}, and letters, digits, `_`, `-` and `.` are all it may have"));
    }
    (name.len() > 100).then(|| format!("it has {} characters, and 100 are the most", name.len()))
}
