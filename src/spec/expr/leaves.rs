//! The leaves of a spec as names of expressions.

use super::{Field, Kind, Names, Value};
use crate::spec::{
    RunConfig,
    kind::{self, list},
    leaf::{self, GROUPS},
    names::{known_elsewhere, nearest, short},
};

/// All leaves, by their paths and last words. A field's index is that in [`leaf::all`].
pub struct Leaves;

impl Names for Leaves {
    fn find(&self, name: &str) -> Result<Field, (String, Option<String>)> {
        let index = leaf::lookup(name).map_err(|candidates| {
            let paths: Vec<_> = candidates.iter().map(|leaf| leaf.path).collect();
            if !paths.is_empty() {
                return (
                    format!("`{name}` is ambiguous: {}", list(&paths)),
                    Some("write the path that you mean".into()),
                );
            }
            let hint = known_elsewhere(name).map(|leaf| format!("it is `{}` here", leaf.path)).or_else(|| {
                let names = leaf::all().iter().flat_map(|leaf| [short(leaf), leaf.path]);
                nearest(name, names.chain(GROUPS)).map(|near| format!("did you mean `{near}`?"))
            });
            (format!("unknown name `{name}`"), hint)
        })?;
        if index >= leaf::all().len() {
            let budget = leaf::at(index);
            let others = leaf::all().iter().find(|leaf| leaf.word() == budget.word());
            let also = others.map_or(String::new(), |leaf| format!("; `{}` is a setting", leaf.path));
            let why = format!("`{}` is a budget, and no run has it", budget.path);
            return Err((why, Some(format!("`steps` is what comes of it{also}"))));
        }
        let (kind, words): (Kind, &'static [&'static str]) = match leaf::all()[index].kind {
            kind::Kind::Integer { .. } | kind::Kind::Number(..) => (Kind::Number, &[]),
            kind::Kind::Bool => (Kind::Bool, &[]),
            kind::Kind::Words(words) => (Kind::Text, words),
            kind::Kind::Text | kind::Kind::Path | kind::Kind::Device | kind::Kind::RunId => (Kind::Text, &[]),
        };
        Ok(Field { index, kind, words })
    }
}

impl Leaves {
    /// The value of the leaf of an index in a config.
    pub fn value(index: usize, config: &RunConfig) -> Value {
        match leaf::all()[index].get(config) {
            serde_json::Value::Bool(b) => Value::Bool(b),
            serde_json::Value::Number(n) => n.as_f64().map_or(Value::None, Value::Number),
            serde_json::Value::String(text) => Value::Text(text),
            _ => Value::None,
        }
    }
}
