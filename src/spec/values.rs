//! What stands for a leaf: one value, or the values of an axis, listed, spaced or drawn. Each becomes a [`Setting`] of the leaf's
//! kind, with the place that a mistake in it is shown at.

use std::{ops::Bound, path::Path};

use serde_json::Value;

use super::{
    draw::{Draw, Law},
    kind::{Kind, list},
    layer::{Axis, MOST, Setting, counted},
    leaf,
    names::{self, nearest},
    source::{Fault, Place, Result},
    tree::{Content, Key, Node},
};

/// How the values of an axis can be given beside a list, and how one writes that.
const WAYS: [(&str, &str); 6] = [
    ("range", "{range: [1, 9, 2]}"),
    ("linspace", "{linspace: [0, 0.3, 4]}"),
    ("logspace", "{logspace: [1e-4, 1e-2, 5]}"),
    ("uniform", "{uniform: [0, 0.3]}"),
    ("log_uniform", "{log_uniform: [1e-4, 1e-2]}"),
    ("choice", "{choice: [64, 128]}"),
];

/// Any number of a spacing.
const ANY: Kind = Kind::Number(Bound::Unbounded, Bound::Unbounded);

/// Reads values. Paths among them are relative to `folder`.
pub(super) struct Reader<'a> {
    pub folder: &'a Path,
}

impl Reader<'_> {
    /// The axis of a leaf.
    pub fn axis(&self, leaf: usize, key: &Key, node: &Node) -> Result<Axis> {
        let name = &key.text;
        let (values, draw) = match &node.content {
            Content::List(items) => (items.iter().map(|item| self.value(leaf, item)).collect::<Result<_>>()?, None),
            Content::Map(entries) => {
                let way = Way::of(leaf, node, entries)?;
                match way.name {
                    "range" => (way.range()?, None),
                    "linspace" | "logspace" => (way.between()?, None),
                    "choice" => (Vec::new(), Some(Draw { place: node.place.clone(), law: self.choice(&way)? })),
                    _ => (Vec::new(), Some(Draw { place: node.place.clone(), law: way.drawn()? })),
                }
            }
            Content::Scalar { text, .. } => {
                let why = format!("an axis is a list of values, not {}", node.describe());
                let example = if text.is_empty() || node.is_null() { "…" } else { text };
                return Err(Fault::at(&node.place, why).hint(format!("`{name}: [{example}]`")));
            }
        };
        if values.is_empty() && draw.is_none() {
            let why = format!("the axis `{name}` has no values");
            return Err(Fault::at(&node.place, why).hint("give it one at least, or leave it out"));
        }
        Ok(Axis { leaf, place: key.place.clone(), values, draw })
    }

    /// What is chosen from.
    fn choice(&self, way: &Way) -> Result<Law> {
        let Content::List(items) = &way.arguments.content else {
            return Err(way.wrong("values", &way.arguments.describe()));
        };
        let values: Vec<Value> =
            items.iter().map(|item| Ok(self.value(way.leaf, item)?.value)).collect::<Result<_>>()?;
        if values.is_empty() {
            return Err(way.wrong("values", "of none"));
        }
        Ok(Law::Choice(values))
    }

    /// A scalar as a value of its leaf; `null` stands for the default.
    pub fn value(&self, index: usize, node: &Node) -> Result<Setting> {
        let leaf = leaf::at(index);
        let refuse = |takes: &str, hint: Option<String>| {
            let why = format!("`{}` takes {takes}, not {}", leaf.path, node.describe());
            Err(Fault::at(&node.place, why).maybe_hint(hint))
        };
        let under_grid = |example: &str| {
            Some(format!("to sweep it, write the values under `grid`: `grid: {{{}: {example}}}`", names::short(leaf)))
        };
        let value = match &node.content {
            Content::Scalar { .. } if node.is_empty() => {
                return refuse(&leaf.kind.describe(), Some(format!("`null` is its default, {}", leaf.default)));
            }
            Content::Scalar { .. } if node.is_null() => Value::Null,
            Content::Scalar { text, plain } => match leaf.kind.read(text, *plain) {
                Ok(_) if leaf.kind == Kind::Path => self.absolute(text, &node.place)?,
                Ok(value) => value,
                Err(misfit) => return refuse(&misfit.takes, misfit.hint),
            },
            Content::List(_) => return refuse(&leaf.kind.describe(), under_grid("[…]")),
            Content::Map(_) => {
                let way = way_of(node).and_then(|way| under_grid(&format!("{{{way}: […]}}")));
                return refuse(&leaf.kind.describe(), way);
            }
        };
        Ok(Setting { leaf: index, value, place: node.place.clone() })
    }

    /// A path that works from any folder: a run may be resumed from another than it was started in.
    fn absolute(&self, path: &str, place: &Place) -> Result<Value> {
        let path = self.folder.join(path);
        let whole = path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path);
        match whole.to_str() {
            Some(text) => Ok(text.into()),
            None => Err(Fault::at(place, format!("the path {} is not UTF-8", whole.display()))),
        }
    }
}

/// The way to give an axis that a map looks like.
pub(super) fn way_of(node: &Node) -> Option<&'static str> {
    let Content::Map(entries) = &node.content else { return None };
    let [(key, _)] = entries.as_slice() else { return None };
    WAYS.iter().map(|(name, _)| *name).find(|name| *name == key.text)
}

/// On the command line `1e-3,3e-4` is a list, as `[1e-3, 3e-4]` is, unless the leaf takes any text.
pub(super) fn unbracketed(kind: &Kind, node: &Node) -> Option<Node> {
    let Content::Scalar { text, plain: true } = &node.content else { return None };
    if !text.contains(',') || matches!(kind, Kind::Text | Kind::Path) {
        return None;
    }
    let mut from = 0;
    let item = |part: &str| {
        let start = from + part.len() - part.trim_start().len();
        from += part.len() + 1;
        let place = node.place.part(text, start..start + part.trim().len());
        Node { place, content: Content::Scalar { text: part.trim().into(), plain: true } }
    };
    let items = text.split(',').map(item).collect();
    Some(Node { place: node.place.clone(), content: Content::List(items) })
}

/// One of [`WAYS`], being read.
struct Way<'a> {
    leaf: usize,
    name: &'static str,
    example: &'static str,
    /// What stands behind its name.
    arguments: &'a Node,
}

/// A number in so many digits, unless it is whole: then it is what it is.
fn rounded(x: f64, count: usize) -> f64 {
    if x.fract() == 0.0 { x } else { digits(x, count) }
}

impl<'a> Way<'a> {
    /// The way that a map says.
    fn of(leaf: usize, node: &Node, entries: &'a [(Key, Node)]) -> Result<Self> {
        let names = WAYS.map(|(name, _)| name);
        let [(key, arguments)] = entries else {
            let why = "an axis is a list of values, or one way to give them";
            return Err(Fault::at(&node.place, why).hint(format!("there are {}", list(&names))));
        };
        let Some((name, example)) = WAYS.into_iter().find(|(name, _)| *name == key.text) else {
            let near = nearest(&key.text, names).map(|near| format!("did you mean `{near}`?"));
            let hint = near.unwrap_or_else(|| format!("there are {}, and lists", list(&names)));
            return Err(Fault::at(&key.place, format!("`{}` is no way to give an axis", key.text)).hint(hint));
        };
        let kind = leaf::at(leaf).kind;
        if name != "choice" && !matches!(kind, Kind::Integer { .. } | Kind::Number(..)) {
            let why = format!("`{name}` gives numbers, and `{}` takes {}", leaf::at(leaf).path, kind.describe());
            return Err(Fault::at(&key.place, why).hint("write its values as a list, or draw from them by `choice`"));
        }
        Ok(Self { leaf, name, example, arguments })
    }

    /// Two ends that values are drawn between.
    fn drawn(&self) -> Result<Law> {
        let arguments = self.arguments(&[2], "two ends")?;
        let [(low, from), (high, to)] = arguments[..] else { return Err(self.wrong("two ends", "that")) };
        let is_log = self.name == "log_uniform";
        if let Some((x, node)) = arguments.iter().find(|(x, _)| is_log && *x <= 0.0) {
            let why = format!("{} has no logarithm, so no `log_uniform` ends there", told(*x));
            return Err(Fault::at(&node.place, why).hint("the ends are the values themselves: `[1e-4, 1e-2]`"));
        }
        self.fit(low, &from.place)?;
        self.fit(high, &to.place)?;
        if low >= high {
            let why = format!(
                "`{}` draws from the lower end to the higher, and {} is not above {}",
                self.name,
                told(high),
                told(low)
            );
            return Err(Fault::at(&to.place, why));
        }
        Ok(if is_log { Law::LogUniform(low, high) } else { Law::Uniform(low, high) })
    }

    /// From the first up to the second, which is left out, by the third: as Python's `range`, and for fractions too. Sums
    /// are rounded to twelve digits, so that 0.1, 0.2, 0.3 are what one would write.
    fn range(&self) -> Result<Vec<Setting>> {
        let arguments = self.arguments(&[2, 3], "where it starts, where it stops, and perhaps by how much it goes")?;
        let whole = matches!(leaf::at(self.leaf).kind, Kind::Integer { .. });
        if let Some((x, node)) = arguments.iter().find(|(x, _)| whole && x.fract() != 0.0) {
            let why = format!("`{}` takes integers, and {} is none", leaf::at(self.leaf).path, told(*x));
            return Err(Fault::at(&node.place, why));
        }
        let (start, stop) = (arguments[0].0, arguments[1].0);
        let step = arguments.get(2).map_or(1.0, |(step, _)| *step);
        if step == 0.0 {
            return Err(Fault::at(&arguments[2].1.place, "a range by steps of 0 never ends"));
        }
        let count = ((stop - start) / step - 1e-9).ceil();
        if count <= 0.0 {
            let why = format!("no value lies from {} by {} before {}", told(start), told(step), told(stop));
            return Err(Fault::at(&self.arguments.place, why).hint("the stop itself is left out, as in Python"));
        }
        let count = self.bounded(count, &self.arguments.place)?;
        let value = |k: usize| if k == 0 { start } else { rounded(start + k as f64 * step, 12) };
        let place = |k: usize| if k == 0 { &arguments[0].1.place } else { &self.arguments.place };
        (0..count).map(|k| self.fit(value(k), place(k))).collect()
    }

    /// So many from the first to the second, both included, equally far apart: in themselves, or in their logarithms.
    fn between(&self) -> Result<Vec<Setting>> {
        let arguments = self.arguments(&[3], "both ends and how many")?;
        let [(first, from), (last, to), (count, how_many)] = arguments[..] else { return Ok(Vec::new()) };
        if count.fract() != 0.0 || count < 2.0 {
            let why = format!("`{}` takes how many values as its third, 2 or more, not {}", self.name, told(count));
            return Err(Fault::at(&how_many.place, why).hint("both ends are among them"));
        }
        let count = self.bounded(count, &how_many.place)?;
        if first == last {
            return Err(Fault::at(&to.place, "both ends are the same").hint("one value is a list of one"));
        }
        let is_log = self.name == "logspace";
        if let Some((x, node)) = arguments[..2].iter().find(|(x, _)| is_log && *x <= 0.0) {
            let why = format!("{} has no logarithm, so no `logspace` ends there", told(*x));
            return Err(Fault::at(&node.place, why).hint("the ends are the values themselves: `[1e-4, 1e-2, 5]`"));
        }
        let between = |k: usize| {
            let share = k as f64 / (count - 1) as f64;
            match is_log {
                true => (first.ln() + (last.ln() - first.ln()) * share).exp(),
                false => first + (last - first) * share,
            }
        };
        let value = |k: usize| match k {
            0 => self.fit(first, &from.place),
            k if k + 1 == count => self.fit(last, &to.place),
            k => self.fit(rounded(between(k), 6), &how_many.place),
        };
        let values: Vec<Setting> = (0..count).map(value).collect::<Result<_>>()?;
        match values.windows(2).find(|two| two[0].value == two[1].value) {
            Some(two) => {
                let why = format!("so many values lie so near that {} is among them twice", two[0].value);
                Err(Fault::at(&how_many.place, why).hint("values between the ends have six digits"))
            }
            None => Ok(values),
        }
    }

    /// The numbers that it is given, as many as one of `counts`, each with where it stands.
    fn arguments(&self, counts: &[usize], what: &str) -> Result<Vec<(f64, &Node)>> {
        let Content::List(items) = &self.arguments.content else {
            return Err(self.wrong(what, &self.arguments.describe()));
        };
        if !counts.contains(&items.len()) {
            return Err(self.wrong(what, &format!("of {}", counted(items.len()))));
        }
        items.iter().map(|item| Ok((self.number(item)?, item))).collect()
    }

    fn wrong(&self, what: &str, found: &str) -> Box<Fault> {
        let why = format!("`{}` takes a list of {what}, not {found}", self.name);
        Fault::at(&self.arguments.place, why).hint(format!("`{}`", self.example))
    }

    fn number(&self, node: &Node) -> Result<f64> {
        let read = match &node.content {
            Content::Scalar { text, plain } => ANY.read(text, *plain).map_err(|misfit| misfit.hint),
            _ => Err(None),
        };
        read.map(|x| x.as_f64().unwrap_or_default()).map_err(|hint| {
            let why = format!("`{}` takes numbers, not {}", self.name, node.describe());
            Fault::at(&node.place, why).maybe_hint(hint)
        })
    }

    fn bounded(&self, count: f64, place: &Place) -> Result<usize> {
        if count > MOST as f64 {
            let why = format!("`{}` gives {} values, and a sweep has {MOST} points at most", self.name, told(count));
            return Err(Fault::at(place, why));
        }
        Ok(count as usize)
    }

    /// A number that comes of it as a value of its leaf.
    fn fit(&self, x: f64, place: &Place) -> Result<Setting> {
        let leaf = leaf::at(self.leaf);
        match leaf.kind.read(&format!("{x:?}"), true) {
            Ok(value) => Ok(Setting { leaf: self.leaf, value, place: place.clone() }),
            Err(misfit) => {
                let why = format!("`{}` takes {}, and `{}` gives {}", leaf.path, misfit.takes, self.name, told(x));
                Err(Fault::at(place, why).hint("change its ends or how many there are, or write the values as a list"))
            }
        }
    }
}

/// A number of so many significant digits at most. Decimal, so that it is what one would write.
pub(super) fn digits(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits - 1).parse().unwrap_or(x)
}

/// A number as one would write it: `4`, `0.25`, `1e-5`.
pub(super) fn told(x: f64) -> String {
    let text = format!("{x:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_decimal() {
        assert_eq!(digits(0.1 + 0.2, 12), 0.3);
        assert_eq!(digits(3.162_277_660_168e-4, 6), 3.16228e-4);
        assert_eq!([0.0, -1234567.0, 1e300, 5e-324].map(|x| digits(x, 6)), [0.0, -1234570.0, 1e300, 5e-324]);
        assert_eq!([4.0, 0.25, 1e-5, 1e16].map(told), ["4", "0.25", "1e-5", "1e16"]);
    }
}
