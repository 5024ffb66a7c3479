//! What comes out of which texts.

use std::{fs, path::Path};

use exp::{
    base::rng,
    data::{self, CorpusInfo, tokenizer::Source},
    spec::config::{CorpusKind, DataConfig, TokenizerKind},
};

use crate::common::{Lab, gzip, lines, text, words, zstd};

const EOT: u32 = 50_256;

/// The files of the token cache for a text, and what is known of it.
fn cached(lab: &Lab, path: &Path, tokenizer: TokenizerKind) -> ([Vec<u8>; 2], CorpusInfo) {
    let path = Some(path.display().to_string());
    let tokenizer_file = (tokenizer == TokenizerKind::File).then(|| lab.path("words.json").display().to_string());
    let config = DataConfig { corpus: CorpusKind::Text, path, tokenizer, tokenizer_file, ..DataConfig::default() };
    let cache = tempfile::tempdir().unwrap();
    let info = data::prepare(&config, cache.path()).unwrap();
    let entries = fs::read_dir(cache.path().join("tokens")).unwrap().map(|entry| entry.unwrap().path());
    let folder = entries.into_iter().find(|path| path.is_dir()).unwrap();
    (["train.bin", "val.bin"].map(|name| fs::read(folder.join(name)).unwrap()), info)
}

fn assert_like_the_cache(lab: &Lab, input: &str, kind: TokenizerKind) {
    let word = kind.word();
    let out = format!("{input}.{word}");
    let file = if kind == TokenizerKind::File { " --tokenizer-file words.json" } else { "" };
    let separator = if kind == TokenizerKind::Gpt2 { " --separator newline" } else { "" };
    let report = lab.report(&format!("{input} --out {out} --tokenizer {word}{file}{separator}"));
    let (tokens, info) = cached(lab, &lab.path(input), kind);
    assert!(lab.tokens(&out) == tokens, "{input} {word}");
    let val_chars = (info.chars_per_token * info.val_tokens as f64).round() as u64;
    let meta = lab.meta(&out);
    assert_eq!(meta["vocab_size"], info.vocab_size);
    assert_eq!(meta["tokenizer"], word);
    assert_eq!((&meta["train_chars"], &meta["val_chars"]), (&(info.chars - val_chars).into(), &val_chars.into()));
    assert_eq!((&report["train_tokens"], &report["val_tokens"]), (&info.train_tokens.into(), &info.val_tokens.into()));
    assert_eq!(report["token_bytes"], 2);
}

#[test]
fn a_text_has_the_tokens_of_the_token_cache() {
    let lab = Lab::new();
    words(&lab.path("words.json"));
    lab.write("long.txt", text(1, 2_600_000));
    for kind in [TokenizerKind::Gpt2, TokenizerKind::Byte, TokenizerKind::Char] {
        assert_like_the_cache(&lab, "long.txt", kind);
    }
    // That of a file may cut a longer one elsewhere.
    lab.write("short.txt", format!("\u{feff}{}", text(2, 200_000)));
    assert_like_the_cache(&lab, "short.txt", TokenizerKind::File);
    assert_eq!(fs::read(lab.path("short.txt.file/tokenizer.json")).unwrap(), fs::read(lab.path("words.json")).unwrap());
    let alphabet = lab.meta("long.txt.char")["alphabet"].as_str().unwrap().to_owned();
    assert!(alphabet.starts_with("\n\r '().12") && alphabet.ends_with("春😀"), "{alphabet:?}");
}

#[test]
fn a_text_without_a_place_to_cut_has_the_tokens_that_it_has_as_a_whole() {
    let lab = Lab::new();
    let mut rng = rng::stream(1, "test/prepare/letters");
    let letters: String = (0..2_500_000).map(|_| char::from(b'a' + rng::below(&mut rng, 26) as u8)).collect();
    for (name, text) in [("mixed", text(1, 900_000) + &"ing".repeat(1_100_000) + &text(2, 9000)), ("letters", letters)]
    {
        lab.write(name, &text);
        assert_like_the_cache(&lab, name, TokenizerKind::Gpt2);
        assert!(lab.ids(&format!("{name}.gpt2")) == Source::Gpt2.build("").unwrap().encode(&text).unwrap(), "{name}");
    }
}

#[test]
fn a_folder_is_joined_as_the_corpus_text_joins_it() {
    let lab = Lab::new();
    for (name, text) in [
        ("b.txt", "no end of line"),
        ("a/z.txt", "\u{feff}first\n\n"),
        ("a/nothing", ""),
        ("b2", "\n after\r\n"),
        ("c", "last"),
        (".hidden/x", "never"),
        ("picture", "bin\0ary"),
    ] {
        lab.write(&format!("texts/{name}"), text);
    }
    for kind in [TokenizerKind::Gpt2, TokenizerKind::Byte, TokenizerKind::Char] {
        assert_like_the_cache(&lab, "texts", kind);
    }
    let said = lab.prepare("texts picture.txt --out other", 3);
    assert!(said.contains("picture.txt: there is no such file"), "{said}");
    lab.write("picture.txt", "a NUL is text: \0");
    let said = lab.prepare("texts picture.txt --out other --tokenizer byte", 0);
    assert!(said.contains("passed over as binary: texts/picture"), "{said}");
    assert_eq!(lab.ids("other").last(), Some(&0));

    // What was made before is made anew of what is there now.
    lab.write("texts/d", "more");
    lab.prepare("texts --out other --tokenizer byte --force", 0);
    let made = lab.ids("other").iter().map(|id| *id as u8).collect::<Vec<_>>();
    assert!(String::from_utf8(made).unwrap().ends_with("after\r\nlast\nmore"));
}

#[test]
fn compressed_texts_are_read_whole_whatever_their_names_for_any_number_of_threads() {
    let lab = Lab::new();
    let texts = [1, 2, 3].map(|seed| text(seed, 1_300_000));
    let halves = |text: &str| {
        let (one, two) = text.split_at(text.ceil_char_boundary(600_001));
        (one.to_owned(), two.to_owned())
    };
    for (i, text) in texts.iter().enumerate() {
        lab.write(&format!("plain/{i}"), text);
        let (one, two) = halves(text);
        let packed = match i {
            0 => [gzip(one.as_bytes()), gzip(b""), gzip(two.as_bytes())].concat(),
            1 => [zstd(one.as_bytes()), zstd(two.as_bytes())].concat(),
            _ => text.clone().into_bytes(),
        };
        lab.write(&format!("packed/{i}"), packed);
    }
    let json = lines(&[texts[0].as_str(), "", "short", &texts[1]]);
    lab.write("lines/a.jsonl", &json);
    lab.write("packed-lines/a.jsonl.gz", gzip(json.as_bytes()));
    for (plain, packed, more) in [("plain", "packed", ""), ("lines", "packed-lines", " --field text")] {
        let straight = lab.report(&format!("{plain} --out {plain}.out --threads 1{more}"));
        for threads in [1, 2, 3] {
            let out = format!("{packed}.{threads}");
            let report = lab.report(&format!("{packed} --out {out} --threads {threads}{more}"));
            assert!(lab.tokens(&out) == lab.tokens(&format!("{plain}.out")), "{out}");
            for key in ["train_chars", "val_chars", "text_bytes", "documents"] {
                assert_eq!(report[key], straight[key], "{key}");
            }
        }
    }
    // A file of another kind that is compressed is binary as well.
    lab.write("packed/archive", gzip(&[b"text", &[0u8; 100][..]].concat()));
    let said = lab.prepare("packed --out binary", 0);
    assert!(said.contains("passed over as binary: packed/archive") && lab.tokens("binary") == lab.tokens("plain.out"));
}

#[test]
fn between_documents_stands_what_is_asked_for() {
    let lab = Lab::new();
    let texts = ["one\n", "two <|endoftext|>", "", "three"];
    let first = format!("\u{feff}{}\r\n  \n", lines(&texts[..2]));
    lab.write("a.jsonl", first.trim_end_matches(' '));
    lab.write("b.ndjson", lines(&texts[2..]).trim_end());
    lab.write("c.txt", " four");
    let (gpt2, all) = (Source::Gpt2.build("").unwrap(), "a.jsonl b.ndjson c.txt --field text --val-fraction 0.3");
    let ids = |texts: &[&str]| -> Vec<Vec<u32>> { texts.iter().map(|text| gpt2.encode(text).unwrap()).collect() };

    let report = lab.report(&format!("{all} --out eot"));
    let documents = ids(&["one\n", "two <|endoftext|>", "three", " four"]);
    assert_eq!(lab.ids("eot"), documents.join(&EOT));
    assert_eq!((&report["documents"], &report["files"]), (&4.into(), &3.into()));
    let chars = report["train_chars"].as_u64().unwrap() + report["val_chars"].as_u64().unwrap();
    assert_eq!(chars, 4 + 17 + 5 + 5, "a token between documents is no character");

    lab.prepare(&format!("{all} --out newline --separator newline"), 0);
    assert_eq!(lab.ids("newline"), ids(&["one\ntwo <|endoftext|>\nthree\n four"]).concat());
    lab.prepare(&format!("{all} --out none --separator none"), 0);
    assert_eq!(lab.ids("none"), ids(&["one\ntwo <|endoftext|>three four"]).concat());

    words(&lab.path("words.json"));
    let of_file = "c.txt c.txt --tokenizer-file words.json --out";
    lab.prepare(&format!("{of_file} words"), 0);
    assert_eq!(lab.ids("words"), [0, 0]);
    lab.prepare(&format!("{of_file} words-eot --eot <eot>"), 0);
    assert_eq!(lab.ids("words-eot"), [0, 3, 0]);
    assert_eq!(lab.meta("words-eot")["tokenizer_file"], "tokenizer.json");
}

#[test]
fn many_short_documents_and_one_long_one_have_each_its_own_tokens() {
    let lab = Lab::new();
    let long = "aß".repeat(3_000_000); // one word, longer than a piece gets
    let mut texts: Vec<String> = (0..30_000).map(|i| text(i, 40)).collect();
    texts.insert(20_000, text(9, 1_500_000));
    texts.push(long);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    lab.write("a.jsonl", lines(&texts));
    let report = lab.report("a.jsonl --out bytes --tokenizer byte --field text --separator none --threads 2");
    let bytes: Vec<u8> = lab.ids("bytes").iter().map(|id| *id as u8).collect();
    assert!(bytes == texts.concat().into_bytes() && report["documents"] == texts.len());

    lab.write("a.jsonl", lines(&texts[..texts.len() - 1]));
    let reports = [1, 2].map(|threads| {
        let out = format!("gpt2-{threads}");
        lab.report(&format!("a.jsonl --out {out} --field text --threads {threads}"))
    });
    assert_eq!(lab.tokens("gpt2-1"), lab.tokens("gpt2-2"));
    assert_eq!(reports[0]["val_chars"], reports[1]["val_chars"]);
    let (ids, gpt2) = (lab.ids("gpt2-1"), Source::Gpt2.build("").unwrap());
    let documents: Vec<&[u32]> = ids.split(|id| *id == EOT).collect();
    assert_eq!(documents.len(), texts.len() - 1);
    for at in [0, 1, 17, 19_999, 20_000, 20_001, 30_000] {
        assert!(documents[at] == gpt2.encode(texts[at]).unwrap(), "document {at}");
    }
}
