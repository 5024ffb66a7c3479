//! What a model writes: a prompt, and one token after another.
//!
//! Past the context it goes on as the position scheme allows. With RoPE, and without positions, the oldest token makes way
//! for the newest. A learned position or a sinusoidal one belongs to its place, so there the later half of the window is
//! read again as the beginning of the next: one pass over half a context for each half a context of tokens.

mod sampling;

use rand_chacha::ChaCha12Rng;

pub use sampling::Sampling;

use crate::{
    base::{Error, Exit, Result, rng},
    data::tokenizer::Tokenizer,
    engine::decode::{self, Decoder},
    spec::config::{ModelConfig, Position},
};

/// A model at work.
pub struct Writer {
    decoder: Decoder,
    /// The prompt and what followed, to the last token that was drawn.
    tokens: Vec<u32>,
    /// Of them, those that the decoder was fed.
    fed: usize,
    /// Tokens of the prompt.
    prompt: usize,
    /// The token that the decoder's first position holds.
    first: usize,
    context: usize,
    logits: Vec<f32>,
}

impl Writer {
    /// A writer with the weights of a model over `vocab` tokens, for texts of up to `most` tokens.
    ///
    /// # Errors
    /// As [`Decoder::new`].
    pub fn new(model: &ModelConfig, vocab: usize, weights: &[f32], most: usize, threads: usize) -> Result<Self> {
        let decoder = Decoder::new(model, vocab, weights, most, threads)?;
        Ok(Self {
            decoder,
            tokens: Vec::new(),
            fed: 0,
            prompt: 0,
            first: 0,
            context: model.context,
            logits: Vec::new(),
        })
    }

    /// Begins a text. Of a prompt that is longer than the context, its end is read.
    ///
    /// # Errors
    /// Where a token is outside the vocabulary, or there are none.
    pub fn begin(&mut self, prompt: &[u32]) -> Result<()> {
        // Another text of the same prompt begins with what is remembered of it; its last token is read again for the logits.
        let is_same = self.first == 0 && !prompt.is_empty() && self.tokens.get(..self.prompt) == Some(prompt);
        let known = if is_same { prompt.len() - 1 } else { 0 };
        let from = if self.decoder.rewind(known) && known > 0 {
            known
        } else {
            self.first = prompt.len() - prompt.len().min(self.decoder.capacity());
            self.first
        };
        self.logits = self.decoder.feed(&prompt[from..])?.to_vec();
        (self.tokens, self.prompt) = (prompt.to_vec(), prompt.len());
        self.fed = prompt.len();
        Ok(())
    }

    /// Forgets all, so that the next text begins with its whole prompt.
    pub fn forget(&mut self) {
        self.decoder.rewind(0);
        (self.prompt, self.fed) = (0, 0);
        self.tokens.clear();
    }

    /// Draws the next token.
    ///
    /// # Errors
    /// As [`Sampling::choose`].
    pub fn next(&mut self, sampling: &Sampling, rng: &mut ChaCha12Rng) -> Result<u32> {
        self.read()?;
        let token = sampling.choose(&self.logits, rng)?;
        self.tokens.push(token);
        Ok(token)
    }

    /// Feeds what was drawn last. The last token of a text leads nowhere, and is never fed.
    fn read(&mut self) -> Result<()> {
        let new = &self.tokens[self.fed..];
        if new.is_empty() {
            return Ok(());
        }
        let logits = if self.decoder.room().is_some_and(|room| room < new.len()) {
            self.decoder.rewind(0);
            self.first = self.tokens.len() - self.context.div_ceil(2);
            self.decoder.feed(&self.tokens[self.first..])?
        } else {
            self.decoder.feed(new)?
        };
        self.logits.copy_from_slice(logits);
        self.fed = self.tokens.len();
        Ok(())
    }

    /// The prompt and all that was drawn since.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The decoder, for what it is made of.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

/// What is written after where nothing is said: a text begins after a line's end.
const PROMPT: &str = "\n";

/// The tokens of a prompt; of a line's end, or the first token where the tokenizer has none, if there is no prompt.
///
/// # Errors
/// [`Exit::Spec`] where the tokenizer does not know a character, or the prompt is empty.
pub fn prompt(tokenizer: &dyn Tokenizer, text: Option<&str>) -> Result<Vec<u32>> {
    let Some(text) = text else {
        let tokens = tokenizer.encode(PROMPT).ok().filter(|tokens| !tokens.is_empty());
        return Ok(tokens.unwrap_or_else(|| vec![0]));
    };
    let tokens = tokenizer.encode(text)?;
    if tokens.is_empty() {
        return Err(Error::new(Exit::Spec, "reading the prompt", "it is empty")
            .hint("without a prompt the model goes on from a line's end"));
    }
    Ok(tokens)
}

/// The stream that the `index`-th sample (from 0) of a seed draws from.
pub fn stream(seed: u64, index: u64) -> ChaCha12Rng {
    rng::stream(seed, &format!("sample/{index}"))
}

/// What becomes of a text of `tokens` tokens that is longer than the context, in a sentence; `None` where it fits.
pub fn beyond_context(model: &ModelConfig, tokens: usize) -> Option<String> {
    let context = model.context;
    let goes_on = match model.position {
        Position::Rope | Position::None => format!("each token sees the {context} before it"),
        Position::Learned | Position::Sinusoidal => {
            format!("whenever it is full, the last {} tokens are read again from its beginning", context.div_ceil(2))
        }
    };
    (tokens > context).then(|| format!("the text is longer than the model's context of {context}: {goes_on}"))
}

/// The bytes a second that so many threads read from memory, measured now.
pub fn memory_bandwidth(threads: usize) -> Result<f64> {
    decode::memory_bandwidth(threads)
}
