//! What a text comes from. It knows nothing of tokens.

use crate::{
    base::{Error, Exit, Result},
    data::{playbook::Playbook, shakespeare::Shakespeare, text::TextFiles},
    spec::config::{CorpusKind, DataConfig},
};

/// A source of text.
pub trait Corpus {
    /// `playbook`, `shakespeare`, or the path of the text.
    fn name(&self) -> String;

    /// What cached tokens are found by: corpora of one key have one text. May be had without the text.
    fn key(&self) -> Result<String>;

    /// Brings the text to this machine where it lies elsewhere, before [`read`](Self::read). `is_asked` says meanwhile
    /// whether somebody asks to stop, which ends it with [`Exit::Interrupted`].
    fn fetch(&self, _is_asked: &dyn Fn() -> bool) -> Result<()> {
        Ok(())
    }

    /// The text.
    fn read(&self) -> Result<Text>;

    /// Things a person should know about where the text comes from, such as files that were passed over.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A text, and what it costs where that is known.
pub struct Text {
    /// The characters.
    pub text: String,
    /// What they cost under the grammar that made them.
    pub costs: Option<Costs>,
}

/// What a generated text costs: bits by where in the text they were spent.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Byte offsets, ascending, and the bits of all choices up to there.
    spent: Vec<(usize, f64)>,
}

impl Default for Costs {
    fn default() -> Self {
        Self { spent: vec![(0, 0.0)] }
    }
}

impl Costs {
    /// Adds a choice that was made before byte `at` was written, and had probability weight / total.
    pub fn spend(&mut self, at: usize, weight: u64, total: u64) {
        self.spent.push((at, self.total() + (total as f64 / weight as f64).log2()));
    }

    /// Bits of all choices.
    pub fn total(&self) -> f64 {
        self.spent[self.spent.len() - 1].1
    }

    /// Bits of the choices that were made at byte `from` or later.
    pub fn since(&self, from: usize) -> f64 {
        let before = self.spent.partition_point(|&(at, _)| at < from);
        self.total() - self.spent[before.saturating_sub(1)].1
    }
}

/// The corpus that a config names.
pub fn of(config: &DataConfig) -> Result<Box<dyn Corpus>> {
    Ok(match config.corpus {
        CorpusKind::Playbook => Box::new(Generated { seed: config.corpus_seed, chars: config.corpus_chars }),
        CorpusKind::Shakespeare => match &config.path {
            Some(path) => Box::new(TextFiles::file("shakespeare", path.as_ref()).map_err(|e| e.hint(WITHOUT_PATH))?),
            None => Box::new(Shakespeare),
        },
        CorpusKind::Text => {
            let path = config.path.as_deref().ok_or_else(|| {
                Error::new(Exit::Spec, "opening the corpus text", "data.path is not set")
                    .hint("name a UTF-8 file, or a folder of them, with data.path")
            })?;
            Box::new(TextFiles::file_or_folder(path.as_ref())?)
        }
        CorpusKind::Tokens => {
            return Err(Error::new(Exit::Spec, "opening the corpus tokens", "it has tokens and no text"));
        }
    })
}

const WITHOUT_PATH: &str = "without `data.path` the corpus `shakespeare` is Tiny Shakespeare, downloaded on first use";

/// The built-in corpus.
struct Generated {
    seed: u64,
    chars: u64,
}

impl Corpus for Generated {
    fn name(&self) -> String {
        "playbook".into()
    }

    fn key(&self) -> Result<String> {
        Ok(format!("playbook {} {} {}", Playbook::version(), self.seed, self.chars))
    }

    fn read(&self) -> Result<Text> {
        let Playbook { text, costs } = Playbook::generate(self.seed, self.chars as usize)?;
        Ok(Text { text, costs: Some(costs) })
    }
}
