//! Whether the weights of one network can begin a run of another.

use serde_json::Value;

use crate::spec::{
    RunConfig,
    config::{ModelConfig, Position},
    leaf,
};

/// What of two networks keeps one from starting with the other's weights: the leaf, its two values, and what to do about
/// it. Not dropout, which has no weights, nor the preset, which is but a name; not a smaller context, which needs fewer
/// positions, nor any context where positions have no weights; not RoPE's base where nothing is rotated.
pub fn misfit(
    (has, has_vocab): (&ModelConfig, usize),
    (needs, needs_vocab): (&ModelConfig, usize),
) -> Option<(String, Value, Value, Option<String>)> {
    let leaves = |model: &ModelConfig| RunConfig { model: model.clone(), ..RunConfig::default() }.leaves();
    let may_differ = |leaf: &str| match leaf {
        "model.dropout" | leaf::PRESET => true,
        "model.context" => needs.position != Position::Learned || needs.context <= has.context,
        "model.rope_theta" => needs.position != Position::Rope,
        _ => false,
    };
    let pairs = leaves(has).into_iter().zip(leaves(needs)).map(|((leaf, has), (_, needs))| (leaf, has, needs));
    let misfit = pairs.into_iter().find(|(leaf, has, needs)| has != needs && !may_differ(leaf));
    misfit
        .map(|(leaf, has, needs)| {
            (
                leaf.clone(),
                has.clone(),
                needs,
                Some(format!("leave `{leaf}` out: it then is {}, as in that run", bare(&has))),
            )
        })
        .or_else(|| {
            let differs = (has_vocab != needs_vocab).then(|| known_tokenizer(has_vocab));
            differs.map(|hint| ("vocab_size".to_owned(), has_vocab.into(), needs_vocab.into(), Some(hint)))
        })
}

/// How to get as many tokens as weights know.
fn known_tokenizer(vocab: usize) -> String {
    match vocab {
        50_257 => "these weights know GPT-2's tokens: set `data.tokenizer: gpt2`".into(),
        256 => "these weights know bytes: set `data.tokenizer: byte`".into(),
        _ => {
            format!("choose the text and the `data.tokenizer` that these weights were trained with, of {vocab} tokens")
        }
    }
}

/// A value as a spec has it.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
