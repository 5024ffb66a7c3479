//! The tokenizers that know more than characters: GPT-2's, and those of a `tokenizer.json`.

mod lab;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use exp::{
    base::Exit,
    data::{
        self, Dataset,
        tokenizer::{Source, Tokenizer},
    },
    event::RunState,
    spec::config::{CorpusKind, DataConfig, TokenizerKind},
};
use lab::Lab;
use proptest::prelude::*;
use serde_json::{Value, json};

fn gpt2() -> &'static dyn Tokenizer {
    static GPT2: LazyLock<Box<dyn Tokenizer>> = LazyLock::new(|| {
        let config = DataConfig { tokenizer: TokenizerKind::Gpt2, ..DataConfig::default() };
        Source::of(&config).unwrap().build("").unwrap()
    });
    &**GPT2
}

/// A folder with a tokenizer and a text, and the config that names them.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn config(&self, text: &str, tokenizer: TokenizerKind, file: Option<&Path>) -> DataConfig {
        DataConfig {
            corpus: CorpusKind::Text,
            path: Some(self.write("text.txt", text).display().to_string()),
            tokenizer,
            tokenizer_file: file.map(|file| file.display().to_string()),
            ..DataConfig::default()
        }
    }

    fn open(&self, config: &DataConfig) -> Dataset {
        data::open(config, &self.dir.path().join("cache"), &|| false).unwrap()
    }

    /// The message and hint of the error that a text and a tokenizer's file end in.
    fn failure(&self, text: &str, file: &Path) -> String {
        let config = self.config(text, TokenizerKind::File, Some(file));
        let error = data::prepare(&config, &self.dir.path().join("cache")).unwrap_err();
        assert_eq!(error.exit, Exit::Spec, "{error}");
        format!("{error}\n{}", error.hint.clone().unwrap_or_default())
    }

    /// The ids of the one text in the cache, each of that many bytes.
    fn cached(&self, bytes: usize) -> Vec<u32> {
        let mut entries =
            fs::read_dir(self.dir.path().join("cache/tokens")).unwrap().map(|entry| entry.unwrap().path());
        let folder = entries.find(|path| path.is_dir()).unwrap();
        let all = ["train.bin", "val.bin"].map(|name| fs::read(folder.join(name)).unwrap()).concat();
        let id = |chunk: &[u8]| chunk.iter().rev().fold(0, |id, &byte| id << 8 | u32::from(byte));
        all.chunks(bytes).map(id).collect()
    }
}

/// A `tokenizer.json` of whole words.
fn words(vocab: &[&str], unknown: &str) -> Value {
    let vocab: serde_json::Map<_, _> = vocab.iter().zip(0..).map(|(&word, id)| (word.into(), json!(id))).collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": unknown},
    })
}

/// A `tokenizer.json` of BPE over "a", "b", "ab" and the space, whose text ends at four tokens and is wrapped in another
/// by those who let it.
fn pairs() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 4,
            "pad_type_id": 0, "pad_token": "<|end|>"},
        "added_tokens": [{"id": 4, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [4], "tokens": ["<|end|>"]}}},
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2, "ab": 3}, "merges": [["a", "b"]]},
    })
}

#[test]
fn merges_that_are_left_out_in_training_are_made() {
    let place = Place::new();
    let mut all = pairs();
    all["model"]["dropout"] = json!(0.5);
    let file = place.write("tokenizer.json", &all.to_string());
    let source = Source::of(&place.config("", TokenizerKind::File, Some(&file))).unwrap();
    assert_eq!(source.build("").unwrap().encode(&"ab".repeat(100)).unwrap(), [3; 100]);
}

#[test]
fn gpt2_has_the_ids_of_tiktoken() {
    // From `tiktoken.get_encoding("gpt2").encode_ordinary` of tiktoken 0.12.
    let known: [(&str, &[u32]); 12] = [
        ("hello world", &[31373, 995]),
        (" Hello", &[18435]),
        ("Hello, world!", &[15496, 11, 995, 0]),
        ("I'll don't", &[40, 1183, 836, 470]),
        ("naïve café", &[2616, 38776, 40304]),
        ("春眠不覺曉", &[23626, 98, 40367, 254, 38834, 17358, 118, 162, 249, 231]),
        ("🎭👩\u{200d}🔧", &[8582, 236, 255, 41840, 102, 447, 235, 8582, 242, 100]),
        ("a  b\n\n  c\t\td   ", &[64, 220, 275, 628, 220, 269, 197, 197, 67, 220, 220, 220]),
        ("12345 67,890", &[10163, 2231, 8275, 11, 23, 3829]),
        ("\u{a0}x\u{3000}\u{3000}y", &[1849, 87, 5099, 222, 5099, 222, 88]),
        ("<|endoftext|>", &[27, 91, 437, 1659, 5239, 91, 29]), // plain text in a corpus
        ("", &[]),
    ];
    let gpt2 = gpt2();
    assert_eq!(gpt2.vocab_size(), 50_257);
    for (text, ids) in known {
        assert_eq!(gpt2.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(gpt2.decode(ids), text);
    }
    assert_eq!(gpt2.decode(&[50_256]), "<|endoftext|>");
    assert_eq!(gpt2.decode(&[31373, 8582, 236, 995]), "hello\u{fffd} world", "half an emoji");
    assert_eq!(gpt2.decode(&[50_257, 995, u32::MAX]), "\u{fffd} world\u{fffd}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_comes_back_from_gpt2(text in any::<String>(), blanks in "[a-z '\n\t\u{a0}]{0,40}", count in 0usize..60) {
        let (gpt2, text) = (gpt2(), text + &blanks);
        let tokens = gpt2.encode(&text).unwrap();
        prop_assert_eq!(gpt2.decode(&tokens), text.clone());
        let count = count.min(tokens.len());
        let parts = [gpt2.prefix_len(&text, count).unwrap(), gpt2.prefix_len(&text, tokens.len()).unwrap()];
        prop_assert_eq!(parts[1], text.len());
        prop_assert!(gpt2.decode(&tokens[..count]).starts_with(&text[..text.floor_char_boundary(parts[0])]));
    }
}

#[test]
fn a_long_text_is_cached_as_the_tokens_of_the_whole() {
    let place = Place::new();
    // Beyond a megabyte a text is tokenized in parts; nothing of that may show, wherever the parts end.
    let text: String = (0..250_000).map(|n| format!("it's{}{n}", &"  \n \t  "[..n % 7])).collect();
    let data = place.open(&place.config(&text, TokenizerKind::Gpt2, None));
    let tokens = tiktoken_rs::r50k_base_singleton().encode_ordinary(&text);
    let info = data.info();
    assert!(text.len() > 2 << 20);
    assert!(place.cached(2) == tokens);
    assert_eq!(info.vocab_size, 50_257);
    let val = data.tokenizer().decode(&tokens[info.train_tokens as usize..]);
    let per_token = val.chars().count() as f64 / info.val_tokens as f64;
    assert_eq!((info.train_tokens + info.val_tokens, info.chars_per_token), (tokens.len() as u64, per_token));
}

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 8, context: 8}
data: {corpus: text, path: text.txt, tokenizer: TOKENIZER}
train: {steps: 3, batch: 2}
eval: {every: 3, batches: 1, batch: 2}
run: {device: cpu}
";

#[test]
fn a_run_trains_on_the_tokens_of_gpt2() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    fs::write(dir.path().join("text.txt"), "To be, or not to be: that is the question. ".repeat(40)).unwrap();
    let (code, said) = lab.run(&SPEC.replace("TOKENIZER", "gpt2"));
    assert_eq!(code, Some(0), "{said}");
    let row = lab.rows().remove(0);
    let loss = lab.store().metrics(&row.id).unwrap()["val/loss"][0].1;
    assert!((10.0..12.0).contains(&loss), "{loss}: ln 50257 is 10.8");
}

#[test]
fn a_tokenizer_file_counts_by_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let write = |name: &str, content: &str| fs::write(dir.path().join(name), content).unwrap();
    write("text.txt", &"to be or not to be that is the question ".repeat(40));
    let vocab = ["to", "be", "or", "not", "that", "is", "the", "question"];
    write("a.json", &words(&vocab, "none").to_string());
    let run = |file: &str| {
        let (code, said) = lab.run(&SPEC.replace("TOKENIZER", &format!("file, tokenizer_file: {file}")));
        (code, said, lab.rows().len())
    };
    let (code, said, runs) = run("a.json");
    assert_eq!((code, runs), (Some(0), 1), "{said}");
    assert!(lab.rows().iter().all(|row| row.state == RunState::Done));

    fs::rename(dir.path().join("a.json"), dir.path().join("b.json")).unwrap();
    let (code, said, runs) = run("b.json");
    assert_eq!((code, runs), (Some(0), 1), "the same run, wherever the file lies: {said}");
    let (code, said, _) = run("a.json");
    assert_eq!(code, Some(3));
    assert!(said.contains("the tokenizer ") && said.contains("a.json: there is no such file"), "{said}");

    let swapped = ["be", "to", "or", "not", "that", "is", "the", "question"];
    write("b.json", &words(&swapped, "none").to_string());
    let (code, said, runs) = run("b.json");
    assert_eq!((code, runs), (Some(0), 2), "another content is another run: {said}");
}

#[test]
fn a_file_is_used_for_its_tokens_alone() {
    let place = Place::new();
    let file = place.write("tokenizer.json", &pairs().to_string());
    let text = "ab ba abab ".repeat(10);
    let data = place.open(&place.config(&text, TokenizerKind::File, Some(&file)));
    let once = [3, 2, 1, 0, 2, 3, 3, 2];
    assert_eq!(place.cached(2), once.repeat(10), "neither cut, nor filled up, nor wrapped");
    assert_eq!(data.info().vocab_size, 5);
    assert_eq!(data.tokenizer().decode(&once), "ab ba abab ");
    assert_eq!(data.tokenizer().decode(&[3, 5, 10, 0]), "ab\u{fffd}\u{fffd}a", "ids without a token");
    assert_eq!((data.info().val_tokens, data.info().chars_per_token), (8, 11.0 / 8.0));
}

#[test]
fn more_than_65536_tokens_are_wide() {
    let place = Place::new();
    let vocab: Vec<String> = (0..70_000).map(|n| format!("w{n}")).collect();
    let file = place.write("t.json", &words(&vocab.iter().map(String::as_str).collect::<Vec<_>>(), "w0").to_string());
    let ids = [69_999, 65_536, 1, 65_535].repeat(5);
    let text = ids.iter().map(|id| format!("w{id}")).collect::<Vec<_>>().join(" ");
    let data = place.open(&place.config(&text, TokenizerKind::File, Some(&file)));
    assert_eq!(data.info().vocab_size, 70_000);
    assert_eq!(place.cached(4), ids);
    let mut batch = exp::engine::Batch::zeros(1, 17);
    data.fill_eval(data::Split::Train, 0, &mut batch); // the one window of the 18 tokens
    assert_eq!(batch.x, ids[..17]);
}

#[test]
fn errors_name_the_tokenizer_and_say_why() {
    let place = Place::new();
    let text = "ab ba c abab";
    let refused = |content: &str| place.failure(text, &place.write("tokenizer.json", content));
    assert!(refused("{\"model\": ").contains("tokenizer.json: it is no `tokenizer.json`: EOF while parsing"));
    assert!(refused("{}").contains("it is no `tokenizer.json`"));
    assert!(refused(&words(&[], "x").to_string()).contains("its vocabulary is empty"));
    let unknown = refused(&pairs().to_string());
    assert!(unknown.contains("it has no token for 'c', and no unknown token"), "{unknown}");
    assert!(unknown.contains("a tokenizer with an unknown token"), "{unknown}");
    let unknown = refused(&words(&["ab", "ba"], "none").to_string());
    assert!(unknown.contains("tokenizer.json: ") && unknown.contains("a tokenizer with an unknown token"), "{unknown}");
    assert!(place.failure(text, &place.dir.path().join("gone.json")).contains("gone.json: there is no such file"));
    assert!(place.failure(text, place.dir.path()).contains("it is no file"));

    // With a token for what is unknown, or with one of the file's own that has the character, it is fine.
    let mut known = pairs();
    known["model"]["unk_token"] = json!(" ");
    let data = place.open(&place.config(text, TokenizerKind::File, Some(&place.write("u.json", &known.to_string()))));
    assert_eq!(data.tokenizer().encode("bcb").unwrap(), [1, 2, 1]);
    let mut own = pairs();
    let token = json!({"id": 5, "content": " c ", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": false});
    own["added_tokens"].as_array_mut().unwrap().push(token);
    let data = place.open(&place.config(text, TokenizerKind::File, Some(&place.write("o.json", &own.to_string()))));
    assert_eq!(data.tokenizer().encode("ab c b").unwrap(), [3, 5, 1]);
    assert!(data.tokenizer().encode("c").unwrap_err().to_string().contains("no token for 'c'"));
}
