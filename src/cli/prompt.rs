//! A prompt on the command line, for every command that has a model read one.

use std::{fs, io::ErrorKind, path::Path};

use crate::{
    base::{Context, Error, Exit, Result},
    train::attention::Prompt,
};

/// A text, the same from a file, or ids: one of them at most.
#[derive(Debug, clap::Args)]
#[group(id = "given", multiple = false)]
pub struct Given {
    /// What the model reads
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,

    /// The same from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<String>,

    /// The same as token ids, with commas between them; for models without a tokenizer
    #[arg(long, value_delimiter = ',')]
    ids: Option<Vec<u32>>,
}

impl Given {
    /// The prompt, if one was given.
    ///
    /// # Errors
    /// [`Exit::Usage`] where a file cannot be read, or is no UTF-8.
    pub fn read(&self) -> Result<Option<Prompt>> {
        let doing = |file: &str| format!("reading the prompt from {file}");
        Ok(match (&self.prompt, self.prompt_file.as_deref(), &self.ids) {
            (Some(text), ..) => Some(Prompt::Text(text.clone())),
            (_, Some("-"), _) => Some(from_standard_input()?),
            (_, Some(file), _) if !Path::new(file).exists() => {
                return Err(Error::new(Exit::Usage, doing(file), "there is no such file").io(ErrorKind::NotFound));
            }
            (_, Some(file), _) => Some(Prompt::Text(fs::read_to_string(file).doing(Exit::Usage, || doing(file))?)),
            (.., Some(ids)) => Some(Prompt::Ids(ids.clone())),
            (None, None, None) => None,
        })
    }
}

/// All of standard input.
///
/// # Errors
/// [`Exit::Usage`] where it cannot be read, or is no UTF-8.
pub fn from_standard_input() -> Result<Prompt> {
    let text = std::io::read_to_string(std::io::stdin());
    text.map(Prompt::Text).doing(Exit::Usage, || "reading the prompt from standard input".into())
}
