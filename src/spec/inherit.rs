//! From files and arguments to one layer: reads a spec and the specs that it inherits from, and lays `--set` over them.
//!
//! What is laid over replaces: a leaf the leaf, an axis the axis, a plain value the axis, `exclude`, `include` and
//! `seeds` as wholes. The experiment's name is not inherited, or two specs would share one experiment unasked.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    blocks::Block,
    derive,
    layer::{self, Group, Layer, name_fault, seed},
    names::nearest,
    source::{Fault, Place, Result, Source},
    tree::{self, Key},
};

/// A spec is written by hand; what is larger is something else.
const MAX_BYTES: u64 = 1_000_000;

/// A spec with all that it inherits and all that the command line sets.
pub(super) struct Whole {
    pub experiment: String,
    pub layer: Layer,
    /// The text of the spec itself.
    pub text: String,
}

/// Reads the spec at `path`, lays it over its bases, and each of `set` (`lr=3e-4`) over that, the later ones on top.
pub(super) fn read(path: &Path, set: &[String]) -> Result<Whole> {
    let source = open(path)?;
    let mut layer = with_bases(path, &source, &mut Vec::new())?;
    for argument in set {
        layer = read_argument(argument)?.over(layer);
    }
    let experiment = match layer.experiment.take() {
        Some((name, _)) => name,
        None => stem(path)?,
    };
    Ok(Whole { experiment, layer, text: source.text().to_owned() })
}

/// What `set` says, laid over nothing.
pub(super) fn read_settings(set: &[String]) -> Result<Whole> {
    let mut layer = Layer::default();
    for argument in set {
        layer = read_argument(argument)?.over(layer);
    }
    let experiment = layer.experiment.take().map_or_else(String::new, |(name, _)| name);
    Ok(Whole { experiment, layer, text: String::new() })
}

/// What a spec says over what its bases say. `above` are the specs that inherit from it.
fn with_bases(path: &Path, source: &Arc<Source>, above: &mut Vec<PathBuf>) -> Result<Layer> {
    let mut layer = layer::read(&tree::parse(source)?, path.parent().unwrap_or(Path::new("")))?;
    let Some((base, place)) = layer.base.take() else { return Ok(layer) };
    above.push(whole(path));
    if above.contains(&whole(&base)) {
        let why = format!("{} inherits from itself", base.display());
        return Err(Fault::at(&place, why).hint("a base may not lead back to a spec that inherits from it"));
    }
    let text = open(&base).map_err(|fault| fault.placed(&place, &format!("the base {}: ", base.display())))?;
    let mut under = with_bases(&base, &text, above)?;
    under.experiment = None;
    Ok(layer.over(under))
}

/// One path for each file, however it is written.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The name of an experiment that its spec does not name.
fn stem(path: &Path) -> Result<String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match name_fault(&stem) {
        None => Ok(stem.into_owned()),
        Some(why) => {
            let why = format!("its name is none for an experiment: {why}");
            Err(Fault::new(None, why).hint("name it in the spec: `experiment: NAME`"))
        }
    }
}

/// What an argument of `--set` is shown after.
const FLAG: &str = "--set ";

/// Where the key of `key=value` stands, as given to `--set`; the whole argument where there is no key.
pub(super) fn key_place(argument: &str) -> Place {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    let shown = if name.trim().is_empty() { argument } else { name };
    Place {
        source: Source::argument(format!("{FLAG}{argument}")),
        line: 1,
        column: FLAG.len() as u32,
        width: shown.chars().count() as u32,
    }
}

/// An argument as the YAML parser takes it: `{range:[2,9,2]}` is YAML, but to the parser only with a space.
fn spaced(argument: &str) -> String {
    match argument.split_once('=') {
        Some((name, value)) if value.trim_start().starts_with('{') => format!("{name}={}", value.replace(":[", ": [")),
        _ => argument.to_owned(),
    }
}

/// Reads `key=value` as given to `--set`. Its paths are relative to the current folder.
pub(super) fn read_argument(argument: &str) -> Result<Layer> {
    let argument = &spaced(argument);
    let place = key_place(argument);
    let Some((name, value)) = argument.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
        return Err(Fault::at(&place, "`--set` takes a leaf and its value").hint("`--set lr=3e-4`").usage());
    };
    let source = place.source.clone();
    let key = Key { text: name.trim().to_owned(), place };
    if value.trim().is_empty() {
        let why = format!("`{}` is given no value", key.text);
        return Err(Fault::at(&key.place, why).hint("`null` stands for the default"));
    }
    let node = tree::parse_from(&source, FLAG.len() + name.len() + 1)?;
    layer::read_argument(&key, &node, Path::new(""))
}

impl Layer {
    /// This layer's word over another's.
    fn over(self, base: Layer) -> Layer {
        let plain: HashSet<usize> = self.settings.iter().map(|setting| setting.leaf).collect();
        let axes = self.groups.iter().chain(&self.seeds).flat_map(|group| &group.axes);
        let swept: HashSet<usize> = axes.map(|axis| axis.leaf).collect();
        let derived: HashSet<usize> = self.derive.iter().map(|derivation| derivation.leaf.leaf).collect();
        // Who says how long is trained takes the place of whoever said so by another leaf.
        let has_length = derive::lengths().any(|length| plain.contains(&length) || swept.contains(&length));
        let lengths = derive::lengths().filter(|length| has_length && !swept.contains(length));
        let replaced: HashSet<usize> = lengths.chain(plain.iter().chain(&derived).copied()).collect();
        let given: HashSet<usize> = plain.iter().chain(&derived).chain(&swept).copied().collect();
        let set: HashSet<usize> = replaced.union(&swept).copied().collect();

        let kept = base.settings.into_iter().filter(|setting| !replaced.contains(&setting.leaf));
        let settings = kept.chain(self.settings).collect();
        let seeds = self.seeds.or(base.seeds.filter(|_| !set.contains(&seed())));
        let loosened = |(place, mut entries): (Place, Vec<layer::Exclusion>)| {
            for entry in &mut entries {
                entry.overridden |= entry.which.leaves().iter().any(|leaf| set.contains(leaf));
            }
            (place, entries)
        };
        Layer {
            experiment: self.experiment.or(base.experiment),
            base: None,
            settings,
            groups: replace(base.groups, self.groups, &set),
            blocks: self.blocks.or(base.blocks.map(|blocks| without(blocks, &set))),
            derive: base.derive.into_iter().filter(|d| !given.contains(&d.leaf.leaf)).chain(self.derive).collect(),
            samples: self.samples.or(base.samples),
            sample_seed: self.sample_seed.or(base.sample_seed),
            is_sampled: false,
            seeds,
            exclude: self.exclude.or(base.exclude.map(loosened)),
            include: self.include.or(base.include),
            search: self.search.or(base.search),
        }
    }
}

/// The blocks of a base without what they give of leaves that are set anew.
fn without(mut blocks: Vec<Block>, set: &HashSet<usize>) -> Vec<Block> {
    for block in &mut blocks {
        block.settings.retain(|setting| !set.contains(&setting.leaf));
        block.groups.iter_mut().for_each(|group| group.axes.retain(|axis| !set.contains(&axis.leaf)));
        block.groups.retain(|group| !group.axes.is_empty());
        block.overridden |= block.which.leaves().iter().any(|leaf| set.contains(leaf));
    }
    blocks
}

/// The groups of a base without the axes of leaves that are set anew, and the new groups, each where the first axis
/// stood that it replaces, else at the end.
fn replace(old: Vec<Group>, new: Vec<Group>, set: &HashSet<usize>) -> Vec<Group> {
    let shares = |a: &Group, b: &Group| a.axes.iter().any(|x| b.axes.iter().any(|y| x.leaf == y.leaf));
    let mut new: Vec<Option<Group>> = new.into_iter().map(Some).collect();
    let mut merged = Vec::new();
    for mut group in old {
        merged.extend(new.iter_mut().filter_map(|slot| slot.take_if(|fresh| shares(fresh, &group))));
        group.axes.retain(|axis| !set.contains(&axis.leaf));
        if !group.axes.is_empty() {
            merged.push(group);
        }
    }
    merged.extend(new.into_iter().flatten());
    merged
}

/// The text of a file that should be a spec.
fn open(path: &Path) -> Result<Arc<Source>> {
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(_) if path.is_dir() => return Err(folder_fault(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let near = neighbour(path).map(|near| format!("did you mean {}?", near.display()));
            return Err(Fault::new(None, "there is no such file").maybe_hint(near));
        }
        Err(error) => return Err(Fault::new(None, error.to_string())),
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Fault::new(None, "it is larger than 1 MB").hint("a spec is a short file written by hand"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::file(path, text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(error) => Err(encoding_fault(path, &error)),
    }
}

/// At most a byte more than a spec may have, so that a device file does not fill the memory.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn folder_fault(path: &Path) -> Box<Fault> {
    let specs: Vec<String> = specs_in(path).iter().take(5).map(|spec| spec.display().to_string()).collect();
    let hint = (!specs.is_empty()).then(|| format!("name a spec in it: {}", specs.join(", ")));
    Fault::new(None, "it is a folder, not a file").maybe_hint(hint)
}

/// The spec beside a missing one whose name is nearly the same.
fn neighbour(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let specs = specs_in(folder.unwrap_or(Path::new(".")));
    let names: Vec<&str> = specs.iter().filter_map(|spec| spec.file_name()?.to_str()).collect();
    let wanted = path.file_name()?.to_str()?;
    let unended = names.iter().copied().find(|name| name.rsplit_once('.').is_some_and(|(stem, _)| stem == wanted));
    let near = unended.or_else(|| nearest(wanted, names.iter().copied()))?;
    Some(folder.map_or_else(|| PathBuf::from(near), |folder| folder.join(near)))
}

/// The YAML files of a folder, sorted.
fn specs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let mut specs: Vec<_> = entries.filter(is_yaml).collect();
    specs.sort();
    specs
}

fn encoding_fault(path: &Path, error: &std::string::FromUtf8Error) -> Box<Fault> {
    let (good, bad) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
    let before = String::from_utf8_lossy(good);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let place = Place {
        source: Source::file(path, String::from_utf8_lossy(error.as_bytes()).into_owned()),
        line: before.matches('\n').count() as u32 + 1,
        column: line.chars().count() as u32,
        width: 1,
    };
    let byte = bad.first().copied().unwrap_or_default();
    Fault::at(&place, format!("it is not UTF-8: the byte 0x{byte:02x} begins no character")).hint("save it as UTF-8")
}
