//! What one text of a spec says, as written, each thing with its place. What follows from several texts (a base,
//! `--set`) is decided in [`super::inherit`], what they expand to in [`super::sweep`].

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    RunConfig,
    blocks::{self, Block},
    derive::{self, Derivation},
    draw::Draw,
    kind::{EXACT, Kind},
    leaf::{self, GROUPS, Leaf},
    names::{self, Noun},
    search::{self, Wish},
    source::{Fault, Place, Result},
    tree::{Content, Key, Node},
    values::{self, Reader},
    which::Which,
};

/// The keys of a spec beside groups and leaves.
pub(super) const KEYS: [&str; 12] = [
    "experiment",
    "base",
    "grid",
    "zip",
    "blocks",
    "derive",
    "exclude",
    "include",
    "samples",
    "sample_seed",
    "seeds",
    "search",
];

/// Of them, those that `--set` takes.
const SETTABLE: [&str; 5] = ["experiment", "samples", "sample_seed", "seeds", "search"];

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
        leaf::at(self.leaf)
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
    /// At least one; none where they are still to be drawn.
    pub values: Vec<Setting>,
    /// How they are drawn, of a random axis.
    pub draw: Option<Draw>,
}

impl Axis {
    /// The leaf that is swept.
    pub fn leaf(&self) -> &'static Leaf {
        leaf::at(self.leaf)
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
        self.axes.iter().filter_map(|axis| axis.values.get(step)).for_each(|setting| put(row, setting));
    }
}

/// Sets a leaf of a row. Of `train.steps` and the budgets the last one that is set counts.
pub(super) fn put<'a>(row: &mut [Option<&'a Setting>], setting: &'a Setting) {
    if derive::lengths().any(|length| length == setting.leaf) {
        derive::lengths().for_each(|length| row[length] = None);
    }
    row[setting.leaf] = Some(setting);
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
    pub blocks: Option<Vec<Block>>,
    pub derive: Vec<Derivation>,
    /// How often random axes are drawn, where that is not taken back.
    pub samples: Option<(Option<usize>, Place)>,
    pub sample_seed: Option<(u64, Place)>,
    /// Whether the last of the groups is that of the random axes, once they are drawn.
    pub is_sampled: bool,
    /// `seeds`, an axis that is walked innermost.
    pub seeds: Option<Group>,
    pub exclude: Option<(Place, Vec<Exclusion>)>,
    pub include: Option<Vec<Entry>>,
    pub search: Option<Wish>,
}

impl Layer {
    /// All groups that the grid is a product of, the outermost first; those of blocks, which stand before `seeds`, left out.
    pub fn walks(&self) -> impl DoubleEndedIterator<Item = &Group> {
        self.groups.iter().chain(&self.seeds)
    }

    /// All points of `include`.
    pub fn included(&self) -> &[Entry] {
        self.include.as_deref().unwrap_or_default()
    }

    /// All blocks.
    pub fn blocks(&self) -> &[Block] {
        self.blocks.as_deref().unwrap_or_default()
    }

    /// All axes, those of blocks included.
    pub fn axes(&self) -> impl Iterator<Item = &Axis> {
        let in_blocks = self.blocks().iter().flat_map(Block::axes);
        let seeds = self.seeds.iter().flat_map(|group| &group.axes);
        self.groups.iter().flat_map(|group| &group.axes).chain(in_blocks).chain(seeds)
    }

    /// Every leaf that is given a value somewhere, and where: plainly, by axes, in blocks, in `include`.
    pub fn gives(&self) -> impl Iterator<Item = (usize, &Place)> {
        let entries = self.included().iter().flat_map(|entry| &entry.settings);
        let blocks = self.blocks().iter().flat_map(|block| &block.settings);
        let settings = self.settings.iter().chain(blocks).chain(entries);
        settings.map(|setting| (setting.leaf, &setting.place)).chain(self.axes().map(|axis| (axis.leaf, &axis.place)))
    }

    /// Whether a budget is given somewhere.
    pub fn has_budget(&self, budget: usize) -> bool {
        self.gives().any(|(leaf, _)| leaf == leaf::all().len() + budget)
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
    refuse_lengths(&layer)?;
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
    } else if name.starts_with("search.") {
        return Err(Fault::at(&key.place, "`search` is set as a whole")
            .hint("`--set 'search={prune: asha, min_steps: 100}'` replaces it, `--set search=null` takes it away"));
    } else if KEYS.contains(&name) || GROUPS.contains(&name) {
        let why = format!("`--set` takes a leaf, not `{name}`");
        return Err(
            Fault::at(&key.place, why).hint("`--set lr=3e-4` sets a leaf, `--set layers=[2,4]` makes it an axis")
        );
    } else {
        let leaf = names::leaf_named(key, Noun::Key, &SETTABLE)?;
        let listed = values::unbracketed(&leaf::at(leaf).kind, node);
        let node = listed.as_ref().unwrap_or(node);
        let is_axis = matches!(node.content, Content::List(_)) || values::way_of(node).is_some();
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
            "blocks" => layer.blocks = Some(blocks::read(self, node)?),
            "derive" => {
                let named = named(map(node, "`derive` is a map of leaves and arithmetic")?, Noun::Key, &[])?;
                let read = named.into_iter().map(|(leaf, key, node)| Derivation::read(leaf, key, node));
                layer.derive = read.collect::<Result<_>>()?;
            }
            "samples" if node.is_null() => layer.samples = Some((None, key.place.clone())),
            "samples" => {
                let what = format!("`samples` takes how often random axes are drawn, from 1 to {MOST}");
                let samples = integer(node, 1, MOST as u64, &what)?;
                layer.samples = Some((Some(samples as usize), key.place.clone()));
            }
            "sample_seed" => {
                let seed = integer(node, 0, EXACT, "`sample_seed` takes an integer of at least 0")?;
                layer.sample_seed = Some((seed, key.place.clone()));
            }
            "exclude" => layer.exclude = Some((key.place.clone(), self.exclusions(node)?)),
            "include" => layer.include = Some(self.included(node)?),
            "search" => layer.search = Some(search::read(key, node)?),
            _ => layer.seeds = Some(self.seeds(key, node)?),
        }
        Ok(())
    }

    pub fn settings<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a (Key, Node)>,
        own: &[&'static str],
    ) -> Result<Vec<Setting>> {
        named(entries, Noun::Key, own)?.into_iter().map(|(leaf, _, node)| self.value(leaf, node)).collect()
    }

    /// The axes of `grid`, or of a group of `zip`.
    pub fn axes(&self, node: &Node, what: &str) -> Result<Vec<Axis>> {
        let named = named(map(node, what)?, Noun::Axis, &[])?;
        named.into_iter().map(|(leaf, key, node)| self.axis(leaf, key, node)).collect()
    }

    /// The groups of `zip`.
    pub fn zip(&self, node: &Node) -> Result<Vec<Group>> {
        let mut groups = Vec::new();
        let what = "`zip` is a list of groups of axes";
        for item in list(node, what, "zip: [{layers: [2, 4], d_model: [64, 128]}]")? {
            let axes = self.axes(item, "a group of `zip` is a map of axes")?;
            let Some(first) = axes.first() else { continue };
            if let Some(random) = axes.iter().find(|axis| axis.draw.is_some()) {
                let why =
                    format!("`{}` is drawn at random, and a group of `zip` is walked together", random.leaf().path);
                return Err(Fault::at(&random.place, why)
                    .hint("write it under `grid`: all random axes are walked together there"));
            }
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
    pub fn which(&self, node: &Node, what: &str) -> Result<Which> {
        match &node.content {
            Content::Scalar { text, .. } if !node.is_null() => Which::condition(text, &node.place),
            _ => {
                let settings = self.settings(map(node, what)?, &[])?;
                if let Some(budget) = settings.iter().find(|setting| setting.leaf >= leaf::all().len()) {
                    let why = format!("`{}` is a budget, and no point has it", budget.leaf().path);
                    return Err(Fault::at(&budget.place, why).hint("`steps` is what comes of it"));
                }
                Ok(Which::Values(settings))
            }
        }
    }

    /// `seeds: 3` is `train.seed` 1, 2 and 3; a list is the seeds themselves.
    fn seeds(&self, key: &Key, node: &Node) -> Result<Group> {
        let leaf = seed();
        if matches!(node.content, Content::List(_) | Content::Map(_)) {
            let axis = self.axis(leaf, key, node)?;
            return match &axis.draw {
                Some(draw) => Err(Fault::at(&draw.place, "`seeds` are named, not drawn").hint("`seeds: 3`")),
                None => Ok(Group { axes: vec![axis] }),
            };
        }
        let what = format!("`seeds` takes how many, from 1 to {MOST}, or a list of seeds");
        let count = integer(node, 1, MOST as u64, &what)
            .map_err(|fault| fault.hint("`seeds: 3` repeats every point with `train.seed` 1, 2 and 3"))?;
        let values = (1..=count).map(|n| Setting { leaf, value: n.into(), place: node.place.clone() }).collect();
        Ok(Group { axes: vec![Axis { leaf, place: key.place.clone(), values, draw: None }] })
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
    refuse_twice(found.iter().map(|(leaf, key, _)| (*leaf, &key.place)))?;
    Ok(found)
}

/// Refuses a leaf that is given twice.
pub(super) fn refuse_twice<'a>(given: impl Iterator<Item = (usize, &'a Place)>) -> Result<()> {
    let mut first: HashMap<usize, &Place> = HashMap::new();
    for (leaf, place) in given {
        if let Some(before) = first.insert(leaf, place) {
            return Err(twice(leaf, place, before));
        }
    }
    Ok(())
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

/// How long is trained is said once: by `train.steps`, `train.tokens` or `train.flops`.
fn refuse_lengths(layer: &Layer) -> Result<()> {
    let axes = layer.walks().flat_map(|group| &group.axes).map(|axis| (axis.leaf, &axis.place));
    let given: Vec<_> = layer.settings.iter().map(|setting| (setting.leaf, &setting.place)).chain(axes).collect();
    let lengths = derive::lengths().filter_map(|length| given.iter().find(|(leaf, _)| *leaf == length));
    match lengths.collect::<Vec<_>>()[..] {
        [(first, place), (again, other), ..] => {
            let [first, again] = [*first, *again].map(|index| leaf::at(index).path);
            Err(Fault::at(other, format!("`{again}` beside `{first}`: each says how long is trained"))
                .also(place, format!("`{first}` is given here"))
                .hint("keep one of them; `steps` follows from `tokens` and from `flops`"))
        }
        _ => Ok(()),
    }
}

fn twice(index: usize, again: &Place, first: &Place) -> Box<Fault> {
    let why = format!("`{}` is given twice", leaf::at(index).path);
    Fault::at(again, why).also(first, "first given here")
}

/// The entries of a map; none where the key has nothing under it.
pub(super) fn map<'a>(node: &'a Node, what: &str) -> Result<&'a [(Key, Node)]> {
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
pub(super) fn list<'a>(node: &'a Node, what: &str, example: &str) -> Result<&'a [Node]> {
    match &node.content {
        Content::List(items) => Ok(items),
        _ if node.is_null() => Ok(&[]),
        _ => Err(Fault::at(&node.place, format!("{what}, not {}", node.describe())).hint(format!("`{example}`"))),
    }
}

/// A scalar as an integer.
fn integer(node: &Node, min: u64, max: u64, what: &str) -> Result<u64> {
    let read = match &node.content {
        Content::Scalar { text, plain } => Kind::Integer { min, max }.read(text, *plain).ok().and_then(|n| n.as_u64()),
        _ => None,
    };
    read.ok_or_else(|| Fault::at(&node.place, format!("{what}, not {}", node.describe())))
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
