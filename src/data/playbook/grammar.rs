//! What a grammar is once it is compiled: rules, classes of words, variables. The notation that it is written in is
//! [`notation`](super::notation)'s matter, what it means when it is walked through the [`machine`](super::machine)'s.

use std::ops::Range;

/// A whole grammar. Rule 0 is where a text begins.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    pub rules: Vec<Rule>,
    pub classes: Vec<Class>,
    /// For each variable, members of arrays included, whether it keeps its value beyond the rule that set it.
    pub keeps: Vec<bool>,
}

/// Alternatives of which one is chosen by weight.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub name: String,
    pub alternatives: Vec<Alternative>,
}

/// One way through a rule.
#[derive(Clone, Debug, Default)]
pub struct Alternative {
    pub weight: u64,
    /// It is open only where all of these hold.
    pub guards: Vec<Guard>,
    pub items: Vec<Item>,
}

/// Words of one kind, all with the same forms.
#[derive(Clone, Debug)]
pub struct Class {
    pub name: String,
    /// The forms that its words have, numbered over the whole grammar.
    pub forms: Vec<u16>,
    pub words: Vec<Word>,
    /// The words of each group, by the row of the word that names it; empty where the class has no groups.
    pub groups: Vec<Range<usize>>,
}

/// A word's weight and its forms, in the order of its class's.
#[derive(Clone, Debug)]
pub struct Word {
    pub weight: u64,
    pub forms: Vec<String>,
}

/// A variable, or a member of an array where `index` is a variable too.
#[derive(Clone, Copy, Debug)]
pub struct Var {
    pub at: u16,
    pub index: Option<u16>,
}

/// How many words a class may have of which sets are made.
pub const MAX_SET: usize = 63;

/// What a variable holds: nothing, a word, or a set of words of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    None,
    Word { class: u16, row: u16 },
    Set { class: u16, rows: u64 },
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Const(Value),
    Var(Var),
    /// The word after the one that the variable holds.
    Next(Var),
}

/// A condition on a variable.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub var: Var,
    pub test: Test,
}

/// What a [`Guard`] asks.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    Is(Source),
    IsNot(Source),
    /// A set of more members than this.
    Above(u32),
    /// A set of fewer members than this.
    Below(u32),
    In(Var),
    NotIn(Var),
}

/// One step of an alternative.
#[derive(Clone, Debug)]
pub enum Item {
    Text(String),
    /// Writes a form of a word; the first of its class's where none is named.
    Form {
        word: Var,
        form: Option<u16>,
        capitals: bool,
    },
    Capital,
    Rule(u16),
    Choose {
        var: Var,
        class: u16,
    },
    ChooseIn {
        var: Var,
        class: u16,
        group: Var,
    },
    Pick {
        var: Var,
        set: Var,
    },
    Set(Var, Source),
    Insert {
        set: Var,
        member: Var,
    },
    Remove {
        set: Var,
        member: Var,
    },
    End,
}
