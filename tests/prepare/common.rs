//! Texts, and the real `exp data prepare` on them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use exp::base::rng;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

/// A folder of texts and of what is made of them.
pub struct Lab {
    pub dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// `exp data prepare` with these words, in the folder.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(["data", "prepare"]).args(words.split(' ')).current_dir(self.dir.path());
        command.env_remove("EXP_ROOT").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it, which must end with that code; gives what it said.
    pub fn prepare(&self, words: &str, code: i32) -> String {
        said(self.command(words).output().unwrap(), words, code)
    }

    /// What it reports of good work.
    pub fn report(&self, words: &str) -> Value {
        let output = self.command(&format!("{words} --json")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The bytes of the two files of tokens of a folder.
    pub fn tokens(&self, out: &str) -> [Vec<u8>; 2] {
        ["train.bin", "val.bin"].map(|name| fs::read(self.path(out).join(name)).unwrap())
    }

    /// All tokens of a folder, of two bytes each.
    pub fn ids(&self, out: &str) -> Vec<u32> {
        let bytes = self.tokens(out).concat();
        bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]).into()).collect()
    }

    pub fn meta(&self, out: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(out).join("meta.json")).unwrap()).unwrap()
    }

    /// The names in a folder, hidden ones too.
    pub fn names(&self, out: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(out)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// What a process said on standard error.
pub fn said(output: Output, words: &str, code: i32) -> String {
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    said
}

/// Text of about so many bytes, with odd characters.
pub fn text(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "the", " of", " to", "'s", " ", "\n", ".\r\n", " 春は", " été", " 12", "  ", "😀", " again", " (", ") ",
        "\u{a0}x",
    ];
    let mut rng = rng::stream(seed, "test/prepare");
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(WORDS[rng::below(&mut rng, WORDS.len() as u64) as usize]);
    }
    text
}

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A frame of zstd with a checksum.
pub fn zstd(text: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// JSON lines with these texts in the field `text`.
pub fn lines(texts: &[&str]) -> String {
    texts.iter().enumerate().map(|(id, text)| format!("{}\n", json!({"id": id, "text": text}))).collect()
}

/// A `tokenizer.json` of words, and of a token that no text becomes.
pub fn words(path: &Path) {
    let added = json!([{"id": 3, "content": "<eot>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    let model = json!({"type": "WordLevel", "vocab": {"<unk>": 0, "the": 1, "of": 2}, "unk_token": "<unk>"});
    let whole =
        json!({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": added, "model": model});
    fs::write(path, whole.to_string()).unwrap();
}
