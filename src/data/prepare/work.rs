//! What is done with texts, pass by pass, and how it is gone on with.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::PathBuf,
    rc::Rc,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{
    Hooks, Prepared, Request,
    documents::Documents,
    input::Counter,
    pass::{self, End, Note},
    pieces::{Cursor, Cuts, Piece, Pieces},
    state::{Job, Mark, Out, Phase, Record, State, TOKENIZER},
};
use crate::{
    base::{Context, Error, Exit, Result, files, lock::Lock, progress::Progress},
    data::{
        text::reading,
        tokenizer::{Source, Tokenizer},
        tokens::Meta,
    },
};

/// How often those who wait for the lock are shown that the work goes on.
const STIR: Duration = Duration::from_secs(1);

/// The work on a folder of tokens.
pub struct Work<'a> {
    request: &'a Request,
    hooks: &'a Hooks<'a>,
    job: &'a Job,
    inputs: &'a [PathBuf],
    out: &'a Out,
    state: State,
    /// How long it took before this command, in seconds, and when this one began.
    before: (f64, Instant),
    pool: Rc<ThreadPool>,
    lock: &'a Lock,
    /// When the state was last made durable.
    saved: Instant,
}

/// What a piece became.
struct Encoded {
    bytes: Vec<u8>,
    tokens: u64,
    chars: u64,
}

impl<'a> Work<'a> {
    /// Work that begins where `state` says, by whoever holds `lock`.
    pub fn new(
        request: &'a Request,
        hooks: &'a Hooks<'a>,
        (job, inputs): (&'a Job, &'a [PathBuf]),
        out: &'a Out,
        state: State,
        lock: &'a Lock,
    ) -> Result<Self> {
        let threads = request.threads;
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.doing(Exit::Unexpected, || format!("starting {threads} threads"))?;
        let now = Instant::now();
        let (pool, before) = (Rc::new(pool), (state.seconds, now));
        Ok(Self { request, hooks, job, inputs, out, state, before, pool, lock, saved: now })
    }

    /// Does what is left; `None` where somebody asks to stop.
    pub fn run(&mut self) -> Result<Option<Prepared>> {
        if self.state.phase == Phase::Alphabet && self.find_alphabet()? == End::Asked {
            return Ok(None);
        }
        let tokenizer = match self.request.source {
            Source::Char => Source::Alphabet(self.state.alphabet.clone()).build("")?,
            ref source => source.build("")?,
        };
        if self.state.phase == Phase::Tokens && self.tokenize(&*tokenizer)? == End::Asked {
            return Ok(None);
        }
        let total = self.state.tokens;
        let train_tokens = self.job.train_tokens(total);
        let Some(train_chars) = self.chars_before(train_tokens, &*tokenizer)? else { return Ok(None) };
        if self.out.split(self.job, &self.state, &self.stirring())? == End::Asked {
            return Ok(None);
        }
        let prepared = Prepared {
            files: self.inputs.len() as u64,
            input_bytes: self.input_bytes(self.inputs.len()),
            documents: self.state.documents,
            text_bytes: self.state.bytes,
            train_tokens,
            val_tokens: total - train_tokens,
            train_chars,
            val_chars: self.state.chars - train_chars,
            vocab_size: tokenizer.vocab_size(),
            token_bytes: self.state.token_bytes,
            seconds: self.seconds(),
        };
        self.finish(&prepared, tokenizer.alphabet())?;
        Ok(Some(prepared))
    }

    /// Collects the characters of all texts.
    fn find_alphabet(&mut self) -> Result<End> {
        let bytes = Source::Byte.build("")?;
        let mut found: BTreeSet<char> = self.state.alphabet.chars().collect();
        let distinct = |piece: Piece| Ok(Source::Char.build(&piece.text)?.alphabet().unwrap_or_default());
        let end =
            self.pass("collecting characters", self.state.cursor, &*bytes, distinct, |work, note, chars: String| {
                found.extend(chars.chars());
                work.state.alphabet = found.iter().collect();
                work.pass_by(note);
                work.save_if_due(None)?;
                Ok(ControlFlow::Continue(()))
            });
        if matches!(end, Ok(End::Reached)) {
            let alphabet = std::mem::take(&mut self.state.alphabet);
            self.state = State { alphabet, ..State::new(Phase::Tokens) };
        }
        let saved = self.save(None);
        let end = end?;
        saved?;
        Ok(end)
    }

    /// Writes the tokens of all texts.
    fn tokenize(&mut self, tokenizer: &dyn Tokenizer) -> Result<End> {
        let width = if tokenizer.vocab_size() <= 1 << 16 { 2 } else { 4 };
        self.state.token_bytes = width;
        let path = self.out.tokens();
        let doing = || format!("writing {}", path.display());
        let written = self.state.tokens * width;
        let open = || -> io::Result<File> {
            files::make_folder(&self.out.aside())?;
            let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.set_len(written)?;
            file.seek(SeekFrom::Start(written))?;
            Ok(file)
        };
        let mut file = BufWriter::with_capacity(1 << 18, open().doing(Exit::Store, doing)?);
        let eot = self.job.eot;
        let encode = |piece: Piece| encode(&piece, tokenizer, eot, width);
        let end = self.pass("tokenizing", self.state.cursor, tokenizer, encode, |work, note, made: Encoded| {
            file.write_all(&made.bytes).doing(Exit::Store, doing)?;
            let State { tokens, chars, cursor, .. } = work.state;
            work.state.marks.push(Mark { tokens, chars, cursor });
            work.state.tokens += made.tokens;
            work.state.chars += made.chars;
            work.state.bytes += note.bytes;
            work.state.documents += note.documents;
            work.pass_by(note);
            work.save_if_due(Some(&mut file))?;
            Ok(ControlFlow::Continue(()))
        });
        // What was done before an error counts as well, as far as it can be kept.
        let saved = self.save(Some(&mut file));
        let end = end?;
        saved?;
        if end == End::Reached {
            self.check_inputs()?;
            if self.state.tokens == 0 {
                let names = self.request.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
                self.out.clear()?;
                return Err(Error::new(Exit::Spec, format!("reading {}", names.join(", ")), "there is no text in it"));
            }
            self.state.phase = Phase::Split;
            self.save(None)?;
        }
        Ok(end)
    }

    /// How many characters the first `count` tokens stand for, one that they end within included; `None` where somebody
    /// asks to stop.
    fn chars_before(&mut self, count: u64, tokenizer: &dyn Tokenizer) -> Result<Option<u64>> {
        let Mark { mut tokens, mut chars, cursor } = self.state.marks.before(count);
        let (eot, width) = (self.job.eot, self.state.token_bytes);
        let encode = |piece: Piece| Ok((encode(&piece, tokenizer, eot, width)?, piece));
        let end = self.pass("splitting", cursor, tokenizer, encode, |_, _, (made, piece): (Encoded, Piece)| {
            if tokens + made.tokens < count {
                (tokens, chars) = (tokens + made.tokens, chars + made.chars);
                return Ok(ControlFlow::Continue(()));
            }
            chars += chars_of(&piece, count - tokens, tokenizer, eot)?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok((end == End::Reached).then_some(chars))
    }

    fn finish(&self, prepared: &Prepared, alphabet: Option<String>) -> Result<()> {
        let file = match &self.request.source {
            Source::File(file) => Some(file.content()),
            _ => None,
        };
        let record = Record { job: self.job.clone(), prepared: prepared.clone() };
        self.out.place(&record, file)?;
        let [train, val] = ["train.bin", "val.bin"].map(|name| files::hash(&self.out.0.join(name)));
        let meta = Meta {
            vocab_size: prepared.vocab_size,
            tokenizer: Some(self.request.source.kind()),
            alphabet,
            tokenizer_file: file.map(|_| TOKENIZER.into()),
            token_bytes: Some(prepared.token_bytes),
            train_chars: Some(prepared.train_chars),
            val_chars: Some(prepared.val_chars),
            blake3: Some([train?, val?]),
            source: self.request.paths.iter().map(|path| path.display().to_string()).collect(),
        };
        meta.write(&self.out.0)?;
        self.out.clear()
    }

    /// A pass over the texts from there on.
    fn pass<T: Send>(
        &mut self,
        what: &str,
        cursor: Cursor,
        tokenizer: &dyn Tokenizer,
        work: impl Fn(Piece) -> Result<T> + Sync,
        mut take: impl FnMut(&mut Self, Note, T) -> Result<ControlFlow<()>>,
    ) -> Result<End> {
        let request = self.request;
        let counter = Counter::default();
        counter.read.store(self.input_bytes(cursor.place.file), Ordering::Relaxed);
        let documents = Documents::at(self.inputs, cursor.place, request.field.as_deref(), &counter);
        let cuts = Cuts::of(&request.source, tokenizer);
        let pieces = Pieces::new(documents, self.job.separator(), cuts, cursor);
        let (bar, of) = (Progress::of(what), self.input_bytes(self.inputs.len()));
        bar.at(self.state.read, of);
        let pool = Rc::clone(&self.pool);
        let end = pass::run(pieces, &counter, &pool, &self.stirring(), work, |note, made| {
            bar.at(note.read, of);
            take(self, note, made)
        });
        // What went wrong may be that a file became another.
        end.map_err(|e| if e.exit == Exit::Spec { self.check_inputs().err().unwrap_or(e) } else { e })
    }

    /// Whether somebody asks to stop; each time it is looked, those who wait for the lock may see that the work goes on.
    fn stirring(&self) -> impl Fn() -> bool + use<'a> {
        let (lock, hooks, stirred) = (self.lock, self.hooks, Cell::new(Instant::now()));
        move || {
            if stirred.get().elapsed() >= STIR {
                stirred.set(Instant::now());
                let _ = lock.touch(); // who sees no sign of life gives up waiting, and nothing else is lost
            }
            (hooks.is_asked)()
        }
    }

    /// The piece that a note tells of is done.
    fn pass_by(&mut self, note: Note) {
        (self.state.cursor, self.state.read) = (note.next, note.read);
    }

    fn save_if_due(&mut self, tokens: Option<&mut BufWriter<File>>) -> Result<()> {
        let is_due = self.saved.elapsed() >= self.request.save_every;
        if is_due { self.save(tokens) } else { Ok(()) }
    }

    /// Makes the state durable, and before it the tokens that it tells of.
    fn save(&mut self, tokens: Option<&mut BufWriter<File>>) -> Result<()> {
        if let Some(file) = tokens {
            let durable = file.flush().and_then(|()| file.get_ref().sync_data());
            durable.doing(Exit::Store, || format!("writing {}", self.out.tokens().display()))?;
        }
        self.state.seconds = self.seconds();
        self.out.save(&self.state)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// How long it took so far.
    fn seconds(&self) -> f64 {
        self.before.0 + self.before.1.elapsed().as_secs_f64()
    }

    fn check_inputs(&self) -> Result<()> {
        match self.job.changed(self.inputs)? {
            None => Ok(()),
            Some(path) => Err(Error::new(Exit::Spec, reading(path), "it changed while it was read")
                .hint("the same command begins anew")),
        }
    }

    /// Bytes of the first files.
    fn input_bytes(&self, files: usize) -> u64 {
        self.job.inputs()[..files].iter().map(|input| input.bytes).sum()
    }
}

/// The tokens of a piece, little-endian, of `width` bytes each.
fn encode(piece: &Piece, tokenizer: &dyn Tokenizer, eot: Option<u32>, width: u64) -> Result<Encoded> {
    let mut bytes = Vec::with_capacity(piece.text.len() / 2);
    for (i, part) in piece.parts().enumerate() {
        let tokens = if part.is_empty() { Vec::new() } else { tokenizer.encode(part)? };
        for token in eot.filter(|_| i > 0).into_iter().chain(tokens) {
            match width {
                2 => bytes.extend_from_slice(&(token as u16).to_le_bytes()),
                _ => bytes.extend_from_slice(&token.to_le_bytes()),
            }
        }
    }
    let tokens = bytes.len() as u64 / width;
    Ok(Encoded { bytes, tokens, chars: chars(&piece.text) })
}

/// How many characters of a piece its first `count` tokens stand for.
fn chars_of(piece: &Piece, mut count: u64, tokenizer: &dyn Tokenizer, eot: Option<u32>) -> Result<u64> {
    let mut found = 0;
    for (i, part) in piece.parts().enumerate() {
        if i > 0 && eot.is_some() {
            count = count.saturating_sub(1);
        }
        let tokens = if part.is_empty() { 0 } else { tokenizer.encode(part)?.len() as u64 };
        if count <= tokens {
            let end = part.ceil_char_boundary(tokenizer.prefix_len(part, count as usize)?);
            return Ok(found + chars(&part[..end]));
        }
        (found, count) = (found + chars(part), count - tokens);
    }
    Ok(found)
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
