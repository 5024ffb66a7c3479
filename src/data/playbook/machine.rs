//! Walks through a grammar: writes text until there is something to choose, is told what was chosen, goes on.
//!
//! It does not choose. The [generator](super::generate) draws by weight; the tests let a text that lies before them
//! decide, which shows that a text has one derivation. Hence it is a value that can be copied at any choice.

use super::grammar::{Grammar, Guard, Item, MAX_SET, Rule, Source, Test, Value, Var};

/// The state of a walk.
#[derive(Clone)]
pub struct Machine<'g> {
    grammar: &'g Grammar,
    vars: Vec<Value>,
    /// The alternatives being walked through, innermost last.
    frames: Vec<Frame>,
    /// Former values of variables that are set again when the rule that changed them is through.
    former: Vec<(u16, Value)>,
    capital: bool,
    pending: Pending,
    /// The weights of what can be chosen now, and what each is: the number of an alternative or word.
    options: Vec<(u64, usize)>,
}

#[derive(Clone, Copy)]
struct Frame {
    rule: u16,
    alternative: u16,
    /// The next item.
    item: u16,
    /// How many former values there were when the rule began.
    former: u32,
}

/// What the options are options of.
#[derive(Clone, Copy)]
enum Pending {
    Alternative { rule: u16 },
    Word { var: Var, class: u16 },
}

/// Why [`Machine::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is something to choose.
    Choice,
    /// The text may end here.
    End,
}

/// A walk that cannot go on, which is a mistake in the grammar: why, and in which rule.
pub type Stuck = String;

impl<'g> Machine<'g> {
    /// At the beginning of a text.
    pub fn new(grammar: &'g Grammar) -> Self {
        Self {
            grammar,
            vars: vec![Value::None; grammar.keeps.len()],
            frames: Vec::new(),
            former: Vec::new(),
            capital: false,
            pending: Pending::Alternative { rule: 0 },
            options: Vec::new(),
        }
    }

    /// What can be chosen, as weights.
    pub fn weights(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.options.iter().map(|&(weight, _)| weight)
    }

    /// Chooses the option of that number.
    pub fn take(&mut self, option: usize) -> Result<(), Stuck> {
        let (_, chosen) = self.options[option];
        self.options.clear();
        match self.pending {
            Pending::Alternative { rule } => {
                let former = self.former.len() as u32;
                self.frames.push(Frame { rule, alternative: chosen as u16, item: 0, former });
                Ok(())
            }
            Pending::Word { var, class } => self.set(var, Value::Word { class, row: chosen as u16 }),
        }
    }

    /// Appends to `text` until there is a choice to make or the text may end. A rule that begins anew when it is through
    /// makes a text without end.
    pub fn run(&mut self, text: &mut String) -> Result<Stop, Stuck> {
        loop {
            match self.options.len() {
                0 => {}
                1 => self.take(0)?,
                _ => return Ok(Stop::Choice),
            }
            let Some(frame) = self.frames.last_mut() else {
                self.enter(0)?;
                continue;
            };
            let rule = &self.grammar.rules[usize::from(frame.rule)];
            let items = &rule.alternatives[usize::from(frame.alternative)].items;
            match items.get(usize::from(frame.item)) {
                None => self.leave(),
                Some(item) => {
                    frame.item += 1;
                    let end = self.step(item, text).map_err(|why| format!("rule {}: {why}", rule.name))?;
                    if end {
                        return Ok(Stop::End);
                    }
                }
            }
        }
    }

    /// One item. True where the text may end.
    fn step(&mut self, item: &'g Item, text: &mut String) -> Result<bool, Stuck> {
        match *item {
            Item::Text(ref words) => self.write(words, false, text),
            Item::Form { word, form, capitals } => self.write(self.form(word, form)?, capitals, text),
            Item::Capital => self.capital = true,
            Item::Rule(rule) => self.enter(rule)?,
            Item::Choose { var, class } => {
                let words = &self.grammar.classes[usize::from(class)].words;
                self.choose(var, class, words.iter().map(|word| word.weight).enumerate())?;
            }
            Item::ChooseIn { var, class, group } => {
                let (Value::Word { row, .. }, of) = (self.get(group)?, &self.grammar.classes[usize::from(class)])
                else {
                    return Err("a group is named by a word".into());
                };
                let rows = of.groups.get(usize::from(row)).cloned().unwrap_or_default();
                self.choose(var, class, rows.map(|row| (row, of.words[row].weight)))?;
            }
            Item::Pick { var, set } => {
                let (class, rows) = self.set_of(set)?;
                self.choose(var, class, (0..MAX_SET).filter(|row| rows >> row & 1 == 1).map(|row| (row, 1)))?;
            }
            Item::Set(var, source) => {
                let value = self.source(source)?;
                self.set(var, value)?;
            }
            Item::Insert { set, member } => self.change(set, member, |rows, bit| rows | bit)?,
            Item::Remove { set, member } => self.change(set, member, |rows, bit| rows & !bit)?,
            Item::End => return Ok(true),
        }
        Ok(false)
    }

    /// Makes the open alternatives of a rule the options.
    fn enter(&mut self, rule: u16) -> Result<(), Stuck> {
        let Rule { name, alternatives } = &self.grammar.rules[usize::from(rule)];
        self.pending = Pending::Alternative { rule };
        for (i, alternative) in alternatives.iter().enumerate() {
            if alternative.guards.iter().all(|&guard| self.holds(guard)) {
                self.options.push((alternative.weight, i));
            }
        }
        if self.options.is_empty() { Err(format!("no alternative of {name} is open")) } else { Ok(()) }
    }

    /// Ends the innermost rule: what it set is as before, but for states.
    fn leave(&mut self) {
        if let Some(frame) = self.frames.pop() {
            for (at, value) in self.former.drain(frame.former as usize..).rev() {
                self.vars[usize::from(at)] = value;
            }
        }
    }

    /// Makes words of a class the options.
    fn choose(&mut self, var: Var, class: u16, rows: impl Iterator<Item = (usize, u64)>) -> Result<(), Stuck> {
        self.pending = Pending::Word { var, class };
        self.options.extend(rows.map(|(row, weight)| (weight, row)));
        if self.options.is_empty() { Err("there is no word to choose".into()) } else { Ok(()) }
    }

    fn holds(&self, Guard { var, test }: Guard) -> bool {
        let value = self.get(var).ok();
        let size = |value| match value {
            Some(Value::Set { rows, .. }) => rows.count_ones(),
            _ => 0,
        };
        let within = |set| match (value, self.get(set)) {
            (Some(Value::Word { class, row }), Ok(Value::Set { class: of, rows })) => {
                class == of && rows >> row & 1 == 1
            }
            _ => false,
        };
        match test {
            Test::Is(source) => value == self.source(source).ok(),
            Test::IsNot(source) => value != self.source(source).ok(),
            Test::Above(n) => size(value) > n,
            Test::Below(n) => size(value) < n,
            Test::In(set) => within(set),
            Test::NotIn(set) => !within(set),
        }
    }

    fn form(&self, word: Var, form: Option<u16>) -> Result<&'g str, Stuck> {
        let Value::Word { class, row } = self.get(word)? else { return Err("only words have forms".into()) };
        let class = &self.grammar.classes[usize::from(class)];
        let at = match form {
            None => 0,
            Some(form) => {
                class.forms.iter().position(|&f| f == form).ok_or_else(|| format!("{} lacks a form", class.name))?
            }
        };
        match class.words.get(usize::from(row)) {
            Some(word) => Ok(&word.forms[at]),
            None => Err(format!("{} has no word after its last", class.name)),
        }
    }

    fn write(&mut self, words: &str, capitals: bool, text: &mut String) {
        if capitals {
            text.extend(words.chars().map(|c| c.to_ascii_uppercase()));
        } else if let (true, Some(first)) = (self.capital, words.chars().next()) {
            text.push(first.to_ascii_uppercase());
            text.push_str(&words[first.len_utf8()..]);
            self.capital = false;
        } else {
            text.push_str(words);
        }
    }

    fn source(&self, source: Source) -> Result<Value, Stuck> {
        match source {
            Source::Const(value) => Ok(value),
            Source::Var(var) => self.get(var),
            Source::Next(var) => match self.get(var)? {
                Value::Word { class, row } => Ok(Value::Word { class, row: row + 1 }),
                _ => Err("only a word has a next one".into()),
            },
        }
    }

    fn change(&mut self, set: Var, member: Var, change: fn(u64, u64) -> u64) -> Result<(), Stuck> {
        let ((class, rows), Value::Word { class: of, row }) = (self.set_of(set)?, self.get(member)?) else {
            return Err("a set has words as members".into());
        };
        if class != of {
            return Err("a set has words of one class as members".into());
        }
        self.set(set, Value::Set { class, rows: change(rows, 1 << row) })
    }

    fn set_of(&self, set: Var) -> Result<(u16, u64), Stuck> {
        match self.get(set)? {
            Value::Set { class, rows } => Ok((class, rows)),
            _ => Err("what is no set has no members".into()),
        }
    }

    fn at(&self, var: Var) -> Result<usize, Stuck> {
        match var.index.map(|index| self.vars[usize::from(index)]) {
            None => Ok(usize::from(var.at)),
            Some(Value::Word { row, .. }) => Ok(usize::from(var.at + row)),
            Some(_) => Err("a member of an array is named by a word".into()),
        }
    }

    fn get(&self, var: Var) -> Result<Value, Stuck> {
        Ok(self.vars[self.at(var)?])
    }

    fn set(&mut self, var: Var, value: Value) -> Result<(), Stuck> {
        let at = self.at(var)?;
        let former = std::mem::replace(&mut self.vars[at], value);
        if !self.grammar.keeps[at] {
            self.former.push((at as u16, former));
        }
        Ok(())
    }
}
