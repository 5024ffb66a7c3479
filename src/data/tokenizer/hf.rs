//! Our tokenizers as a `tokenizer.json` of Hugging Face's, for models that go there. What is read with it has the same
//! tokens, and comes back as the same text.

use serde_json::{Map, Value, json};

use super::Source;

impl Source {
    /// The content of the file; `None` for GPT-2's tokenizer, which is known there by its name, and for one that needs a
    /// text.
    pub fn to_hf(&self) -> Option<Vec<u8>> {
        let (split, decoder, model) = match self {
            Self::File(file) => return Some(file.content().to_vec()),
            Self::Gpt2 | Self::Char | Self::Ids | Self::Numbers(_) => return None,
            Self::Alphabet(alphabet) => {
                let vocab: Map<_, _> =
                    alphabet.chars().zip(0..).map(|(c, id)| (c.to_string(), Value::from(id))).collect();
                let each =
                    json!({"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": false});
                // A character that it does not know is an error, since the word for it is no token either.
                (each, json!({"type": "Fuse"}), json!({"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}))
            }
            Self::Byte => {
                let vocab: Map<_, _> = letters().zip(0..).map(|(c, id)| (c.to_string(), Value::from(id))).collect();
                let bytes = |more: Value| {
                    let mut all = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false});
                    all["use_regex"] = more;
                    all
                };
                (bytes(false.into()), bytes(false.into()), json!({"type": "BPE", "vocab": vocab, "merges": []}))
            }
        };
        let file = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [],
            "normalizer": null,
            "pre_tokenizer": split,
            "post_processor": null,
            "decoder": decoder,
            "model": model,
        });
        Some(format!("{file:#}\n").into_bytes())
    }
}

/// The letter that stands for each byte in byte-level vocabularies (Radford et al., 2019): the byte's own in Latin-1 where
/// that can be seen, else the next of those from U+0100 on.
fn letters() -> impl Iterator<Item = char> {
    let mut others = 0x100..;
    (0..=255u8).map(move |byte| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => others.next().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tokenizer::TokenizerFile;

    #[test]
    fn what_is_written_for_others_has_the_same_tokens() {
        let text = "To be, or\n\nnot  to be: Ünï\t日本 \u{1f600}\r\n 'tis";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        let alphabet = Source::Char.build(text).unwrap().alphabet().unwrap();
        for source in [Source::Alphabet(alphabet), Source::Byte] {
            std::fs::write(&path, source.to_hf().unwrap()).unwrap();
            let theirs = Source::File(TokenizerFile::read(&path).unwrap()).build("").unwrap();
            let ours = source.build("").unwrap();
            let tokens = ours.encode(text).unwrap();
            assert_eq!((theirs.encode(text).unwrap(), theirs.vocab_size()), (tokens.clone(), ours.vocab_size()));
            assert_eq!(theirs.decode(&tokens), text);
        }
        assert!(Source::Gpt2.to_hf().is_none());
    }
}
