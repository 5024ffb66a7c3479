//! `exp import PATH`: weights of GPT-2, Llama or nanoGPT become a run.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use super::run::shown;
use crate::{
    base::{Context, Error, Exit, Result, clock, folders::Root, wait::Wait},
    data::tokenizer::{GPT2_EOT, Source, TokenizerFile},
    event::Expansion,
    exec::import::{self, Tokens},
    model::import::Import,
    spec::{self, config::TokenizerKind, identity::FrozenRun},
    store::Store,
    ui::{self, format},
};

/// Arguments of `exp import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder of Hugging Face's (GPT-2 or Llama: config.json, model.safetensors), or nanoGPT's ckpt.pt
    path: PathBuf,

    /// The experiment that the run will belong to
    #[arg(long, value_name = "NAME", default_value = "imports", value_parser = experiment_name)]
    experiment: String,

    /// Leave out what the model knows of positions from this one on
    #[arg(long, value_name = "N")]
    context: Option<usize>,

    /// What its tokens mean: char, byte, gpt2, file, ids [default: its tokenizer.json; gpt2 for 50257 tokens]
    #[arg(long, value_name = "WORD", value_parser = tokenizer_word)]
    tokenizer: Option<TokenizerKind>,

    /// The tokenizer.json of `--tokenizer file`
    #[arg(long, value_name = "FILE")]
    tokenizer_file: Option<PathBuf>,

    /// The text whose characters the tokenizer `char` knows
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
}

fn experiment_name(name: &str) -> Result<String, String> {
    spec::name_fault(name).map_or_else(|| Ok(name.to_owned()), Err)
}

fn tokenizer_word(word: &str) -> Result<TokenizerKind, String> {
    let words = || format!("one of {}", TokenizerKind::WORDS.join(", "));
    serde_json::from_value(word.into()).map_err(|_| words())
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    may_join(&root.experiment_journal(&args.experiment), &args.experiment)?; // before all weights are read
    let model = Import::open(&args.path, args.context)?;
    let size = format::count(model.layout.len() as f64);
    ui::note(&format!("{}: {} with {size} parameters", args.path.display(), model.format.name()));
    let tokens = args.tokens(&model)?;
    let done = import::import(root, &model, &args.path.display().to_string(), tokens.as_ref())?;
    register(root, &args.experiment, &done.frozen)?;

    model.notes.iter().for_each(|note| ui::note(note));
    if done.not_finite > 0 {
        ui::note(&format!("warning: {} of its weights are not finite", done.not_finite));
    }
    let kept = if model.has_moments() { "weights and the optimizer's moments" } else { "weights" };
    match &tokens {
        Some(tokens) => {
            ui::note(&format!("kept: {kept}; its tokens are those of the tokenizer `{}`", tokens.source.kind().word()))
        }
        None => ui::note(&format!(
            "kept: {kept}; what its {} tokens mean is not known, so prompts have to be ids; `--text` (the text whose characters \
             they are), `--tokenizer` or `--tokenizer-file` says it",
            model.vocab
        )),
    }
    let id = done.frozen.id.short();
    match done.was_there {
        true => ui::note(&format!("run {id} holds the same weights already: nothing was written")),
        false => ui::note(&format!(
            "run {id}: {}; `run.init_from: {id}` fine-tunes it",
            shown(root.run(&done.frozen.id).path())
        )),
    }
    ui::print(&format!("{}\n", done.frozen.id));
    Ok(Exit::Done)
}

impl Args {
    /// What the model's tokens mean, as far as anybody says so.
    fn tokens(&self, model: &Import) -> Result<Option<Tokens>> {
        let usage = |why: &str| Error::new(Exit::Usage, format!("importing {}", self.path.display()), why);
        let file = self.tokenizer_file.as_ref().or(model.tokenizer_file.as_ref());
        let kind = match self.tokenizer {
            Some(kind) => kind,
            None if self.tokenizer_file.is_some() => TokenizerKind::File,
            None if self.text.is_some() => TokenizerKind::Char,
            None if file.is_some() => TokenizerKind::File,
            None if model.vocab == GPT2_EOT as usize + 1 => TokenizerKind::Gpt2,
            None => return Ok(None),
        };
        if self.text.is_some() && kind != TokenizerKind::Char {
            return Err(usage("--text is for the tokenizer `char`"));
        }
        if self.tokenizer_file.is_some() && kind != TokenizerKind::File {
            return Err(usage("--tokenizer-file is for the tokenizer `file`"));
        }
        let mut text = String::new();
        let source = match (kind, &self.text, file) {
            (TokenizerKind::Byte, ..) => Source::Byte,
            (TokenizerKind::Gpt2, ..) => Source::Gpt2,
            (TokenizerKind::Ids, ..) => Source::Numbers(model.vocab),
            (TokenizerKind::Char, Some(path), _) => {
                text = read_text(path)?;
                Source::Char
            }
            (TokenizerKind::File, _, Some(path)) => Source::File(TokenizerFile::read(path)?),
            (TokenizerKind::Char, None, _) => {
                return Err(usage("the tokenizer `char` needs the text that it was made from")
                    .hint("`--text FILE` names it; for nanoGPT's shakespeare_char that is input.txt"));
            }
            (TokenizerKind::File, _, None) => {
                return Err(usage(
                    "the tokenizer `file` needs a file, and there is no tokenizer.json beside the weights",
                )
                .hint("`--tokenizer-file FILE` names it"));
            }
        };
        let tokenizer = source.build(&text)?;
        let (knows, vocab) = (tokenizer.vocab_size(), model.vocab);
        if knows > vocab {
            let why = format!("its tokenizer `{}` has {knows} tokens, and the model {vocab}", kind.word());
            return Err(Error::new(Exit::Spec, format!("importing {}", self.path.display()), why)
                .hint("`--tokenizer` names another, `--text` or `--tokenizer-file` what it is made from"));
        }
        if knows < vocab {
            ui::note(&format!(
                "warning: its tokenizer has {knows} tokens, and the model {vocab}: the last {} stand for nothing; is it the \
                 right one?",
                vocab - knows
            ));
        }
        let file = file.filter(|_| kind == TokenizerKind::File).map(|path| path.display().to_string());
        Ok(Some(Tokens { source, tokenizer, file }))
    }
}

/// A text whose characters are wanted. A pipe or a device might never end.
fn read_text(path: &Path) -> Result<String> {
    let doing = || format!("reading {}", path.display());
    if !fs::metadata(path).doing(Exit::Usage, doing)?.is_file() {
        return Err(Error::new(Exit::Usage, doing(), "it is no regular file"));
    }
    fs::read_to_string(path).doing(Exit::Usage, doing)
}

/// Refuses an experiment that came from a spec: what the spec says would no longer be what the experiment has. Gives what it
/// has so far.
fn may_join(journal: &Path, experiment: &str) -> Result<Option<Expansion>> {
    let doing = || format!("adding the import to the experiment {experiment}");
    let text = match fs::read(journal) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.doing(Exit::Store, doing)?,
    };
    let last = text.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice::<Expansion>(line).ok());
    match last {
        Some(expansion) if !expansion.spec.is_empty() => Err(Error::new(Exit::Usage, doing(), "it is a spec's")
            .hint("`--experiment NAME` names another; no spec is needed for it")),
        last => Ok(last),
    }
}

/// Adds a run to an experiment, which keeps its other runs. Others that import at the same time wait.
fn register(root: &Root, experiment: &str, frozen: &FrozenRun) -> Result<()> {
    let mut store = Store::open(root)?;
    store.sync()?;
    let path = root.experiment_lock(experiment);
    let wait = Wait { what: "imports a model", patience: Duration::from_secs(60), is_asked: &|| false };
    let _alone = wait
        .take(&path)?
        .ok_or_else(|| Error::new(Exit::Store, format!("waiting for {}", wait.holder(&path)), "it does not get on"))?;
    store.sync()?;
    // `exp run` holds this lock only as it begins: what it may have written since is seen in the journal itself.
    let mut members = may_join(&root.experiment_journal(experiment), experiment)?.map_or_else(Vec::new, |e| e.members);
    if !members.contains(&frozen.id) {
        members.push(frozen.id);
        let expansion = Expansion { at: clock::now(), axes: Vec::new(), members, spec: String::new() };
        store.register(experiment, &expansion, std::slice::from_ref(frozen))?;
    }
    super::say_damage(&store)
}
