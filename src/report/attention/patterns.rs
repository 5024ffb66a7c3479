//! What heads look at. For each query, a pattern names some of the keys that it may look at; the mean weight that a head
//! gives them, over the queries that have such keys, says how far the head follows the pattern. What it would be if the
//! head looked at all keys alike is chance.
//!
//! Patterns are those of the literature on circuits (Elhage et al., 2021; Olsson et al., 2022). They may share a key: in
//! `a b a` the previous token of the last one is also what followed its earlier occurrence.

use super::{Maps, Token};

/// What a head must give a pattern to be named after it: this share of what chance leaves, and this many times chance.
const CLEAR: (f64, f64) = (0.15, 2.0);

/// Queries that must have such keys for a head to be named after a pattern.
const ENOUGH: usize = 3;

/// Where a query may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// At the token before it.
    Previous,
    /// At the first token of all, an attention sink; for queries that are neither the first nor the second token.
    First,
    /// At itself; for all but the first token, which has nothing else.
    Own,
    /// At earlier tokens that are the same as it.
    Duplicate,
    /// At tokens that follow an earlier one which is the same as it: what came next before may come next again. The query
    /// itself is not among them.
    Induction,
}

impl Pattern {
    /// All of them, in the order of their columns.
    pub const ALL: [Self; 5] = [Self::Previous, Self::First, Self::Own, Self::Duplicate, Self::Induction];

    /// What the field calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Previous => "previous-token",
            Self::First => "first-token",
            Self::Own => "self",
            Self::Duplicate => "duplicate-token",
            Self::Induction => "induction",
        }
    }

    /// The same without `-token`, where a table has to fit a terminal.
    pub fn short(self) -> &'static str {
        self.name().trim_end_matches("-token")
    }

    /// The keys that the query at position `i` has by it.
    fn keys(self, tokens: &[Token], i: usize) -> Vec<usize> {
        let same = |j: usize| tokens[j].id == tokens[i].id;
        match self {
            Self::Previous => i.checked_sub(1).into_iter().collect(),
            Self::First => {
                if i > 1 {
                    vec![0]
                } else {
                    vec![]
                }
            }
            Self::Own => {
                if i > 0 {
                    vec![i]
                } else {
                    vec![]
                }
            }
            Self::Duplicate => (0..i).filter(|&j| same(j)).collect(),
            Self::Induction => (1..i).filter(|&j| same(j - 1)).collect(),
        }
    }
}

/// What all heads look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Heads by pattern: those of the first pattern first, the clearest of them on top, those without one last.
    pub heads: Vec<Head>,
    /// For each pattern, over how many queries the mean is, and what a head that looks at all keys alike would have.
    pub chance: [Option<(usize, f64)>; 5],
    /// The mean entropy of such a head's weights in bits, the first query left out; `None` where there is no other.
    pub uniform_entropy: Option<f64>,
}

/// What one head looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Counts from 0.
    pub layer: usize,
    /// Counts from 0.
    pub head: usize,
    /// For each pattern, the mean weight of its keys; `None` where no query of the prompt has such keys.
    pub mass: [Option<f64>; 5],
    /// The mean entropy of a query's weights in bits, the first query left out; `None` where there is no other.
    pub entropy: Option<f64>,
    /// The pattern that it follows furthest beyond chance, where that is clear.
    pub pattern: Option<Pattern>,
}

/// Looks at all heads.
pub fn survey(maps: &Maps) -> Survey {
    let n = maps.tokens.len();
    // For each pattern, the queries that have such keys, with the keys.
    let places = Pattern::ALL.map(|pattern| {
        let all = (0..n).map(|i| (i, pattern.keys(&maps.tokens, i)));
        all.filter(|(_, keys)| !keys.is_empty()).collect::<Vec<_>>()
    });
    let chance = [0, 1, 2, 3, 4].map(|p| {
        let shares = places[p].iter().map(|(i, keys)| keys.len() as f64 / (i + 1) as f64);
        Some((places[p].len(), mean(shares)?))
    });
    let mut heads: Vec<Head> = maps
        .chosen(Default::default())
        .into_iter()
        .map(|(layer, head)| {
            let weights = maps.head(layer, head);
            let mass = [0, 1, 2, 3, 4].map(|p| {
                let given = |(i, keys): &(usize, Vec<usize>)| keys.iter().map(|j| f64::from(weights[i * n + j])).sum();
                mean(places[p].iter().map(given))
            });
            let entropy = mean((1..n).map(|i| entropy(&weights[i * n..][..=i])));
            Head { layer, head, mass, entropy, pattern: clearest(&mass, &chance).map(|(pattern, _)| pattern) }
        })
        .collect();
    let rank = |head: &Head| clearest(&head.mass, &chance).map_or((9, 0.0), |(p, excess)| (p as usize, -excess));
    heads.sort_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    Survey { heads, chance, uniform_entropy: mean((1..n).map(|i| ((i + 1) as f64).log2())) }
}

/// The pattern that a head follows furthest beyond chance, and how much of what chance leaves it gives it.
fn clearest(mass: &[Option<f64>; 5], chance: &[Option<(usize, f64)>; 5]) -> Option<(Pattern, f64)> {
    let excess = |(p, pattern): (usize, Pattern)| {
        let (mass, (queries, chance)) = (mass[p]?, chance[p]?);
        let excess = (mass - chance) / (1.0 - chance);
        (queries >= ENOUGH && excess >= CLEAR.0 && mass >= CLEAR.1 * chance).then_some((pattern, excess))
    };
    let clear = Pattern::ALL.into_iter().enumerate().filter_map(excess);
    clear.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// In bits.
fn entropy(weights: &[f32]) -> f64 {
    weights.iter().map(|&w| f64::from(w)).map(|w| if w == 0.0 { 0.0 } else { -w * w.log2() }).sum()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0, 0.0), |(n, sum), x| (n + 1, sum + x));
    (n > 0).then(|| sum / f64::from(n))
}
