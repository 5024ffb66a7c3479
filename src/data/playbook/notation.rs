//! The notation of `playbook.grammar`, and its compiler.
//!
//! ```text
//! words noun(one many)                   a class of words, each with these forms
//!   3 hen hens | net +s | sheep ~        words: a weight (1 where none stands), then the forms; `+s` is the first form
//!                                        and `s`, `~` the first form again, `_` a space
//! words verb(base past) by trade         a class in groups, each named by a word of another class
//!   [smith] file +d | bend bent
//! state speaker name[8]                  variables that keep their value until it is set again; an array of them
//!
//! rule clause                            alternatives, each on a line that begins with its weight (the first may lack
//!   4 k<trade v<verb/k "the " np         it); a line that does not goes on with the one above
//!     {v.past}
//!   2 ?stage>2 "nobody " {v.base}
//! ```
//!
//! | item | meaning |
//! |---|---|
//! | `"text"` | writes the text; `\n` is a line's end |
//! | `{x.form}`, `{x}`, `{x.form!}` | writes a form (the first one) of the word that x holds; in capitals |
//! | `^` | the next letter is written as a capital |
//! | `name` | goes through another rule |
//! | `x<class`, `x<class/y` | chooses a word by weight; of the group that the word in y names |
//! | `x<*set` | chooses a member of a set, all alike |
//! | `x=class.word`, `x=y`, `x=next:y` | sets a variable: to a word (by its first form), as another, to the word after another's |
//! | `x=none`, `x=no:class`, `x=all:class` | sets a variable: to nothing, to the empty set, to the set of all words |
//! | `+set(x)`, `-set(x)` | takes a word into a set, or out of it |
//! | `END` | the text may end here |
//! | `?x=y`, `?x!=y`, `?set>n`, `?set<n`, `?x:set`, `?x!:set` | first in an alternative: it is open only where this holds |
//!
//! A variable that is no `state` gets back its former value when the rule that set it is through, so that a clause within
//! a clause has a subject of its own. `x@y` is the member of array x that y names. `#` begins a comment. A class stands
//! above what uses it.

use std::collections::HashMap;

use super::grammar::{Alternative, Class, Grammar, Guard, Item, MAX_SET, Rule, Source, Test, Value, Var, Word};

type Result<T> = std::result::Result<T, String>;

/// Compiles a grammar. The error names the line.
pub fn compile(source: &str) -> Result<Grammar> {
    let mut compiler = Compiler::default();
    for (i, line) in source.lines().enumerate() {
        compiler.line(line).map_err(|why| format!("line {}: {why}", i + 1))?;
    }
    compiler.finish()
}

/// What the lines that follow belong to.
#[derive(Clone, Copy, Default)]
enum Section {
    #[default]
    None,
    /// A class, and the group of it where it has groups.
    Words(usize, Option<usize>),
    Rule(u16),
}

/// The variable, or the first of an array's, of a name.
#[derive(Clone, Copy)]
struct Declared {
    at: u16,
    /// Whether anything sets it: to read what nothing sets is a mistake.
    set: bool,
}

#[derive(Default)]
struct Compiler {
    grammar: Grammar,
    section: Section,
    classes: HashMap<String, u16>,
    rules: HashMap<String, u16>,
    forms: HashMap<String, u16>,
    vars: HashMap<String, Declared>,
    /// For each class in groups, the class whose words name them.
    by: HashMap<usize, u16>,
}

impl Compiler {
    fn line(&mut self, line: &str) -> Result<()> {
        let tokens = tokens(line)?;
        let Some(first) = tokens.first() else { return Ok(()) };
        match (first.as_str(), self.section) {
            ("words", _) => self.declare_words(&tokens[1..].join(" ")),
            ("state", _) => tokens[1..].iter().try_for_each(|name| self.declare_state(name)),
            ("rule", _) => {
                let [_, name] = &tokens[..] else { return Err("a rule has one name".into()) };
                let rule = self.rule(name);
                self.section = Section::Rule(rule);
                ensure(self.grammar.rules[rule as usize].alternatives.is_empty(), || format!("a second rule {name}"))
            }
            (_, Section::Words(class, _)) => self.words(class, &tokens),
            (_, Section::Rule(rule)) => self.alternative(rule, &tokens),
            (word, Section::None) => Err(format!("{word} stands in no section")),
        }
    }

    /// `class(form form ...)`, or `class(form ...) by other`.
    fn declare_words(&mut self, text: &str) -> Result<()> {
        let (name, rest) = text.split_once('(').ok_or("words need a list of forms in parentheses")?;
        let (forms, by) = rest.split_once(')').ok_or("the list of forms is not closed")?;
        let mut form = |name: &str| {
            let next = self.forms.len() as u16;
            *self.forms.entry(name.into()).or_insert(next)
        };
        let forms = forms.split_whitespace().map(&mut form).collect();
        let class = self.grammar.classes.len();
        let mut groups = Vec::new();
        if let Some(other) = by.trim().strip_prefix("by ") {
            let other = self.class(other)?;
            groups = vec![0..0; self.grammar.classes[other as usize].words.len()];
            self.by.insert(class, other);
        }
        self.grammar.classes.push(Class { name: name.into(), forms, words: Vec::new(), groups });
        self.section = Section::Words(class, None);
        ensure(self.classes.insert(name.into(), class as u16).is_none(), || format!("a second class {name}"))
    }

    /// Words with `|` between them, perhaps after the `[group]` that they begin.
    fn words(&mut self, class: usize, tokens: &[String]) -> Result<()> {
        let mut tokens = tokens;
        if let Some(group) = tokens[0].strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let by = *self.by.get(&class).ok_or("this class has no groups")?;
            let Value::Word { row, .. } = self.word(by, group)? else { unreachable!("a word is a word") };
            self.section = Section::Words(class, Some(row.into()));
            let at = self.grammar.classes[class].words.len();
            self.grammar.classes[class].groups[usize::from(row)] = at..at;
            tokens = &tokens[1..];
        }
        for row in tokens.split(|t| t == "|").filter(|row| !row.is_empty()) {
            let (weight, forms) = weighted(row);
            let first = forms.first().ok_or("a weight without a word")?.replace('_', " ");
            let forms: Vec<String> = forms
                .iter()
                .map(|form| match form.as_bytes() {
                    b"~" => first.clone(),
                    [b'+', ..] => format!("{first}{}", &form[1..]),
                    _ => form.replace('_', " "),
                })
                .collect();
            let class = &mut self.grammar.classes[class];
            ensure(forms.len() == class.forms.len(), || format!("{first} needs {} forms", class.forms.len()))?;
            class.words.push(Word { weight: weight.unwrap_or(1), forms });
            match (self.section, class.groups.is_empty()) {
                (Section::Words(_, Some(group)), false) => class.groups[group].end = class.words.len(),
                (_, true) => {}
                (_, false) => return Err(format!("{first} stands in no group")),
            }
        }
        Ok(())
    }

    fn declare_state(&mut self, name: &str) -> Result<()> {
        let (name, members) = match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
            Some((name, members)) => (name, members.parse().map_err(|_| format!("{members} is no length"))?),
            None => (name, 1usize),
        };
        let declared = Declared { at: self.grammar.keeps.len() as u16, set: false };
        self.grammar.keeps.extend(vec![true; members]);
        ensure(self.vars.insert(name.into(), declared).is_none(), || format!("a second state {name}"))
    }

    /// A line of a rule: an alternative, or the rest of the one above.
    fn alternative(&mut self, rule: u16, tokens: &[String]) -> Result<()> {
        let (weight, tokens) = weighted(tokens);
        let mut alternative = match (weight, self.grammar.rules[usize::from(rule)].alternatives.pop()) {
            (None, Some(above)) => above,
            (None, None) => Alternative { weight: 1, ..Default::default() },
            (Some(weight), above) => {
                self.grammar.rules[usize::from(rule)].alternatives.extend(above);
                Alternative { weight, ..Default::default() }
            }
        };
        for token in tokens {
            match token.strip_prefix('?') {
                Some(guard) => {
                    ensure(alternative.items.is_empty(), || format!("?{guard} stands behind an item"))?;
                    alternative.guards.push(self.guard(guard)?);
                }
                None => alternative.items.push(self.item(token)?),
            }
        }
        self.grammar.rules[usize::from(rule)].alternatives.push(alternative);
        Ok(())
    }

    fn guard(&mut self, text: &str) -> Result<Guard> {
        let number = |n: &str| n.parse().map_err(|_| format!("{n} is no number"));
        let (var, test) = if let Some((var, other)) = text.split_once("!=") {
            (var, Test::IsNot(self.source(other)?))
        } else if let Some((var, set)) = text.split_once("!:") {
            (var, Test::NotIn(self.var(set, false)?))
        } else if let Some((var, other)) = text.split_once('=') {
            (var, Test::Is(self.source(other)?))
        } else if let Some((var, set)) = text.split_once(':') {
            (var, Test::In(self.var(set, false)?))
        } else if let Some((var, n)) = text.split_once('>') {
            (var, Test::Above(number(n)?))
        } else if let Some((var, n)) = text.split_once('<') {
            (var, Test::Below(number(n)?))
        } else {
            return Err(format!("?{text} is no condition"));
        };
        Ok(Guard { var: self.var(var, false)?, test })
    }

    fn item(&mut self, token: &str) -> Result<Item> {
        if let Some(text) = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
            return Ok(Item::Text(text.replace("\\n", "\n")));
        }
        if let Some(text) = token.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            let capitals = text.ends_with('!');
            let (var, form) = match text.trim_end_matches('!').split_once('.') {
                Some((var, form)) => {
                    (var, Some(*self.forms.get(form).ok_or_else(|| format!("no class above has a form {form}"))?))
                }
                None => (text.trim_end_matches('!'), None),
            };
            return Ok(Item::Form { word: self.var(var, false)?, form, capitals });
        }
        if let Some((set, member)) = token.strip_suffix(')').and_then(|t| t.split_once('(')) {
            let (sign, set) = set.split_at_checked(1).ok_or("a set without a name")?;
            let (set, member) = (self.var(set, true)?, self.var(member, false)?);
            return match sign {
                "+" => Ok(Item::Insert { set, member }),
                "-" => Ok(Item::Remove { set, member }),
                _ => Err(format!("{token} neither adds (+) nor removes (-)")),
            };
        }
        if let Some((var, from)) = token.split_once('<') {
            return match (from.strip_prefix('*'), from.split_once('/')) {
                (Some(set), _) => Ok(Item::Pick { set: self.var(set, false)?, var: self.var(var, true)? }),
                (None, Some((class, group))) => {
                    let (class, group) = (self.class(class)?, self.var(group, false)?);
                    Ok(Item::ChooseIn { var: self.var(var, true)?, class, group })
                }
                (None, None) => Ok(Item::Choose { class: self.class(from)?, var: self.var(var, true)? }),
            };
        }
        if let Some((var, source)) = token.split_once('=') {
            return Ok(Item::Set(self.var(var, true)?, self.source(source)?));
        }
        match token {
            "^" => Ok(Item::Capital),
            "END" => Ok(Item::End),
            name => Ok(Item::Rule(self.rule(name))),
        }
    }

    fn source(&mut self, text: &str) -> Result<Source> {
        let set = |class, rows| Ok(Source::Const(Value::Set { class, rows }));
        if text == "none" {
            return Ok(Source::Const(Value::None));
        }
        match (text.split_once(':'), text.split_once('.')) {
            (Some(("next", var)), _) => Ok(Source::Next(self.var(var, false)?)),
            (Some(("no", class)), _) => set(self.class(class)?, 0),
            (Some(("all", class)), _) => {
                let class = self.class(class)?;
                let n = self.grammar.classes[usize::from(class)].words.len();
                ensure(n <= MAX_SET, || format!("a set has at most {MAX_SET} members"))?;
                set(class, (1 << n) - 1)
            }
            (Some((what, _)), _) => Err(format!("{what}: is neither next:, no: nor all:")),
            (None, Some((class, word))) => {
                let class = self.class(class)?;
                Ok(Source::Const(self.word(class, word)?))
            }
            (None, None) => Ok(Source::Var(self.var(text, false)?)),
        }
    }

    /// The variable of a name; `set` where this use sets it.
    fn var(&mut self, text: &str, set: bool) -> Result<Var> {
        let (name, index) = match text.split_once('@') {
            Some((name, index)) => (name, Some(self.var(index, false)?.at)),
            None => (text, None),
        };
        ensure(!name.is_empty() && name.chars().all(char::is_alphanumeric), || format!("{text} is no variable"))?;
        let next = self.grammar.keeps.len() as u16;
        let declared = self.vars.entry(name.into()).or_insert(Declared { at: next, set: false });
        declared.set |= set;
        let at = declared.at;
        if at == next {
            self.grammar.keeps.push(false);
        }
        Ok(Var { at, index })
    }

    fn class(&self, name: &str) -> Result<u16> {
        self.classes.get(name.trim()).copied().ok_or_else(|| format!("no class {name} stands above"))
    }

    fn word(&self, class: u16, first: &str) -> Result<Value> {
        let words = &self.grammar.classes[usize::from(class)].words;
        let row = words.iter().position(|w| w.forms[0] == first).ok_or_else(|| format!("no word {first} there"))?;
        Ok(Value::Word { class, row: row as u16 })
    }

    fn rule(&mut self, name: &str) -> u16 {
        *self.rules.entry(name.into()).or_insert_with(|| {
            self.grammar.rules.push(Rule { name: name.into(), alternatives: Vec::new() });
            self.grammar.rules.len() as u16 - 1
        })
    }

    fn finish(self) -> Result<Grammar> {
        let unset = self.vars.iter().filter(|(_, declared)| !declared.set).map(|(name, _)| name).min();
        ensure(unset.is_none(), || format!("nothing sets {}", unset.map_or("", |name| name)))?;
        let missing = self.grammar.rules.iter().find(|rule| rule.alternatives.is_empty());
        ensure(missing.is_none(), || format!("no rule {}", missing.map_or("", |rule| &rule.name)))?;
        ensure(!self.grammar.rules.is_empty(), || "no rule at all".into())?;
        Ok(self.grammar)
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(why()) }
}

/// A leading weight, and what follows it.
fn weighted(tokens: &[String]) -> (Option<u64>, &[String]) {
    match tokens.first().and_then(|first| first.parse().ok()) {
        Some(weight) => (Some(weight), &tokens[1..]),
        None => (None, tokens),
    }
}

/// What white space parts, but for that in quotes; without a comment.
fn tokens(line: &str) -> Result<Vec<String>> {
    let (mut tokens, mut token, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        quoted ^= c == '"';
        if c == '#' && !quoted {
            break;
        }
        if c.is_whitespace() && !quoted {
            tokens.extend((!token.is_empty()).then(|| std::mem::take(&mut token)));
        } else {
            token.push(c);
        }
    }
    ensure(!quoted, || "a quote is not closed".into())?;
    tokens.extend((!token.is_empty()).then_some(token));
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::playbook::Playbook;

    /// What the first sentence of a grammar without choices says.
    fn text(grammar: &str) -> String {
        Playbook::from_grammar(grammar, 1, 1).unwrap().text
    }

    const WORDS: &str =
        "words trade(name)\n sea | oven\nwords verb(base past) by trade\n [sea] haul +ed\n [oven] bake +d\n";

    #[test]
    fn forms_are_written_as_the_notation_says() {
        let words = "words x(a b c)\n deer ~ my_+s # a comment\n";
        assert_eq!(
            text(&format!("{words}rule s\n x<x {{x}} \" # \" {{x.b!}} {{x.c}} \"\\n\" ^ {{x}} {{x}} END")),
            "deer # DEERmy +s\nDeerdeer"
        );
    }

    #[test]
    fn a_word_is_chosen_within_its_group() {
        let grammar = format!(
            "{WORDS}rule s\n k=trade.oven v<verb/k {{v}} \" \" k=next:j j=trade.sea k=next:j v<verb/k {{v.past}} END"
        );
        assert!(Playbook::from_grammar(&grammar, 1, 1).unwrap_err().contains("only a word has a next one"));
        assert_eq!(text(&grammar.replace("k=next:j j", "j")), "bake baked");
    }

    #[test]
    fn what_a_rule_sets_is_as_before_when_it_is_through_but_for_states() {
        let grammar = format!(
            "{WORDS}state seen[2] last\nrule s\n k=trade.sea inner {{k}} \" \" {{last}} \" \" {{seen@last}} END\n\
             rule inner\n k=trade.oven last=k seen@k=k {{k}} \" \""
        );
        assert_eq!(text(&grammar), "oven sea oven oven");
    }

    #[test]
    fn guards_open_and_close_alternatives() {
        let shown = |guards: &str| {
            let grammar = format!(
                "{WORDS}rule s\n a=trade.sea b=trade.oven n=none set=no:trade +set(a) all=all:trade rest=all:trade -rest(a) t END\n\
                 rule t\n {guards} \"yes\"\n 1 ?a=none \"never\""
            );
            Playbook::from_grammar(&grammar, 1, 1).map_or_else(|why| why, |play| play.text)
        };
        for open in [
            "?a=trade.sea",
            "?a!=b",
            "?n=none",
            "?a!=none",
            "?a:set",
            "?b!:set",
            "?all>1",
            "?set<2",
            "?b:rest ?a!:rest",
        ] {
            assert_eq!(shown(open), "yes", "{open}");
        }
        for closed in
            ["?a=b", "?a!=trade.sea", "?n!=none", "?b:set", "?a:rest", "?set>1", "?all<2", "?a=trade.sea ?a=b"]
        {
            assert_eq!(shown(closed), "rule s: no alternative of t is open", "{closed}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (grammar, why) in [
            ("hello", "line 1: hello stands in no section"),
            ("rule s\n \"open", "line 2: a quote is not closed"),
            ("rule s\n x<noun", "line 2: no class noun stands above"),
            ("words n(one many)\n hen", "line 2: hen needs 2 forms"),
            ("words n(one)\n [sea] net", "line 2: this class has no groups"),
            ("rule s\n \"a\" ?x=none", "line 2: ?x=none stands behind an item"),
            ("words n(one)\n hen\nrule s\n x=n.cock", "line 4: no word cock there"),
            ("words n(one)\n hen\nrule s\n x<n {x.many}", "line 4: no class above has a form many"),
            ("rule s\n \"a\" END\nrule s", "line 3: a second rule s"),
            ("rule s\n {x}", "nothing sets x"),
            ("rule s\n other", "no rule other"),
            ("", "no rule at all"),
        ] {
            assert_eq!(compile(grammar).unwrap_err(), why, "{grammar}");
        }
    }
}
