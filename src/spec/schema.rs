//! The JSON Schema of a spec, for editors: completion, and a mark under what is wrong while it is typed. Generated from
//! the leaf table. What it cannot say (a leaf under two names, heads that do not divide) only [`super::load`] checks.

use serde_json::{Map, Value, json};

use super::{
    Kind, RunConfig,
    blocks::MAX_BLOCKS,
    layer::MOST,
    leaf::{self, GROUPS, Leaf},
    names::short,
    search,
};

/// The schema (draft 2020-12).
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for leaf in settable() {
        definitions.insert(leaf.path.into(), definition(leaf));
        definitions.insert(axis_of(leaf.path), axis(leaf));
    }
    definitions.insert("point".into(), object(names(|path| path.to_owned())));
    definitions.insert("condition".into(), condition());
    definitions.insert("spaced".into(), spaced());
    definitions.insert("drawn".into(), drawn());
    definitions.insert("arithmetic".into(), arithmetic());
    definitions.insert("derivations".into(), object(names(|_| "arithmetic".to_owned())));
    definitions.insert("block".into(), block());
    definitions.insert("axes".into(), object(names(axis_of)));
    let mut properties = own_keys();
    properties.extend(names(|path| path.to_owned()));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A spec of exp",
        "description": "What to train, and which values to sweep.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions,
    })
}

/// The keys beside groups and leaves.
fn own_keys() -> Map<String, Value> {
    let points = json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/point"}});
    let which = json!({"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/condition"}]});
    let seed = json!({"type": "integer", "minimum": 0});
    let described = |mut schema: Value, text: &str| {
        schema["description"] = text.into();
        schema
    };
    let keys = [
        (
            "experiment",
            json!({"type": ["string", "number"], "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$", "maxLength": 100}),
            "The name that runs and reports go by; the file's name without its ending if left out. Not inherited.",
        ),
        (
            "base",
            json!({"type": "string", "minLength": 1}),
            "Another spec to inherit from, relative to this file. What stands here replaces what stands there.",
        ),
        (
            "grid",
            nullable("#/$defs/axes"),
            "Axes, each a list of values or a way to space them; every combination is a run, the last axis walking fastest.",
        ),
        (
            "zip",
            json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/axes"}}),
            "Groups of equally long axes that are walked together.",
        ),
        (
            "exclude",
            json!({"type": ["array", "null"], "items": which}),
            "Points to leave out of the grid: those that have all the values of an entry, or for which its condition holds.",
        ),
        ("include", points, "Points to add: the settings outside `grid` with the values of an entry, for every seed."),
        (
            "blocks",
            json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/block"}, "maxItems": MAX_BLOCKS}),
            "Axes and settings for those points of the grid alone for which a condition holds.",
        ),
        ("derive", nullable("#/$defs/derivations"), "Leaves that follow from others by arithmetic: min_lr: lr / 10."),
        (
            "samples",
            json!({"type": ["integer", "null"], "minimum": 1, "maximum": MOST}),
            "How often random axes are drawn; every point of the other axes has the same samples.",
        ),
        (
            "sample_seed",
            json!({"type": "integer", "minimum": 0, "default": 1}),
            "The seed of random axes: the same values on every machine.",
        ),
        (
            "seeds",
            json!({"oneOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST},
                {"type": "array", "items": seed, "minItems": 1},
                {"$ref": "#/$defs/spaced"},
            ]}),
            "Repeats every point: 3 stands for `train.seed` 1, 2 and 3; a list is the seeds themselves.",
        ),
        ("search", search::schema(), "Stops runs that fall behind: they pause at a checkpoint, and may go on later."),
    ];
    keys.into_iter().map(|(key, schema, text)| (key.to_owned(), described(schema, text))).collect()
}

/// Every way to name a leaf: within its group, by its path, and by its last word where that is enough. `target` gives
/// the name of the definition.
fn names(target: impl Fn(&str) -> String) -> Map<String, Value> {
    let reference = |leaf: &Leaf| json!({"$ref": format!("#/$defs/{}", target(leaf.path))});
    let mut all = Map::new();
    for group in GROUPS {
        let words = settable().filter(|leaf| leaf.group() == group);
        let mut schema = object(words.map(|leaf| (leaf.word().to_owned(), reference(leaf))).collect());
        schema["type"] = json!(["object", "null"]);
        all.insert(group.into(), schema);
    }
    for leaf in settable() {
        all.insert(leaf.path.into(), reference(leaf));
        all.insert(short(leaf).into(), reference(leaf));
    }
    all
}

fn definition(leaf: &Leaf) -> Value {
    let mut schema = leaf.kind.schema();
    schema["description"] = format!("{} Default: {}.", leaf.doc, leaf.default).into();
    let default = leaf.get(&RunConfig::default());
    if !leaf.is_derived() && !default.is_null() {
        schema["default"] = default;
    }
    schema
}

fn axis(leaf: &Leaf) -> Value {
    let list = json!({"type": "array", "items": {"$ref": format!("#/$defs/{}", leaf.path)}, "minItems": 1});
    match leaf.kind {
        Kind::Integer { .. } | Kind::Number(..) => {
            json!({"anyOf": [list, {"$ref": "#/$defs/spaced"}, {"$ref": "#/$defs/drawn"}]})
        }
        _ => json!({"anyOf": [list, {"$ref": "#/$defs/drawn"}]}),
    }
}

/// The leaves and the budgets.
fn settable() -> impl Iterator<Item = &'static Leaf> {
    (0..leaf::COUNT).map(leaf::at)
}

/// The values of a random axis.
fn drawn() -> Value {
    let ends = |text: &str| json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2, "description": text});
    one_of(Map::from_iter([
        ("uniform".into(), ends("[low, high]; drawn `samples` times.")),
        ("log_uniform".into(), ends("[low, high]; drawn `samples` times, evenly in their logarithms.")),
        (
            "choice".into(),
            json!({"type": "array", "minItems": 1, "description": "What is drawn from, `samples` times."}),
        ),
    ]))
}

/// What a leaf follows from.
fn arithmetic() -> Value {
    json!({
        "type": ["string", "number", "boolean"],
        "description": "Arithmetic over other leaves: 4 * d_model, ceil(tokens / (batch * context)), steps > 100. There are + - * / % **, abs ceil exp floor log log10 log2 max min round sqrt.",
    })
}

/// Axes and settings for some points.
fn block() -> Value {
    let mut schema = object(Map::from_iter([
        ("when".into(), json!({"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/condition"}]})),
        ("grid".into(), json!({"$ref": "#/$defs/axes"})),
        ("zip".into(), json!({"type": "array", "items": {"$ref": "#/$defs/axes"}})),
        ("set".into(), json!({"$ref": "#/$defs/point"})),
    ]));
    schema["required"] = json!(["when"]);
    schema
}

/// A condition over leaves.
fn condition() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "description": "A condition over leaves: layers == 8 and lr > 1e-3. There are and, or, not, ==, !=, <, <=, >, >=, in [2, 4], + - * / % **.",
    })
}

/// The values of an axis by how they are spaced.
fn spaced() -> Value {
    let numbers = |least: usize, text: &str| json!({"type": "array", "items": {"type": "number"}, "minItems": least, "maxItems": 3, "description": text});
    one_of(Map::from_iter([
        ("range".into(), numbers(2, "[start, stop, step]; the stop is left out.")),
        ("linspace".into(), numbers(3, "[first, last, how many]; both ends are among them.")),
        (
            "logspace".into(),
            numbers(
                3,
                "[first, last, how many], equally far apart in their logarithms; the ends are the values themselves.",
            ),
        ),
    ]))
}

/// An object of one of these properties.
fn one_of(properties: Map<String, Value>) -> Value {
    let mut schema = object(properties);
    schema["minProperties"] = 1.into();
    schema["maxProperties"] = 1.into();
    schema
}

fn axis_of(path: &str) -> String {
    format!("axis-{path}")
}

fn object(properties: Map<String, Value>) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn nullable(reference: &str) -> Value {
    json!({"anyOf": [{"$ref": reference}, {"type": "null"}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_leaf_is_described() {
        let schema = schema();
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        references(&schema, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{reference}");
        }
        for leaf in leaf::all() {
            let text = schema["$defs"][leaf.path]["description"].as_str().unwrap();
            assert!(text.contains(leaf.doc) && text.contains(leaf.default), "{text}");
        }
    }

    #[test]
    fn a_leaf_is_completed_wherever_it_may_stand() {
        let schema = schema();
        let lr = json!({"$ref": "#/$defs/train.lr"});
        assert_eq!(schema["properties"]["lr"], lr);
        assert_eq!(schema["properties"]["train.lr"], lr);
        assert_eq!(schema["properties"]["train"]["properties"]["lr"], lr);
        assert_eq!(schema["$defs"]["point"]["properties"]["lr"], lr);
        assert_eq!(schema["$defs"]["axes"]["properties"]["lr"]["$ref"], "#/$defs/axis-train.lr");
        assert_eq!(schema["properties"]["batch"]["$ref"], "#/$defs/train.batch");
        assert!(schema["properties"].get("every").is_none(), "it is ambiguous");
        assert_eq!(schema["$defs"]["train.schedule"]["enum"], json!(["cosine", "linear", "constant", null]));
        assert_eq!(schema["$defs"]["train.lr"]["exclusiveMinimum"], 0.0);
    }
}
