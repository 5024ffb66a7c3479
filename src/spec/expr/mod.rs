//! The one language of conditions and arithmetic: `layers >= 4 and best_val_loss < 1.7`.
//!
//! ```text
//! or  and  not                          of conditions
//! ==  !=  <  <=  >  >=                  of two of a kind, = for ==; a chain holds where each link does: 2 < layers <= 8
//! in  not in                            a list, [2, 4] or (2, 4), or what is one, tags
//! +  -  *  /  %  **  -x                 of numbers; % is what is left of a division, as in Python
//! abs ceil exp floor log log10 log2 max min round sqrt    of numbers; log is the natural one
//! contains starts_with                  of texts
//! 12  1e-3  "a text"  'a text'  rope    rope is a text where it is compared with what has such words
//! true  false  none                     what is not there is none: equal to nothing else, neither less nor greater
//! ```
//!
//! Names are whatever the place of an expression knows: leaves in a spec, and what became of a run in a list of runs. Kinds
//! are checked before anything is computed, so that a slip is found once and not in each run.

mod check;
mod eval;
mod leaves;
mod lexer;
mod parse;

pub use self::leaves::Leaves;
use super::source::{self, Fault, Place, Source};
use crate::base::Result as BaseResult;

/// What an expression comes to, or a name stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// What is not there, or has no value.
    None,
    /// A condition that holds or does not.
    Bool(bool),
    /// Any number.
    Number(f64),
    /// A text or a word.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// Of what kind a value is, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Bool`].
    Bool,
    /// [`Value::Number`].
    Number,
    /// [`Value::Text`].
    Text,
    /// [`Value::List`].
    List,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Bool => "a condition",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
        }
    }
}

/// A name that an expression may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// By what its value is asked for.
    pub index: usize,
    /// Of what kind it is.
    pub kind: Kind,
    /// The texts that it may be; none where it may be any.
    pub words: &'static [&'static str],
}

/// The names that the place of an expression knows.
pub trait Names {
    /// What a name stands for; otherwise what is wrong with it, and what to do.
    fn find(&self, name: &str) -> std::result::Result<Field, (String, Option<String>)>;
}

/// An expression whose names are known and whose kinds go together.
#[derive(Clone, Debug)]
pub struct Expr {
    node: Node,
}

/// A part of one, and where it stands: byte offsets of the text.
#[derive(Clone, Debug)]
struct Node {
    what: What,
    from: usize,
    to: usize,
}

#[derive(Clone, Debug)]
enum What {
    Value(Value),
    /// As it was written; [`check`] makes a field or a text of it.
    Name(String),
    Field(Field),
    Not(Box<Node>),
    Negative(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    /// Each link compares a node with the one after it.
    Chain(Vec<Node>, Vec<Order>),
    In {
        what: Box<Node>,
        list: Vec<Node>,
        is_in: bool,
    },
    /// The same with a list that is a value.
    Within {
        what: Box<Node>,
        list: Box<Node>,
        is_in: bool,
    },
    Arithmetic(char, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Abs,
    Ceil,
    Exp,
    Floor,
    Log,
    Log10,
    Log2,
    Max,
    Min,
    Round,
    Sqrt,
    Contains,
    StartsWith,
}

/// A fault in an expression, before it is known where that stands.
struct Wrong {
    from: usize,
    to: usize,
    why: String,
    hint: Option<String>,
}

impl Wrong {
    fn at(node: &Node, why: impl Into<String>) -> Self {
        Self { from: node.from, to: node.to, why: why.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Expr {
    /// Reads an argument of the command line, which has to come to a condition.
    ///
    /// # Errors
    /// [`Exit::Usage`](crate::base::Exit) with a caret under what is wrong.
    pub fn condition(text: &str, names: &dyn Names) -> BaseResult<Self> {
        let read = Self::read(text, names, Kind::Bool);
        read.map_err(|wrong| {
            let source = Source::argument(text.replace(['\n', '\r', '\t'], " "));
            let place = Place { line: 1, column: 0, width: 0, source };
            wrong.placed(place.source.text(), &place).usage().into_error("reading a condition".into())
        })
    }

    /// Reads a scalar of a spec, which stands at a place and has to come to a kind.
    pub(in crate::spec) fn of_spec(text: &str, place: &Place, names: &dyn Names, wanted: Kind) -> source::Result<Self> {
        Self::read(text, names, wanted).map_err(|wrong| wrong.placed(text, place))
    }

    fn read(text: &str, names: &dyn Names, wanted: Kind) -> std::result::Result<Self, Wrong> {
        let mut node = parse::parse(text)?;
        let kind = check::check(&mut node, names)?;
        match kind {
            Some(kind) if kind == wanted => Ok(Self { node }),
            kind => {
                let is = kind.map_or("none", Kind::noun);
                let wrong = Wrong::at(&node, format!("this is {is}, and {} is wanted", wanted.noun()));
                Err(match wanted {
                    Kind::Bool => wrong.hint("compare it with something: layers >= 4"),
                    _ => wrong,
                })
            }
        }
    }

    /// What it comes to, with the value of each name by its field's index.
    pub fn value(&self, of: &dyn Fn(usize) -> Value) -> Value {
        eval::eval(&self.node, of)
    }

    /// The indices of the fields that it names, each once.
    pub(in crate::spec) fn fields(&self) -> Vec<usize> {
        let mut fields = Vec::new();
        self.node.walk(&mut |node| match node.what {
            What::Field(field) if !fields.contains(&field.index) => fields.push(field.index),
            _ => {}
        });
        fields
    }

    /// Whether it holds. What comes to none does not.
    pub fn holds(&self, of: &dyn Fn(usize) -> Value) -> bool {
        self.value(of) == Value::Bool(true)
    }
}

impl Node {
    /// Shows each node of the tree.
    fn walk(&self, visit: &mut dyn FnMut(&Node)) {
        visit(self);
        let mut all = |nodes: &[Node]| nodes.iter().for_each(|node| node.walk(visit));
        match &self.what {
            What::Value(_) | What::Name(_) | What::Field(_) => {}
            What::Not(of) | What::Negative(of) => of.walk(visit),
            What::And(parts) | What::Or(parts) | What::Chain(parts, _) | What::Call(_, parts) => all(parts),
            What::In { what, list, .. } => {
                all(list);
                what.walk(visit);
            }
            What::Within { what: left, list: right, .. } | What::Arithmetic(_, left, right) => {
                left.walk(visit);
                right.walk(visit);
            }
        }
    }
}

impl Wrong {
    /// The fault, in a text that is read from a place.
    fn placed(self, text: &str, place: &Place) -> Box<Fault> {
        Fault::at(&place.part(text, self.from..self.to), self.why).maybe_hint(self.hint)
    }
}

#[cfg(test)]
mod tests;
