//! Whether names are known and kinds go together.

use super::{Field, Function, Kind, Names, Node, Order, Value, What, Wrong};
use crate::spec::{kind::list, names::nearest};

/// Finds the names of a tree, and tells of what kind it is; `None` is `none`, which goes with every kind.
pub fn check(node: &mut Node, names: &dyn Names) -> Result<Option<Kind>, Wrong> {
    let (from, to) = (node.from, node.to);
    Ok(Some(match &mut node.what {
        What::Value(Value::None) => return Ok(None),
        What::Value(Value::Bool(_)) => Kind::Bool,
        What::Value(Value::Number(_)) => Kind::Number,
        What::Value(Value::Text(_)) => Kind::Text,
        What::Value(Value::List(_)) => Kind::List,
        What::Field(field) => field.kind,
        What::Name(name) => {
            let field = names.find(name).map_err(|(why, hint)| Wrong { from, to, why, hint })?;
            node.what = What::Field(field);
            field.kind
        }
        What::Not(of) => needs(of, Kind::Bool, names)?,
        What::And(parts) | What::Or(parts) => {
            parts.iter_mut().try_for_each(|part| needs(part, Kind::Bool, names).map(drop))?;
            Kind::Bool
        }
        What::Negative(of) => needs(of, Kind::Number, names)?,
        What::Arithmetic(_, left, right) => {
            needs(left, Kind::Number, names)?;
            needs(right, Kind::Number, names)?
        }
        What::Chain(nodes, orders) => {
            for (i, order) in orders.iter().enumerate() {
                let (before, after) = nodes.split_at_mut(i + 1);
                compared(&mut before[i], *order, &mut after[0], names)?;
            }
            Kind::Bool
        }
        What::In { what, list, .. } => {
            for member in list {
                compared(what, Order::Equal, member, names)?;
            }
            check(what, names)?;
            Kind::Bool
        }
        What::Within { what, list, .. } => {
            needs(list, Kind::List, names)
                .map_err(|wrong| wrong.hint("a list: layers in [2, 4], or \"mine\" in tags"))?;
            needs(what, Kind::Text, names)?;
            Kind::Bool
        }
        What::Call(function, arguments) => {
            let (wanted, count, kind) = match function {
                Function::Contains | Function::StartsWith => (Kind::Text, 2..=2, Kind::Bool),
                Function::Max | Function::Min => (Kind::Number, 2..=usize::MAX, Kind::Number),
                _ => (Kind::Number, 1..=1, Kind::Number),
            };
            if !count.contains(&arguments.len()) {
                let takes = if *count.end() == usize::MAX { "two or more".into() } else { count.end().to_string() };
                let why = format!("it takes {takes} in the parentheses, and there are {}", arguments.len());
                return Err(Wrong { from, to, why, hint: None });
            }
            arguments.iter_mut().try_for_each(|argument| needs(argument, wanted, names).map(drop))?;
            kind
        }
    }))
}

/// Checks a part that has to be of a kind.
fn needs(node: &mut Node, wanted: Kind, names: &dyn Names) -> Result<Kind, Wrong> {
    match check(node, names)? {
        Some(kind) if kind != wanted => {
            let wrong = Wrong::at(node, format!("this is {}, and {} is wanted", kind.noun(), wanted.noun()));
            Err(if wanted == Kind::Bool { wrong.hint("a condition compares things: layers >= 4") } else { wrong })
        }
        _ => Ok(wanted),
    }
}

/// Checks two parts that are compared.
fn compared(left: &mut Node, order: Order, right: &mut Node, names: &dyn Names) -> Result<(), Wrong> {
    word(left, right, names)?;
    word(right, left, names)?;
    let kinds = (check(left, names)?, check(right, names)?);
    let is_equality = matches!(order, Order::Equal | Order::Unequal);
    match kinds {
        (Some(left), Some(right_kind)) if left != right_kind => {
            let why = format!("this is {}, and it is compared with {}", right_kind.noun(), left.noun());
            Err(Wrong::at(right, why))
        }
        (Some(Kind::List), _) | (_, Some(Kind::List)) => {
            Err(Wrong::at(right, "lists are not compared").hint("\"mine\" in tags"))
        }
        (Some(Kind::Number | Kind::Text), Some(_)) => Ok(()),
        _ if is_equality => Ok(()),
        _ => Err(Wrong::at(right, "only numbers and texts are less or greater than others")),
    }
}

/// Where a part is a word that stands for nothing, and is compared with what is a text, it is that text.
fn word(node: &mut Node, beside: &mut Node, names: &dyn Names) -> Result<(), Wrong> {
    let of = match &beside.what {
        What::Field(field) => Some(*field),
        What::Name(name) => names.find(name).ok(),
        _ => None,
    };
    let Some(Field { kind: Kind::Text, words, .. }) = of else { return Ok(()) };
    let text = match &node.what {
        What::Name(name) if words.contains(&name.as_str()) || names.find(name).is_err() => name.clone(),
        What::Value(Value::Text(text)) => text.clone(),
        What::Value(Value::None) if words.contains(&"none") => "none".to_owned(), // a word like others there
        _ => return Ok(()),
    };
    if !words.is_empty() && !words.contains(&text.as_str()) {
        let hint = match nearest(&text, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it is one of {}", list(words)),
        };
        return Err(Wrong::at(node, format!("`{text}` is never what this is compared with")).hint(hint));
    }
    node.what = What::Value(Value::Text(text));
    Ok(())
}
