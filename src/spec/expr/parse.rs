//! From words to a tree. Each function takes what binds at least as tightly as its name says.

use super::{
    Function, Node, Order, Value, What, Wrong,
    lexer::{Token, Word, words},
};
use crate::spec::names::nearest;

/// How deep an expression may nest: beyond it is no person's.
const DEEPEST: usize = 64;

/// How many terms a sum or a product may have: each is one level of the tree.
const LONGEST: usize = 1000;

/// The tree of a text.
pub fn parse(text: &str) -> Result<Node, Wrong> {
    let mut parser = Parser { tokens: words(text)?, at: 0, depth: 0 };
    if parser.token().what == Word::End {
        return Err(parser.wrong("there is nothing here"));
    }
    let node = parser.or()?;
    match parser.token().what {
        Word::End => Ok(node),
        _ => Err(parser
            .wrong("nothing can follow here: what is before it is whole")
            .hint("`and` and `or` join conditions; there are == != < <= > >= and `in [2, 4]`")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn next(&mut self) -> Token {
        let token = self.token().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn wrong(&self, why: &str) -> Wrong {
        let token = self.token();
        Wrong { from: token.from, to: token.to, why: why.into(), hint: None }
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let is_it = matches!(&self.token().what, Word::Name(word) if word == name);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Word::Sign(sign) = self.token().what else { return None };
        let found = signs.contains(&sign).then_some(sign);
        self.at += usize::from(found.is_some());
        found
    }

    fn needs_sign(&mut self, sign: &'static str) -> Result<(), Wrong> {
        match self.takes_sign(&[sign]) {
            Some(_) => Ok(()),
            None => Err(self.wrong(&format!("`{sign}` is missing here"))),
        }
    }

    fn or(&mut self) -> Result<Node, Wrong> {
        self.joined("or", Self::and, What::Or)
    }

    fn and(&mut self) -> Result<Node, Wrong> {
        self.joined("and", Self::not, What::And)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node, Wrong>,
        join: fn(Vec<Node>) -> What,
    ) -> Result<Node, Wrong> {
        let mut parts = vec![part(self)?];
        while self.takes_name(word) {
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            n => Node { from: parts[0].from, to: parts[n - 1].to, what: join(parts) },
        })
    }

    fn not(&mut self) -> Result<Node, Wrong> {
        let from = self.token().from;
        if !self.takes_name("not") {
            return self.comparison();
        }
        let of = self.deeper(Self::not)?;
        Ok(Node { from, to: of.to, what: What::Not(Box::new(of)) })
    }

    fn comparison(&mut self) -> Result<Node, Wrong> {
        let first = self.sum()?;
        let (from, before) = (first.from, self.at);
        let is_in = !self.takes_name("not");
        if self.takes_name("in") {
            return self.within(first, is_in);
        }
        self.at = before;
        let (mut nodes, mut orders) = (vec![first], Vec::new());
        while let Some(sign) = self.takes_sign(&["==", "=", "!=", "<=", ">=", "<", ">"]) {
            orders.push(match sign {
                "==" | "=" => Order::Equal,
                "!=" => Order::Unequal,
                "<" => Order::Less,
                "<=" => Order::AtMost,
                ">" => Order::Greater,
                _ => Order::AtLeast,
            });
            nodes.push(self.sum()?);
        }
        Ok(match nodes.len() {
            1 => nodes.remove(0),
            n => Node { from, to: nodes[n - 1].to, what: What::Chain(nodes, orders) },
        })
    }

    fn within(&mut self, what: Node, is_in: bool) -> Result<Node, Wrong> {
        let (from, what) = (what.from, Box::new(what));
        let list = match self.takes_sign(&["[", "("]) {
            Some("[") => self.listed("]")?,
            Some(_) => self.listed(")")?, // as SQL has it
            None => {
                let list = Box::new(self.atom()?);
                return Ok(Node { from, to: list.to, what: What::Within { what, list, is_in } });
            }
        };
        Ok(Node { from, to: self.tokens[self.at - 1].to, what: What::In { what, list, is_in } })
    }

    /// What commas part, up to the sign that ends it.
    fn listed(&mut self, end: &'static str) -> Result<Vec<Node>, Wrong> {
        let mut list = Vec::new();
        if self.takes_sign(&[end]).is_some() {
            return Ok(list);
        }
        loop {
            list.push(self.deeper(Self::or)?);
            if self.takes_sign(&[","]).is_none() {
                self.needs_sign(end)?;
                return Ok(list);
            }
        }
    }

    fn sum(&mut self) -> Result<Node, Wrong> {
        self.chained(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Result<Node, Wrong> {
        self.chained(&["*", "/", "%"], Self::signed)
    }

    fn chained(&mut self, signs: &[&'static str], part: fn(&mut Self) -> Result<Node, Wrong>) -> Result<Node, Wrong> {
        let mut left = part(self)?;
        for _ in 0..LONGEST {
            let Some(sign) = self.takes_sign(signs) else { return Ok(left) };
            left = arithmetic(sign, left, part(self)?);
        }
        Err(self.wrong(&format!("this has more than {LONGEST} terms")))
    }

    fn signed(&mut self) -> Result<Node, Wrong> {
        let from = self.token().from;
        match self.takes_sign(&["-", "+"]) {
            None => self.power(),
            Some(sign) => {
                let of = self.deeper(Self::signed)?;
                let to = of.to;
                Ok(match sign {
                    "-" => Node { from, to, what: What::Negative(Box::new(of)) },
                    _ => of,
                })
            }
        }
    }

    fn power(&mut self) -> Result<Node, Wrong> {
        let base = self.atom()?;
        match self.takes_sign(&["**"]) {
            None => Ok(base),
            Some(sign) => Ok(arithmetic(sign, base, self.deeper(Self::signed)?)), // 2 ** -1, and from the right
        }
    }

    fn atom(&mut self) -> Result<Node, Wrong> {
        let Token { what, from, to } = self.next();
        let value = |value| Ok(Node { what: What::Value(value), from, to });
        match what {
            Word::Number(number) => value(Value::Number(number)),
            Word::Text(text) => value(Value::Text(text)),
            Word::Sign("(") => {
                let inner = self.deeper(Self::or)?;
                self.needs_sign(")")?;
                Ok(inner)
            }
            Word::Name(name) => match name.as_str() {
                "true" => value(Value::Bool(true)),
                "false" => value(Value::Bool(false)),
                "none" | "null" => value(Value::None),
                "and" | "or" | "not" | "in" => {
                    Err(Wrong { from, to, why: format!("a value is missing before `{name}`"), hint: None })
                }
                _ if self.takes_sign(&["("]).is_some() => {
                    let function = function(&name).ok_or_else(|| unknown_function(&name, from, to))?;
                    let arguments = self.listed(")")?;
                    Ok(Node { what: What::Call(function, arguments), from, to: self.tokens[self.at - 1].to })
                }
                _ => Ok(Node { what: What::Name(name), from, to }),
            },
            Word::Sign(sign) => Err(Wrong { from, to, why: format!("a value is missing before `{sign}`"), hint: None }),
            Word::End => Err(Wrong { from, to, why: "a value is missing here".into(), hint: None }),
        }
    }

    fn deeper(&mut self, part: fn(&mut Self) -> Result<Node, Wrong>) -> Result<Node, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(&format!("this nests deeper than {DEEPEST} levels")));
        }
        let node = part(self);
        self.depth -= 1;
        node
    }
}

fn arithmetic(sign: &'static str, left: Node, right: Node) -> Node {
    let sign = if sign == "**" { '^' } else { sign.chars().next().unwrap_or_default() };
    Node { from: left.from, to: right.to, what: What::Arithmetic(sign, Box::new(left), Box::new(right)) }
}

const FUNCTIONS: [(&str, Function); 13] = [
    ("abs", Function::Abs),
    ("ceil", Function::Ceil),
    ("contains", Function::Contains),
    ("exp", Function::Exp),
    ("floor", Function::Floor),
    ("log", Function::Log),
    ("log10", Function::Log10),
    ("log2", Function::Log2),
    ("max", Function::Max),
    ("min", Function::Min),
    ("round", Function::Round),
    ("sqrt", Function::Sqrt),
    ("starts_with", Function::StartsWith),
];

fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

fn unknown_function(name: &str, from: usize, to: usize) -> Wrong {
    let names = FUNCTIONS.map(|(name, _)| name);
    let hint = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    Wrong { from, to, why: format!("there is no function `{name}`"), hint: Some(hint) }
}
