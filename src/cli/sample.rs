//! `exp sample RUN`: let a run's model write.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    needed_store,
    prompt::{Given, from_standard_input},
};
use crate::{
    base::{Error, Exit, Result, folders::Root, visible::visible},
    data::tokenizer::{TextStream, Tokenizer},
    exec::device,
    spec::identity::FrozenRun,
    train::{
        Trained, Which,
        attention::Prompt,
        generate::{self, Sampling, Writer},
        tokenizer_of,
    },
    ui::{
        self, format,
        table::{self, words},
    },
};

/// Between samples, as nanoGPT has it.
const BETWEEN: &str = "---------------\n";

/// Arguments of `exp sample`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("prompt", |arg| arg.help("What the model goes on from [default: a line's end]")))]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// Read the prompt from standard input
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with = "given")]
    stdin: Option<String>,

    #[command(flatten)]
    given: Given,

    /// How many tokens are written
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,

    /// What logits are divided by: below 1 the likely becomes likelier, 0 takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature, allow_hyphen_values = true)]
    temperature: f64,

    /// Draw from the K likeliest tokens only
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,

    /// Draw from the likeliest tokens only that together have the probability P
    #[arg(long, value_name = "P", value_parser = probability)]
    top_p: Option<f64>,

    /// The seed of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many texts are written
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    /// Which weights: best, last, or the number of a step
    #[arg(long, value_name = "best|last|N", default_value = "best")]
    checkpoint: Which,

    /// CPU threads to compute with [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Show how fast it writes instead of what
    #[arg(long, conflicts_with = "count")]
    bench: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn temperature(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    (value.is_finite() && value >= 0.0).then_some(value).ok_or_else(|| "it is a finite number of at least 0".into())
}

fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    (value > 0.0 && value <= 1.0).then_some(value).ok_or_else(|| "it is a number in (0, 1]".into())
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    let folder = root.run(&row.id);
    let trained = Trained::load(&folder, args.checkpoint)?;
    let given = match &args.stdin {
        Some(_) => Some(from_standard_input()?),
        None => args.given.read()?,
    };
    let tokenizer = match &given {
        // Ids need none, but what has one is read more easily.
        Some(Prompt::Ids(_)) => tokenizer_of(root, &folder, &trained.frozen).unwrap_or_default(),
        _ => tokenizer_of(root, &folder, &trained.frozen)?,
    };
    let prompt = prompt(given, &trained, tokenizer.as_deref())?;
    let model = &trained.frozen.config.model;
    let total = prompt.len() + args.tokens as usize;
    if let Some(note) = generate::beyond_context(model, total) {
        ui::note(&note);
    }
    let threads = args.threads.map_or_else(device::cores, usize::from);
    let mut writer = Writer::new(model, trained.frozen.vocab_size, &trained.weights, total, threads)?;
    let Trained { frozen: FrozenRun { id, .. }, step, .. } = trained; // its weights are packed now
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k.map(|k| k as usize), top_p: args.top_p };
    if args.bench {
        let bench = Bench::run(&mut writer, &prompt, args, &sampling)?;
        if args.json {
            ui::print_json(&bench.json())
        } else {
            ui::print(&bench.table())
        }
        return Ok(Exit::Done);
    }
    let mut samples = Vec::new();
    for index in 0..args.count {
        let is_read = args.json || index == 0 || ui::try_print(BETWEEN);
        let to_terminal = std::io::stdout().is_terminal();
        let out = Output { tokenizer: tokenizer.as_deref(), shown: !args.json, to_terminal };
        match is_read.then(|| write(&mut writer, &prompt, args, &sampling, index, &out)).transpose()?.flatten() {
            Some(sample) => samples.push(sample),
            None => return Ok(Exit::Done), // nobody reads it any more
        }
    }
    if args.json {
        ui::print_json(&json!({
            "run": id, "step": step, "seed": args.seed, "prompt_ids": prompt, "samples": samples,
        }));
    }
    Ok(Exit::Done)
}

/// The tokens of the prompt.
fn prompt(given: Option<Prompt>, trained: &Trained, tokenizer: Option<&dyn Tokenizer>) -> Result<Vec<u32>> {
    let run = trained.frozen.id.short();
    let fail = |why: String| Error::new(Exit::Usage, format!("reading the prompt for run {run}"), why);
    let text = match given {
        Some(Prompt::Ids(ids)) => {
            let vocab = trained.frozen.vocab_size;
            return match ids.iter().find(|&&id| id as usize >= vocab) {
                Some(id) => Err(fail(format!("token {id} is outside its vocabulary of {vocab}"))),
                None => Ok(ids),
            };
        }
        Some(Prompt::Text(text)) => Some(text),
        None => None,
    };
    let Some(tokenizer) = tokenizer else {
        return Err(fail("it is not known what its tokens mean".into()).hint("give token ids: --ids 1,2,3"));
    };
    generate::prompt(tokenizer, text.as_deref()).map_err(|error| Error { exit: Exit::Usage, ..error })
}

/// Where a text goes as it comes.
struct Output<'a> {
    tokenizer: Option<&'a dyn Tokenizer>,
    shown: bool,
    /// Whether it is a terminal, which what a model writes must not steer.
    to_terminal: bool,
}

/// Writes one text; `None` where nobody reads on.
fn write(
    writer: &mut Writer,
    prompt: &[u32],
    args: &Args,
    sampling: &Sampling,
    index: u32,
    out: &Output,
) -> Result<Option<Value>> {
    let mut rng = generate::stream(args.seed, index.into());
    let mut text = String::new();
    let mut give = |piece: &str| {
        text += piece;
        let shown = if out.to_terminal { visible(piece) } else { piece.into() };
        !out.shown || ui::try_print(&shown)
    };
    let ids = |ids: &[u32]| ids.iter().map(|id| format!("{id} ")).collect::<String>();
    let mut is_read = give(&out.tokenizer.map_or_else(|| ids(prompt), |tokenizer| tokenizer.decode(prompt)));
    let mut stream = out.tokenizer.map(|tokenizer| TextStream::after(tokenizer, prompt));
    writer.begin(prompt)?;
    for _ in 0..args.tokens {
        if !is_read {
            return Ok(None);
        }
        let token = writer.next(sampling, &mut rng)?;
        is_read = give(&stream.as_mut().map_or_else(|| ids(&[token]), |stream| stream.push(token)));
    }
    give(&stream.map_or_else(String::new, TextStream::end));
    if out.shown && !text.ends_with('\n') {
        ui::print("\n");
    }
    let tokens = &writer.tokens()[prompt.len()..];
    Ok(Some(json!({"ids": tokens, "text": out.tokenizer.map(|_| &text)})))
}

/// How fast a model writes.
struct Bench {
    prompt: usize,
    tokens: usize,
    threads: usize,
    first: Duration,
    /// The median of all tokens but the first.
    each: Duration,
    all: Duration,
    cache: usize,
    weights: usize,
    /// Bytes read for a token: the weights, and as much of the cache as is filled on average.
    read: f64,
    /// Bytes a second that the memory gives at best.
    bandwidth: f64,
}

impl Bench {
    fn run(writer: &mut Writer, prompt: &[u32], args: &Args, sampling: &Sampling) -> Result<Self> {
        let threads = writer.decoder().threads();
        let bandwidth = generate::memory_bandwidth(threads)?;
        // The first text touches memory for the first time.
        let mut times = Vec::new();
        let mut first = Duration::MAX;
        for _ in 0..2 {
            times.clear();
            let mut rng = generate::stream(args.seed, 0);
            writer.forget();
            let mut begin = Instant::now();
            writer.begin(prompt)?;
            for _ in 0..args.tokens.max(2) {
                writer.next(sampling, &mut rng)?;
                times.push(begin.elapsed());
                begin = Instant::now();
            }
            first = first.min(times.remove(0));
        }
        let all: Duration = times.iter().sum();
        let tokens = times.len();
        times.sort_unstable();
        let decoder = writer.decoder();
        let filled = (prompt.len() + tokens / 2).min(decoder.capacity());
        Ok(Self {
            prompt: prompt.len().min(decoder.capacity()),
            tokens,
            threads,
            first,
            each: times[tokens / 2],
            all,
            cache: decoder.cache_bytes_per_token(),
            weights: decoder.weight_bytes(),
            read: (decoder.weight_bytes() + filled * decoder.cache_bytes_per_token()) as f64,
            bandwidth,
        })
    }

    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.all.as_secs_f64()
    }

    /// Bytes read a second, as a share of what the memory gives.
    fn share(&self) -> f64 {
        self.read / self.each.as_secs_f64() / self.bandwidth
    }

    fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "tokens": self.tokens,
            "threads": self.threads,
            "first_token_ms": self.first.as_secs_f64() * 1e3,
            "token_ms": self.each.as_secs_f64() * 1e3,
            "tokens_per_second": self.tokens_per_second(),
            "weight_bytes": self.weights,
            "cache_bytes_per_token": self.cache,
            "memory_bandwidth": self.bandwidth,
            "memory_bandwidth_share": self.share(),
        })
    }

    fn table(&self) -> String {
        let time = |time: Duration| match time.as_secs_f64() * 1e3 {
            ms if ms < 1.0 => format!("{:.1} µs", 1e3 * ms),
            ms => format!("{ms:.2} ms"),
        };
        let bound = match self.share() {
            share if share > 1.0 => "no bound: the processor's cache holds what is read".to_owned(),
            share => format!("{:.0} % of the {:.1} GB/s measured now", 100.0 * share, self.bandwidth / 1e9),
        };
        let mean = self.all / self.tokens as u32;
        let rows = [
            ("prompt", format::plural(self.prompt, "token")),
            ("time to first token", time(self.first)),
            ("time per token", format!("{} on average, {} the median", time(mean), time(self.each))),
            ("tokens per second", format!("{:.0}", self.tokens_per_second())),
            ("threads", self.threads.to_string()),
            ("weights read per token", format::bytes(self.weights as u64)),
            ("cache per token", format::bytes(self.cache as u64)),
            ("memory bandwidth", bound),
        ];
        let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect();
        table::render(&[words("decoding"), words("")], &rows)
    }
}
