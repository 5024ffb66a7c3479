//! What a checked tree comes to.

use super::{Function, Node, Order, Value, What};

/// The value of a tree, with the values of its names.
pub fn eval(node: &Node, of: &dyn Fn(usize) -> Value) -> Value {
    let number = |node: &Node| match eval(node, of) {
        Value::Number(number) => Some(number),
        _ => None,
    };
    let holds = |node: &Node| eval(node, of) == Value::Bool(true);
    match &node.what {
        What::Value(value) => value.clone(),
        What::Name(_) => Value::None, // there are none in a checked tree
        What::Field(field) => of(field.index),
        What::Not(inner) => Value::Bool(!holds(inner)),
        What::And(parts) => Value::Bool(parts.iter().all(holds)),
        What::Or(parts) => Value::Bool(parts.iter().any(holds)),
        What::Negative(inner) => number(inner).map_or(Value::None, |x| Value::Number(-x)),
        What::Arithmetic(sign, left, right) => match (number(left), number(right)) {
            (Some(left), Some(right)) => Value::Number(arithmetic(*sign, left, right)),
            _ => Value::None,
        },
        What::Chain(nodes, orders) => {
            let values: Vec<Value> = nodes.iter().map(|node| eval(node, of)).collect();
            Value::Bool(orders.iter().zip(values.windows(2)).all(|(order, pair)| compare(&pair[0], *order, &pair[1])))
        }
        What::In { what, list, is_in } => {
            let value = eval(what, of);
            Value::Bool(list.iter().any(|member| compare(&value, Order::Equal, &eval(member, of))) == *is_in)
        }
        What::Within { what, list, is_in } => match (eval(what, of), eval(list, of)) {
            (Value::Text(text), Value::List(list)) => Value::Bool(list.contains(&text) == *is_in),
            _ => Value::Bool(!is_in),
        },
        What::Call(function, arguments) => call(*function, &arguments.iter().map(|a| eval(a, of)).collect::<Vec<_>>()),
    }
}

fn arithmetic(sign: char, left: f64, right: f64) -> f64 {
    match sign {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        '/' => left / right,
        '%' => left - right * (left / right).floor(), // of the divisor's sign
        _ => left.powf(right),
    }
}

/// What is not there is equal to nothing but itself, and neither less nor greater than anything.
fn compare(left: &Value, order: Order, right: &Value) -> bool {
    let ordering = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(std::cmp::Ordering::Equal),
    };
    match order {
        Order::Equal => ordering.is_some_and(|o| o.is_eq()),
        Order::Unequal => !ordering.is_some_and(|o| o.is_eq()),
        Order::Less => ordering.is_some_and(|o| o.is_lt()),
        Order::AtMost => left != &Value::None && ordering.is_some_and(|o| o.is_le()),
        Order::Greater => ordering.is_some_and(|o| o.is_gt()),
        Order::AtLeast => left != &Value::None && ordering.is_some_and(|o| o.is_ge()),
    }
}

fn call(function: Function, arguments: &[Value]) -> Value {
    if let [Value::Text(text), Value::Text(part)] = arguments {
        return Value::Bool(match function {
            Function::StartsWith => text.starts_with(part),
            _ => text.contains(part),
        });
    }
    let numbers: Option<Vec<f64>> = arguments
        .iter()
        .map(|value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
        .collect();
    let Some(numbers) = numbers else { return Value::None };
    let of_one: fn(f64) -> f64 = match function {
        Function::Max => return Value::Number(numbers.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        Function::Min => return Value::Number(numbers.into_iter().fold(f64::INFINITY, f64::min)),
        Function::Abs => f64::abs,
        Function::Ceil => f64::ceil,
        Function::Exp => f64::exp,
        Function::Floor => f64::floor,
        Function::Log => f64::ln,
        Function::Log10 => f64::log10,
        Function::Log2 => f64::log2,
        Function::Round => f64::round,
        Function::Sqrt => f64::sqrt,
        Function::Contains | Function::StartsWith => return Value::None,
    };
    numbers.first().map_or(Value::None, |x| Value::Number(of_one(*x)))
}
