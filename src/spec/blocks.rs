//! `blocks`: axes and settings for those points alone for which a condition holds.
//!
//! Whether it holds is asked of the point as the grid has it, before any block and any derivation: so their order does not
//! matter, and two that hold for one point may not give it the same leaf.

use super::{
    layer::{Axis, Group, Layer, Setting, list, map, put, refuse_twice, seed},
    leaf,
    names::nearest,
    source::{Fault, Place, Result},
    tree::{Content, Node},
    values::Reader,
    which::Which,
};

/// More would be no spec that somebody reads.
pub(super) const MAX_BLOCKS: usize = 32;

const EXAMPLE: &str = "blocks: [{when: {position: rope}, grid: {rope_theta: [1e4, 5e5]}}]";

/// One of `blocks`.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The points that it is for.
    pub which: Which,
    /// Where that stands.
    pub when: Place,
    /// What they have beside.
    pub settings: Vec<Setting>,
    /// What they are swept over beside.
    pub groups: Vec<Group>,
    /// Of that, random axes that are walked together with those of the grid.
    pub drawn: Option<Group>,
    /// Whether a later text sets a leaf that `which` looks at, so that it may rightly hold for none.
    pub overridden: bool,
}

impl Block {
    /// Its axes.
    pub fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.groups.iter().chain(&self.drawn).flat_map(|group| &group.axes)
    }

    /// The leaves that it gives values, and where.
    pub fn gives(&self) -> impl Iterator<Item = (usize, &Place)> {
        let settings = self.settings.iter().map(|setting| (setting.leaf, &setting.place));
        settings.chain(self.axes().map(|axis| (axis.leaf, &axis.place)))
    }

    /// How many points it makes of one.
    pub fn len(&self) -> u128 {
        self.groups.iter().map(|group| group.len() as u128).product()
    }

    /// Sets what it gives at a step of the walk through its axes, and returns what is left of `step`. `sample` is the number
    /// of the sample that the point is.
    pub fn lay<'a>(&'a self, mut step: usize, sample: usize, row: &mut [Option<&'a Setting>]) -> usize {
        for setting in &self.settings {
            put(row, setting);
        }
        for group in self.groups.iter().rev() {
            group.lay(step % group.len(), row);
            step /= group.len();
        }
        if let Some(drawn) = &self.drawn {
            drawn.lay(sample, row);
        }
        step
    }
}

/// Reads what stands under `blocks`.
pub(super) fn read(reader: &Reader, node: &Node) -> Result<Vec<Block>> {
    let items = list(node, "`blocks` is a list of blocks", EXAMPLE)?;
    if let Some(item) = items.get(MAX_BLOCKS) {
        return Err(Fault::at(&item.place, format!("{MAX_BLOCKS} blocks are the most")));
    }
    items.iter().map(|item| block(reader, item)).collect()
}

fn block(reader: &Reader, node: &Node) -> Result<Block> {
    let [when, grid, zip, set] = parts(node)?;
    let Some(when) = when else {
        return Err(
            Fault::at(&node.place, "a block says for which points it is, by `when`").hint(format!("`{EXAMPLE}`"))
        );
    };
    if [grid, zip, set].iter().all(Option::is_none) {
        return Err(Fault::at(&node.place, "this block gives its points nothing").hint("`grid`, `zip` or `set` do"));
    }
    let which = reader.which(when, "`when` is a map of leaves or a condition")?;
    let axes = grid.map_or(Ok(Vec::new()), |grid| reader.axes(grid, "`grid` is a map of axes"))?;
    let mut groups: Vec<Group> = axes.into_iter().map(|axis| Group { axes: vec![axis] }).collect();
    groups.extend(zip.map_or(Ok(Vec::new()), |zip| reader.zip(zip))?);
    let set = set.map_or(Ok(&[][..]), |set| map(set, "`set` is a map of leaves"))?;
    let settings = reader.settings(set, &[])?;
    let block = Block { which, when: when.place.clone(), settings, groups, drawn: None, overridden: false };
    refuse_twice(block.gives())?;
    Ok(block)
}

/// What stands under the keys of a block: `when`, `grid`, `zip`, `set`.
fn parts(node: &Node) -> Result<[Option<&Node>; 4]> {
    const KEYS: [&str; 4] = ["when", "grid", "zip", "set"];
    let Content::Map(entries) = &node.content else {
        let why = format!("a block is a map of `when`, `grid`, `zip` and `set`, not {}", node.describe());
        return Err(Fault::at(&node.place, why).hint(format!("`{EXAMPLE}`")));
    };
    let mut parts = [None; 4];
    for (key, value) in entries {
        match KEYS.iter().position(|name| *name == key.text) {
            Some(index) => parts[index] = Some(value),
            None => {
                let hint = match nearest(&key.text, KEYS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "a block has `when`, `grid`, `zip` and `set`".into(),
                };
                return Err(Fault::at(&key.place, format!("unknown key `{}` in a block", key.text)).hint(hint));
            }
        }
    }
    Ok(parts)
}

/// Refuses two blocks, by their numbers, that give one point the same leaf.
pub(super) fn refuse_both(layer: &Layer, holding: &[usize]) -> Result<()> {
    for (nth, number) in holding.iter().enumerate() {
        for before in &holding[..nth] {
            let blocks = layer.blocks();
            for (leaf, place) in blocks[*number].gives() {
                if let Some((_, first)) = blocks[*before].gives().find(|(given, _)| *given == leaf) {
                    let why = format!("two blocks hold for one point, and both give it `{}`", leaf::at(leaf).path);
                    return Err(Fault::at(place, why)
                        .also(first, "given here too")
                        .hint("narrow the `when` of one of them"));
                }
            }
        }
    }
    Ok(())
}

/// Refuses what a block cannot give: the seed beside `seeds`.
pub(super) fn refuse_seeds(layer: &Layer) -> Result<()> {
    let Some(seeds) = layer.seeds.iter().flat_map(|group| &group.axes).next() else { return Ok(()) };
    let given = layer.blocks().iter().flat_map(Block::gives).find(|(leaf, _)| *leaf == seed());
    match given {
        Some((_, place)) => Err(Fault::at(place, "`train.seed` is given twice, here and by `seeds`")
            .also(&seeds.place, "gives it too")
            .hint("`seeds` is a sweep of `train.seed`: keep one of the two")),
        None => Ok(()),
    }
}
