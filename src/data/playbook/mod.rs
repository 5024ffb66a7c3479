//! `playbook`: play-like text without end from a stochastic grammar, and what it costs under that grammar.
//!
//! The grammar stands in `playbook.grammar`, in a notation of its own. Choices are drawn with integer
//! weights from a named stream, so a seed gives the same bytes on every machine. Each text has one derivation: its cost,
//! the sum of -log2(weight / total) over all choices, is the entropy that no model can get below in the mean.
//!
//! It is made for comparing small models: there is more to learn in it than they learn in minutes (what belongs to each
//! trade), and at many distances (clauses within clauses, each verb agreeing with words before them).

#[cfg(test)]
mod derivations;
mod grammar;
mod machine;
mod notation;

use machine::{Machine, Stop};

use super::corpus::Costs;
use crate::base::{Context, Exit, Result, rng};

const GRAMMAR: &str = include_str!("playbook.grammar");

/// A generated text and its cost.
#[derive(Clone, Debug)]
pub struct Playbook {
    /// ASCII: one byte is one character.
    pub text: String,
    /// What its choices cost.
    pub costs: Costs,
}

impl Playbook {
    /// What a text follows from beside its seed and length: the grammar, and how it is walked through.
    pub fn version() -> String {
        format!("1 {}", blake3::hash(GRAMMAR.as_bytes()).to_hex())
    }

    /// Whole scenes, of `chars` characters or up to a scene more.
    pub fn generate(seed: u64, chars: usize) -> Result<Self> {
        Self::from_grammar(GRAMMAR, seed, chars).doing(Exit::Unexpected, || "generating the playbook".into())
    }

    fn from_grammar(grammar: &str, seed: u64, chars: usize) -> Result<Self, String> {
        let grammar = notation::compile(grammar)?;
        let (mut machine, mut rng) = (Machine::new(&grammar), rng::stream(seed, "playbook"));
        let (mut text, mut costs) = (String::new(), Costs::default());
        loop {
            match machine.run(&mut text)? {
                Stop::End if text.len() >= chars => return Ok(Self { text, costs }),
                Stop::End => {}
                Stop::Choice => {
                    let total = machine.weights().sum();
                    let (option, weight) = draw(machine.weights(), rng::below(&mut rng, total));
                    costs.spend(text.len(), weight, total);
                    machine.take(option)?;
                }
            }
        }
    }
}

/// The option that a number below the sum of all weights falls to, and its weight.
fn draw(weights: impl Iterator<Item = u64>, mut number: u64) -> (usize, u64) {
    let mut last = (0, 0);
    for (option, weight) in weights.enumerate() {
        last = (option, weight);
        if number < weight {
            break;
        }
        number -= weight;
    }
    last
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// As many characters as the default corpus asks for.
    const CHARS: usize = 1_200_000;

    #[test]
    fn the_default_corpus_is_the_same_on_every_machine() {
        let Playbook { text, .. } = Playbook::generate(1, CHARS).unwrap();
        assert!((CHARS..CHARS + 20_000).contains(&text.len()), "{} characters", text.len());
        assert!(text.is_ascii() && text.ends_with("[Exeunt.]\n\n"), "{:?}", &text[text.len() - 50..]);
        let distinct: BTreeSet<char> = text.chars().collect();
        assert!((60..=70).contains(&distinct.len()), "{distinct:?}");
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        assert_eq!(hash, GOLDEN, "the default corpus changed, and with it every result on it");
    }

    const GOLDEN: &str = "21fbf3929c6915c030ea1fbc5b76bbf5fb6a960b31b20f84f59f13091aa011d1";

    /// The subject and the verb of a clause: of "the sly pilot whom the poets love mends", "pilot" and "mends". Nothing
    /// where one of the clauses within begins with "who", for that may be long.
    fn subject_and_verb<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<(&'t str, &'t str)> {
        const MOODS: [&str; 6] = ["old", "proud", "sly", "poor", "young", "vain"];
        let mut word = words.next()?;
        if word == "the" {
            word = words.find(|word| !MOODS.contains(word) && !word.ends_with("'s"))?;
        }
        let subject = word;
        word = words.next()?;
        match word {
            "who" => return None,
            "whom" => {
                subject_and_verb(words)?;
                word = words.next()?;
            }
            _ => {}
        }
        let helps = ["dost", "didst", "shall", "will", "wilt"].contains(&word);
        Some((subject, if helps { words.next()? } else { word }))
    }

    #[test]
    fn a_verb_agrees_with_its_subject_and_its_object_across_the_clauses_between() {
        let grammar = notation::compile(GRAMMAR).unwrap();
        // The group and the form of a word.
        let find = |class: &str, word: &str| {
            let class = grammar.classes.iter().find(|c| c.name == class).unwrap();
            let form = |row: usize| class.words[row].forms.iter().position(|form| form == word);
            class.groups.iter().enumerate().find_map(|(group, rows)| Some((group, rows.clone().find_map(form)?)))
        };
        let text = Playbook::generate(1, 200_000).unwrap().text;
        let words: Vec<&str> = text.split_whitespace().collect();
        let (mut seen, mut far) = (0, 0);
        for (at, pair) in words.windows(2).enumerate() {
            let (Some((trade, _)), "that") = (find("ware", pair[0]), pair[1]) else { continue };
            let mut rest = words[at + 2..].iter().copied();
            let Some((subject, verb)) = subject_and_verb(&mut rest) else { continue };
            let read = words.len() - at - rest.len();
            let clause = words[at..at + read].join(" ");
            let (of, form) = find("verb", verb.trim_end_matches(|c: char| !c.is_alphabetic())).expect(&clause);
            assert_eq!(of, trade, "{clause}");
            if let Some((_, number)) = find("man", subject).or_else(|| find("woman", subject)) {
                let (singular, third) = (number == 0, form == 1);
                assert!(form == 2 || words[at + read - 2] == "will" || singular == third, "{clause}");
            }
            (seen, far) = (seen + 1, far + usize::from(clause.matches("whom").count() >= 2));
        }
        assert!(seen > 500 && far > 25, "{seen} wares with a clause behind them, {far} with two more in it");
    }

    #[test]
    fn a_text_has_one_derivation_and_costs_what_that_costs() {
        let grammar = notation::compile(GRAMMAR).unwrap();
        for (seed, chars) in [(1, CHARS), (2, 50_000)] {
            let Playbook { text, costs } = Playbook::generate(seed, chars).unwrap();
            let found = derivations::costs(&grammar, &text).unwrap();
            assert_eq!(found.len(), 1, "derivations of the text of seed {seed}");
            assert!((found[0] - costs.total()).abs() < 1e-6 * costs.total(), "{} {}", found[0], costs.total());
        }
    }

    #[test]
    fn a_text_with_two_derivations_is_found_out() {
        let grammar =
            notation::compile("rule s\n 1 \"a\" rest\n 2 \"ab\" END\nrule rest\n 1 \"b\" END\n 1 \"c\" END").unwrap();
        let costs = |text| derivations::costs(&grammar, text).unwrap();
        assert_eq!(costs("ac").len(), 1);
        assert_eq!(costs("ab").len(), 2);
        assert_eq!(costs("b").len(), 0);
    }

    #[test]
    fn seeds_differ_and_a_longer_text_begins_like_a_shorter_one() {
        let text = |seed, chars| Playbook::generate(seed, chars).unwrap().text;
        assert_ne!(text(1, 5_000), text(2, 5_000));
        assert!(text(1, 50_000).starts_with(&text(1, 5_000)));
        assert!(text(1, 1).ends_with("[Exeunt.]\n\n"));
    }

    #[test]
    fn costs_add_up_over_the_parts_of_a_text() {
        let Playbook { text, costs } = Playbook::generate(4, 20_000).unwrap();
        let bits = |from| costs.since(from);
        assert_eq!(bits(0), costs.total());
        assert_eq!(bits(text.len() + 1), 0.0);
        assert!((0..text.len()).all(|at| bits(at) >= bits(at + 1)));
        let half = text.len() / 2;
        assert!((bits(half) / bits(0) - 0.5).abs() < 0.05, "costs are spread evenly");
    }

    #[test]
    fn choices_go_by_their_weights() {
        let grammar = "rule s\n 3 \"a\" END\n 1 \"b\" END";
        let Playbook { text, costs } = Playbook::from_grammar(grammar, 1, 10_000).unwrap();
        let share = text.matches('a').count() as f64 / text.len() as f64;
        assert!((share - 0.75).abs() < 0.02, "{share}");
        assert!((costs.total() / 10_000.0 - 0.811).abs() < 0.02, "the entropy of 3 : 1 is 0.811 bits");
    }
}
