//! From a written name to its leaf, and from a wrong one to what was probably meant.

use super::{
    kind::list,
    layer::KEYS,
    leaf::{self, GROUPS, Leaf},
    source::{Fault, Result},
    tree::Key,
};

/// What a name is called in messages.
#[derive(Clone, Copy)]
pub(super) enum Noun {
    Key,
    Axis,
}

/// The index of the leaf that a key names, by its path or its last word. `own` are keys that would do as well here.
pub(super) fn leaf_named(key: &Key, noun: Noun, own: &[&'static str]) -> Result<usize> {
    let name = key.text.as_str();
    leaf::lookup(name).map_err(|candidates| {
        if !candidates.is_empty() {
            let paths: Vec<_> = candidates.iter().map(|leaf| leaf.path).collect();
            let why = format!("`{name}` is ambiguous: {}", list(&paths));
            return Fault::at(&key.place, why).hint("write the path that you mean");
        }
        let noun = match noun {
            Noun::Key => "key",
            Noun::Axis => "axis",
        };
        let names = settable().flat_map(|leaf| [short(leaf), leaf.path]);
        let near = || nearest(name, own.iter().copied().chain(GROUPS).chain(names));
        let hint =
            slip(name).or_else(|| near().map(|near| format!("did you mean `{near}`?"))).or_else(|| foreign(name));
        let hint = hint.unwrap_or_else(|| match own {
            [] => "`exp schema` lists every leaf".into(),
            _ => format!(
                "a spec has {}, the groups {}, and leaves by name: `exp schema` lists all",
                list(own),
                list(&GROUPS)
            ),
        });
        Fault::at(&key.place, format!("unknown {noun} `{name}`")).hint(hint)
    })
}

/// The index of the leaf that a key names within a group.
pub(super) fn leaf_in(group: &str, key: &Key) -> Result<usize> {
    let name = key.text.as_str();
    let path = format!("{group}.{name}");
    settable().position(|leaf| leaf.path == path).ok_or_else(|| {
        let words: Vec<_> = settable().filter(|leaf| leaf.group() == group).map(Leaf::word).collect();
        let elsewhere = || leaf::find(name).map(|leaf| format!("it is `{}`", leaf.path));
        let near = || nearest(name, words.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let hint = elsewhere().or_else(|| slip(name)).or_else(near).or_else(|| foreign(name));
        Fault::at(&key.place, format!("unknown key `{name}` in `{group}`"))
            .hint(hint.unwrap_or_else(|| format!("`{group}` has {}", list(&words))))
    })
}

/// What to do about names that are wrong in a known way.
fn slip(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("a word is missing before the colon".into());
    }
    if name == "<<" {
        return Some("merge keys are not read; `base: other.yaml` inherits from another spec".into());
    }
    if KEYS.contains(&name) || GROUPS.contains(&name) {
        return Some(format!("`{name}` belongs at the top level of a spec, in the first column"));
    }
    if let Some((name, value)) = name.split_once([':', '='])
        && settable().any(|leaf| leaf.word() == name)
    {
        return Some(format!("a colon and a space follow the key: `{name}: {value}`"));
    }
    known_elsewhere(name).map(|leaf| format!("it is `{}` here", leaf.path))
}

/// The leaf whose name elsewhere was probably meant.
fn foreign(name: &str) -> Option<String> {
    let names = settable().flat_map(|leaf| leaf.aka).copied();
    nearest(name, names).and_then(known_elsewhere).map(|leaf| format!("did you mean `{}`?", leaf.path))
}

/// The candidate that a word was probably meant to be: a few slips away from it at most.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > 100 {
        return None;
    }
    let distance = |candidate: &str| strsim::osa_distance(&word, &candidate.to_lowercase());
    let (slips, found) = candidates.into_iter().map(|c| (distance(c), c)).min_by_key(|(slips, _)| *slips)?;
    (slips <= (length / 3).max(1) && slips < length).then_some(found)
}

/// The leaf that others call by this name.
pub(super) fn known_elsewhere(name: &str) -> Option<&'static Leaf> {
    let name = name.to_lowercase().replace('-', "_");
    settable().find(|leaf| leaf.aka.contains(&name.as_str()))
}

/// The leaves, and the budgets behind them: by their indices.
fn settable() -> impl Iterator<Item = &'static Leaf> {
    (0..leaf::COUNT).map(leaf::at)
}

/// How a leaf is named where it stands alone: its last word, or its path where that word means another leaf or none.
pub(super) fn short(leaf: &'static Leaf) -> &'static str {
    match leaf::lookup(leaf.word()) {
        Ok(found) if leaf::at(found).path == leaf.path => leaf.word(),
        _ => leaf.path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_forgiven_and_other_words_are_not() {
        let words = ["layers", "heads", "lr", "context"];
        assert_eq!(nearest("layrs", words), Some("layers"));
        assert_eq!(nearest("laeyrs", words), Some("layers"));
        assert_eq!(nearest("LR", words), Some("lr"));
        assert_eq!(nearest("contxet", words), Some("context"));
        assert_eq!(nearest("optimizer", words), None);
        assert_eq!(nearest("x", words), None);
        assert_eq!(nearest("", words), None);
    }

    #[test]
    fn names_from_elsewhere_are_known_and_clash_with_no_leaf() {
        assert_eq!(known_elsewhere("n_layer").unwrap().path, "model.layers");
        assert_eq!(known_elsewhere("learning-rate").unwrap().path, "train.lr");
        for leaf in leaf::all() {
            for name in leaf.aka {
                assert!(leaf::find(name).is_none(), "{name} is a leaf itself");
                assert_eq!(known_elsewhere(name).unwrap().path, leaf.path, "{name} means two leaves");
            }
        }
    }

    #[test]
    fn a_short_name_finds_its_leaf_again() {
        for leaf in leaf::all() {
            assert_eq!(leaf::find(short(leaf)).unwrap().path, leaf.path);
        }
        assert_eq!(short(leaf::find("eval.batch").unwrap()), "eval.batch");
    }
}
