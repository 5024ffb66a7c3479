//! What a user of prepared tokens sees: folders with nanoGPT's `train.bin` and `val.bin`.

mod lab;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use exp::{
    base::{Exit, Result},
    data::{self, CorpusInfo, Dataset, Split},
    engine::Batch,
    spec::config::{CorpusKind, DataConfig, TokenizerKind},
};
use lab::Lab;
use serde_json::json;

/// A folder of tokens, and a cache.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.folder()).unwrap();
        place
    }

    /// One with these tokens of two bytes each.
    fn with(train: &[u16], val: &[u16]) -> Self {
        let place = Self::new();
        place.write("train.bin", narrow(train));
        place.write("val.bin", narrow(val));
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("tokens")
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.folder().join(name), bytes).unwrap();
    }

    fn config(&self, tokenizer: TokenizerKind) -> DataConfig {
        let path = Some(self.folder().display().to_string());
        DataConfig { corpus: CorpusKind::Tokens, path, tokenizer, ..DataConfig::default() }
    }

    fn look(&self) -> Result<CorpusInfo> {
        data::prepare(&self.config(TokenizerKind::Char), &self.cache())
    }

    fn open(&self) -> Dataset {
        data::open(&self.config(TokenizerKind::Char), &self.cache(), &|| false).unwrap()
    }

    /// Message and hint of the error that it ends in.
    fn refusal(&self, tokenizer: TokenizerKind) -> String {
        let error = data::prepare(&self.config(tokenizer), &self.cache()).unwrap_err();
        assert_eq!(error.exit, Exit::Spec, "{error}");
        format!("{error}\n{}", error.hint.clone().unwrap_or_default())
    }
}

fn narrow(ids: &[u16]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

/// The ids of a text whose characters are numbered by code point, and the characters.
fn characters(text: &str) -> (Vec<u16>, String) {
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let id = |c| alphabet.binary_search(&c).unwrap() as u16;
    (text.chars().map(id).collect(), alphabet.iter().collect())
}

/// What nanoGPT's prepare.py writes of an alphabet.
fn pickled(alphabet: &str) -> Vec<u8> {
    let text = |text: &str| [&[0x8c, text.len() as u8][..], text.as_bytes()].concat();
    let mut pickle = b"\x80\x04}(".to_vec();
    pickle.extend([text("vocab_size"), vec![b'K', alphabet.chars().count() as u8]].concat());
    pickle.extend([text("itos"), b"}(".to_vec()].concat());
    for (id, c) in alphabet.chars().enumerate() {
        pickle.extend([vec![b'K', id as u8], text(&c.to_string())].concat());
    }
    pickle.extend(b"uu.");
    pickle
}

fn first(data: &Dataset, split: Split, length: usize) -> Vec<u32> {
    let mut batch = Batch::zeros(1, length);
    data.fill_walk(split, 0, &mut batch);
    batch.x
}

#[test]
fn meta_says_what_tokens_mean() {
    let (ids, alphabet) = characters("to be, or not to be: çà et là");
    let itos: serde_json::Map<_, _> =
        (0..).zip(alphabet.chars()).map(|(i, c)| (format!("{i}"), json!(c.to_string()))).collect();
    let size = alphabet.chars().count();
    let metas: [(&str, Vec<u8>); 4] = [
        ("meta.pkl", pickled(&alphabet)),
        ("meta.json", json!({"vocab_size": size, "itos": itos}).to_string().into()),
        ("meta.json", json!({"vocab_size": size, "itos": alphabet.chars().collect::<Vec<_>>()}).to_string().into()),
        ("meta.json", json!({"vocab_size": size, "tokenizer": "char", "alphabet": alphabet}).to_string().into()),
    ];
    let mut hashes = Vec::new();
    for (name, meta) in metas {
        let place = Place::with(&ids[..20], &ids[20..]);
        place.write(name, meta);
        let data = place.open();
        let info = data.info();
        assert_eq!((info.train_tokens, info.val_tokens, info.vocab_size), (20, ids.len() as u64 - 20, size));
        assert_eq!((info.chars, info.chars_per_token), (ids.len() as u64, 1.0));
        assert_eq!(data.tokenizer().decode(&first(&data, Split::Whole, 28)), "to be, or not to be: çà et l");
        assert_eq!(info.notes, ["3 characters occur only in the validation split: 'l', 'à', 'ç'"]);
        hashes.push(info.hash.clone());
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "the same tokens of the same meaning, however it is written");
    assert_ne!(hashes[0], {
        let other = Place::with(&ids[..19], &ids[19..]);
        other.write("meta.pkl", pickled(&alphabet));
        other.look().unwrap().hash
    });
}

#[test]
fn an_alphabet_keeps_its_order() {
    let place = Place::with(&[0, 1, 2, 1], &[2, 0]);
    place.write("meta.json", json!({"vocab_size": 4, "tokenizer": "char", "alphabet": "zay"}).to_string());
    let data = place.open();
    assert_eq!(data.tokenizer().decode(&[0, 1, 2, 3]), "zay\u{fffd}");
    assert_eq!(data.tokenizer().encode("yaz").unwrap(), [2, 1, 0]);
    assert_eq!(data.info().vocab_size, 4);
    assert!(data.info().notes[0].contains("has 4 ids, of which the tokenizer has a text for 3"), "{:?}", data.info());
}

#[test]
fn without_meta_the_config_says_it() {
    let place = Place::with(&[15496, 11, 995, 0, 50_256], &[15496, 995]);
    let refusal = place.refusal(TokenizerKind::Char);
    assert!(refusal.contains("neither meta.json nor meta.pkl") && refusal.contains("`tokenizer: gpt2`"), "{refusal}");
    let data = data::open(&place.config(TokenizerKind::Gpt2), &place.cache(), &|| false).unwrap();
    assert_eq!(data.info().vocab_size, 50_257);
    assert_eq!(data.tokenizer().decode(&first(&data, Split::Train, 3)), "Hello, world");
    assert_eq!(data.info().chars_per_token, 11.0 / 2.0, "Hello world");

    let data = data::open(&place.config(TokenizerKind::Ids), &place.cache(), &|| false).unwrap();
    assert_eq!((data.info().vocab_size, data.info().chars_per_token), (50_257, 1.0));
    assert_eq!(data.tokenizer().decode(&first(&data, Split::Train, 3)), "15496 11 995 ");

    // As many as nanoGPT makes of GPT-2's, and numbers that stand for nothing.
    place.write("meta.json", r#"{"vocab_size": 50304}"#);
    let gpt2 = place.config(TokenizerKind::Gpt2);
    let info = data::prepare(&gpt2, &place.cache()).unwrap();
    assert_eq!((info.vocab_size, info.chars_per_token), (50_304, 11.0 / 2.0));
    assert_eq!(place.look().unwrap().chars_per_token, 1.0);
    assert_eq!(data::resolved(&gpt2).unwrap().tokenizer, TokenizerKind::Gpt2);
    assert_eq!(data::resolved(&place.config(TokenizerKind::Char)).unwrap().tokenizer, TokenizerKind::Ids);
}

#[test]
fn wide_tokens_are_read_where_meta_says_so() {
    let place = Place::new();
    let wide = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    place.write("train.bin", wide(&[70_000, 1, 99_999, 0]));
    place.write("val.bin", wide(&[65_536, 2]));
    place.write("meta.json", r#"{"vocab_size": 100000, "token_bytes": 4}"#);
    assert_eq!(first(&place.open(), Split::Whole, 5), [70_000, 1, 99_999, 0, 65_536]);
    place.write("val.bin", wide(&[65_536, 2, 100_000]));
    let refusal = place.refusal(TokenizerKind::Char);
    assert!(
        refusal.contains("val.bin: at byte 8 it has the id 100000, and the vocabulary has 100000 tokens"),
        "{refusal}"
    );
}

#[test]
fn errors_name_the_file_and_the_place() {
    let meta = r#"{"vocab_size": 65}"#;
    let place = Place::with(&[1, 64, 3], &[1; 40_000]);
    place.write("meta.json", meta);
    place.look().unwrap();
    let mut ids = vec![7u16; 40_000];
    ids[33_333] = 65;
    place.write("val.bin", narrow(&ids));
    let refusal = place.refusal(TokenizerKind::Char);
    assert!(
        refusal.contains("val.bin: at byte 66666 it has the id 65, and the vocabulary has 65 tokens, 0 to 64"),
        "{refusal}"
    );

    place.write("val.bin", [1, 0, 2]);
    let refusal = place.refusal(TokenizerKind::Char);
    assert!(
        refusal.contains("val.bin: a token takes 2 bytes, and of its 3 bytes the last 1, from byte 2 on"),
        "{refusal}"
    );

    fs::remove_file(place.folder().join("val.bin")).unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("tokens: it has train.bin and no val.bin"));
    fs::rename(place.folder().join("train.bin"), place.folder().join("val.bin")).unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("tokens: it has val.bin and no train.bin"));
    fs::remove_file(place.folder().join("val.bin")).unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("neither train.bin nor val.bin"));

    place.write("train.bin", narrow(&[0, 1, 0]));
    place.write("val.bin", narrow(&[1, 1]));
    for (meta, why) in [
        ("{", "meta.json: EOF while parsing"),
        ("{}", "missing field `vocab_size`"),
        (r#"{"vocab_size": 0}"#, "must be 1 to"),
        (r#"{"vocab_size": 99999999}"#, "must be 1 to"),
        (r#"{"vocab_size": 2, "token_bytes": 3}"#, "`token_bytes` is 3"),
        (r#"{"vocab_size": 2, "tokenizer": "char"}"#, "and not which: `alphabet`"),
        (r#"{"vocab_size": 2, "tokenizer": "char", "alphabet": "aa"}"#, "'a' stands there twice"),
        (r#"{"vocab_size": 2, "tokenizer": "char", "alphabet": "abc"}"#, "a vocabulary of 2, and `char` has 3 tokens"),
        (r#"{"vocab_size": 2, "tokenizer": "file"}"#, "tokenizer.json: there is no such file"),
        ("[65]", "it is no JSON object"),
        (r#"{"vocab_size": 2, "tokenizer": "char", "alphabet": ""}"#, "its `alphabet` has no character"),
        (r#"{"vocab_size": 2, "itos": {"x": "a"}}"#, r#"`itos` has "x" where an id should be"#),
    ] {
        place.write("meta.json", meta);
        let refusal = place.refusal(TokenizerKind::Char);
        assert!(refusal.contains(why), "{meta}: {refusal}");
    }
    place.write("meta.json", r#"{"vocab_size": 256, "tokenizer": "byte"}"#);
    let refusal = place.refusal(TokenizerKind::Gpt2);
    assert!(refusal.contains("those of `byte`, and data.tokenizer is `gpt2`"), "{refusal}");
    fs::remove_file(place.folder().join("meta.json")).unwrap();
    place.write("meta.pkl", b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R.");
    let refusal = place.refusal(TokenizerKind::Char);
    assert!(refusal.contains("meta.pkl: it calls posix.system"), "{refusal}");

    // What might never end is not read.
    fs::remove_file(place.folder().join("meta.pkl")).unwrap();
    std::process::Command::new("mkfifo").arg(place.folder().join("meta.json")).status().unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("meta.json: it is no regular file"));
    fs::remove_file(place.folder().join("meta.json")).unwrap();
    std::os::unix::fs::symlink("gone", place.folder().join("meta.json")).unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("meta.json: No such file"), "a link to nothing is not nothing");
    place.write("meta.pkl", "");

    let of = |path: &Path| {
        let config = DataConfig { path: Some(path.display().to_string()), ..place.config(TokenizerKind::Char) };
        let error = data::prepare(&config, &place.cache()).unwrap_err();
        assert_eq!(error.exit, Exit::Spec);
        error.to_string()
    };
    assert!(of(&place.folder().join("meta.pkl")).contains("it is no folder"));
    assert!(of(&place.folder().join("gone")).contains("there is no such folder"));
}

#[test]
fn numbers_of_characters_are_believed_where_they_can_be() {
    let place = Place::with(&[0, 1, 0], &[1, 1]);
    let meta = |train: u64, val: u64| {
        json!({"vocab_size": 2, "tokenizer": "char", "alphabet": "ab", "train_chars": train, "val_chars": val})
            .to_string()
    };
    place.write("meta.json", meta(9, 5));
    assert_eq!((place.look().unwrap().chars, place.look().unwrap().chars_per_token), (14, 2.5));
    for (train, val, why) in
        [(0, 5, "`train_chars` is 0, for 3 tokens"), (9, u64::MAX, "`val_chars` is 18446744073709551615")]
    {
        place.write("meta.json", meta(train, val));
        place.write("val.bin", narrow(&[1, 1])); // so that it is looked at again
        let refusal = place.refusal(TokenizerKind::Char);
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn files_that_are_not_what_was_written_are_refused() {
    let place = Place::with(&[0, 1, 0], &[1, 1]);
    let hash = |name: &str| blake3::hash(&fs::read(place.folder().join(name)).unwrap()).to_string();
    let hashes = ["train.bin", "val.bin"].map(hash);
    place.write("meta.json", json!({"vocab_size": 2, "blake3": hashes}).to_string());
    place.look().unwrap();
    for (name, ids) in [("train.bin", &[0, 1, 1][..]), ("val.bin", &[1, 0])] {
        let before = fs::read(place.folder().join(name)).unwrap();
        place.write(name, narrow(ids));
        let refusal = place.refusal(TokenizerKind::Char);
        assert!(refusal.contains(&format!("{name} is not what meta.json says")), "{refusal}");
        place.write(name, before);
    }
}

#[test]
fn a_folder_that_is_being_prepared_is_known() {
    let place = Place::new();
    fs::create_dir(place.folder().join(".aside-prepare")).unwrap();
    assert!(place.refusal(TokenizerKind::Char).contains("`exp data prepare` was interrupted there"));
}

#[test]
fn empty_files_and_exactly_a_window() {
    let place = Place::with(&[], &[]);
    place.write("meta.json", r#"{"vocab_size": 65}"#);
    assert!(place.look().unwrap().check_context(1).unwrap_err().contains("has 0 tokens"));
    let place = Place::with(&[1; 9], &[2; 9]);
    place.write("meta.json", r#"{"vocab_size": 65}"#);
    let data = place.open();
    data.info().check_context(8).unwrap();
    assert!(data.info().check_context(9).is_err());
    let mut batch = Batch::zeros(2, 8);
    data.fill_train(1, 1, 0, &mut batch);
    assert_eq!((batch.x, batch.y), (vec![1; 16], vec![1; 16]));
}

#[test]
fn tokens_are_gone_through_once_while_they_stay_as_they_are() {
    let place = Place::with(&[1, 2, 3], &[1, 2]);
    place.write("meta.json", r#"{"vocab_size": 65}"#);
    let marked = |info: &CorpusInfo| {
        let mut entries = fs::read_dir(place.cache().join("tokens")).unwrap().map(|entry| entry.unwrap().path());
        let path = entries.find(|path| path.to_string_lossy().contains("seen-")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&info.hash, "marked")).unwrap();
        place.look().unwrap().hash == "marked"
    };
    let before = place.look().unwrap();
    assert!(!marked(&before), "a change of what was just written might not show");
    thread::sleep(Duration::from_millis(2100));
    assert_eq!(place.look().unwrap(), before);
    assert!(marked(&before), "now it is believed");
    place.write("val.bin", narrow(&[2, 1]));
    let after = place.look().unwrap();
    assert!(after.hash != "marked" && after.hash != before.hash, "but not of other files");
}

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
train: {steps: 4, batch: 2}
eval: {every: 2, batches: 2, batch: 2}
sample: {every: 4, prompt: \"to\", tokens: 8}
run: {device: cpu}
";

#[test]
fn a_run_trains_on_tokens_as_on_their_text() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let text = "to be or not to be, that is the question. ".repeat(40);
    let (ids, alphabet) = characters(&text);
    let folder = dir.path().join("prepared");
    fs::create_dir(&folder).unwrap();
    let train = (ids.len() as f64 * 0.9) as usize;
    fs::write(folder.join("train.bin"), narrow(&ids[..train])).unwrap();
    fs::write(folder.join("val.bin"), narrow(&ids[train..])).unwrap();
    fs::write(folder.join("meta.pkl"), pickled(&alphabet)).unwrap();
    fs::write(dir.path().join("text.txt"), &text).unwrap();
    let losses = |data: &str| {
        let (code, said) = lab.run(&format!("data: {{{data}}}{SPEC}"));
        assert_eq!(code, Some(0), "{said}");
        let row = lab.rows().into_iter().max_by_key(|row| row.config.data.corpus == CorpusKind::Tokens).unwrap();
        (row.id, lab.store().metrics(&row.id).unwrap()["train/loss"].clone())
    };
    let of_text = losses("corpus: text, path: text.txt");
    let of_tokens = losses("corpus: tokens, path: prepared");
    assert_ne!(of_text.0, of_tokens.0);
    assert_eq!(of_text.1, of_tokens.1, "the same windows of the same tokens");

    // Where it lies is no part of what it is, and neither is a share that nothing is cut by.
    fs::rename(&folder, dir.path().join("moved")).unwrap();
    let (code, said) = lab.run(&format!("data: {{corpus: tokens, path: moved, val_fraction: 0.2}}{SPEC}"));
    assert_eq!((code, lab.rows().len()), (Some(0), 2), "{said}");

    fs::remove_dir_all(dir.path().join("moved")).unwrap();
    let sampled =
        lab.exp(&["sample", &of_tokens.0.to_string(), "--prompt", "to be", "--tokens", "3"]).output().unwrap();
    assert!(sampled.status.success(), "{sampled:?}");
    assert_eq!(String::from_utf8_lossy(&sampled.stdout).trim_end_matches('\n').chars().count(), 8);
}

#[test]
fn a_run_of_numbers_reads_and_writes_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let folder = dir.path().join("numbers");
    fs::create_dir(&folder).unwrap();
    let ids: Vec<u16> = (0..400).map(|i| i * 7 % 12).collect();
    fs::write(folder.join("train.bin"), narrow(&ids[..300])).unwrap();
    fs::write(folder.join("val.bin"), narrow(&ids[300..])).unwrap();
    let spec = SPEC.replace("\"to\"", "\"3 4\"");
    let (code, said) = lab.run(&format!("data: {{corpus: tokens, path: numbers, tokenizer: ids}}{spec}"));
    assert_eq!(code, Some(0), "{said}");
    let id = lab.rows()[0].id.to_string();
    let sampled = lab.exp(&["sample", &id, "--prompt", "3 4", "--tokens", "5"]).output().unwrap();
    let text = String::from_utf8_lossy(&sampled.stdout).into_owned();
    let numbers: Vec<u32> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!((numbers.len(), &numbers[..2]), (7, &[3, 4][..]), "{text}");
    assert!(numbers.iter().all(|n| *n < 12), "{text}");
    let alone = lab.exp(&["sample", &id, "--tokens", "2"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout).split_whitespace().count(), 3, "after 0: {alone:?}");
    let path = format!("data.path={}", folder.display());
    let other = lab.exp(&["eval", &id, "--set", "corpus=tokens", "--set", &path]).output().unwrap();
    assert!(other.status.success(), "{other:?}");
    let (code, said) = lab::answer(lab.exp(&["sample", &id, "--prompt", "3 x"]).output().unwrap());
    assert_ne!(code, Some(0));
    assert!(said.contains("\"x\" is no number below 12"), "{said}");
}
