//! Where a run's model looks: its attention weights over a prompt. The reference engine computes them, since it knows
//! every switch of the model and keeps the weights whole.

use super::{Trained, Which, tokenizer_of};
use crate::{
    base::{
        Error, Exit, Result,
        folders::{Root, RunFolder},
    },
    engine::{Engine, Part, tape::Tape},
    spec::config::Dtype,
};

/// What a model reads.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// For the run's tokenizer.
    Text(String),
    /// Its tokens.
    Ids(Vec<u32>),
}

/// The attention weights of every head over a prompt of T tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Updates that made the model's weights.
    pub step: u64,
    /// The tokens, T of them.
    pub tokens: Vec<u32>,
    /// What each of them stands for; empty where no tokenizer is known.
    pub texts: Vec<String>,
    /// L.
    pub layers: usize,
    /// H.
    pub heads: usize,
    /// (L, H, T, T), queries by keys, after softmax.
    pub weights: Vec<f32>,
}

/// The attention weights of a run's model over a prompt.
///
/// # Errors
/// [`Exit::Usage`] where there is no such checkpoint, or the prompt has less than two tokens, more than the context or such
/// as are not the model's; [`Exit::Store`] where the run's files cannot be read; as [`tokenizer_of`].
pub fn attention(root: &Root, run: &RunFolder, which: Which, prompt: &Prompt) -> Result<Attention> {
    let trained = Trained::load(run, which)?;
    let doing = || format!("reading the prompt for run {}", trained.frozen.id.short());
    let tokenizer = tokenizer_of(root, run, &trained.frozen);
    let (tokens, tokenizer) = match prompt {
        Prompt::Text(text) => {
            let unknown = || Error::new(Exit::Usage, doing(), "it is not known what its tokens mean");
            let tokenizer = tokenizer?.ok_or_else(|| unknown().hint("give token ids: --ids 1,2,3"))?;
            let tokens = tokenizer.encode(text).map_err(|e| Error { exit: Exit::Usage, ..e.within(doing()) })?;
            (tokens, Some(tokenizer))
        }
        Prompt::Ids(ids) => (ids.clone(), tokenizer.unwrap_or_default()), // they need no words
    };
    check(&trained, &tokens).map_err(|(why, hint)| Error::new(Exit::Usage, doing(), why).hint(hint))?;
    let mut config = trained.frozen.config.clone();
    config.train.dtype = Dtype::F32; // what a CPU computes in, whatever the run was trained in
    let mut tape = Tape::new(&config, trained.frozen.vocab_size, "cpu")?;
    tape.write(Part::Params, &trained.weights)?;
    let texts = tokens.iter().map(|&token| tokenizer.as_ref().map_or(String::new(), |t| t.decode(&[token])));
    Ok(Attention {
        step: trained.step,
        texts: texts.collect(),
        layers: config.model.layers,
        heads: config.model.heads,
        weights: tape.attention(&tokens)?.concat(),
        tokens,
    })
}

/// Why the model cannot read a prompt, and what to do.
fn check(trained: &Trained, tokens: &[u32]) -> Result<(), (String, String)> {
    let (context, vocab) = (trained.frozen.config.model.context, trained.frozen.vocab_size);
    if let Some(why) = ["it is empty", "it is one token, which has only itself to look at"].get(tokens.len()) {
        return Err(((*why).into(), "attention needs a token that looks, and one before it to look at".into()));
    }
    if tokens.len() > context {
        let why = format!("it has {} tokens, and the model's context is {context}", tokens.len());
        return Err((why, format!("leave out {} of them", tokens.len() - context)));
    }
    match tokens.iter().find(|&&token| token as usize >= vocab) {
        Some(token) => Err((format!("the model has no token {token}"), format!("its tokens are 0 to {}", vocab - 1))),
        None => Ok(()),
    }
}
