//! For tests: finds every derivation of a text, by following all choices at once and dropping those that write something
//! else than the text. It shares the [`Machine`] with the generator but none of its choices.

use std::collections::BTreeMap;

use super::{
    grammar::Grammar,
    machine::{Machine, Stop},
};

/// The cost in bits of each derivation of `text` that ends where the text may end.
pub fn costs(grammar: &Grammar, text: &str) -> Result<Vec<f64>, String> {
    let mut found = Vec::new();
    // Walks by how far in the text they are: the hindmost goes first, so that few are alive at a time.
    let mut walks = BTreeMap::new();
    follow((Machine::new(grammar), 0, 0.0), text, &mut walks, &mut found)?;
    while let Some((at, behind)) = walks.pop_first() {
        for (machine, bits) in behind {
            let total: u64 = machine.weights().sum();
            for (option, weight) in machine.weights().enumerate() {
                let mut machine = machine.clone();
                machine.take(option)?;
                let bits = bits + (total as f64 / weight as f64).log2();
                follow((machine, at, bits), text, &mut walks, &mut found)?;
            }
        }
        if walks.values().map(Vec::len).sum::<usize>() > 10_000 {
            return Err(format!("too many ways to go on at {at}, after {:?}", &text[at.saturating_sub(80)..at]));
        }
    }
    Ok(found)
}

/// Goes on to the next choice, where what is written until then agrees with the text.
fn follow<'g>(
    (mut machine, mut at, bits): (Machine<'g>, usize, f64),
    text: &str,
    walks: &mut BTreeMap<usize, Vec<(Machine<'g>, f64)>>,
    found: &mut Vec<f64>,
) -> Result<(), String> {
    let mut written = String::new();
    loop {
        written.clear();
        let stop = machine.run(&mut written)?;
        if !text[at..].starts_with(&written) {
            return Ok(());
        }
        at += written.len();
        match stop {
            Stop::End if at == text.len() => {
                found.push(bits);
                return Ok(());
            }
            Stop::End => {}
            Stop::Choice => {
                walks.entry(at).or_default().push((machine, bits));
                return Ok(());
            }
        }
    }
}
