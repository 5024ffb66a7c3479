//! What a user of the data layer sees: corpora from files, the token cache, the windows that batches are made of.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Barrier,
};

use exp::{
    base::{Exit, Result},
    data::{self, CorpusInfo, Dataset, Split},
    engine::Batch,
    spec::config::{CorpusKind, DataConfig, TokenizerKind},
};
use proptest::prelude::*;

/// A folder for texts and one for the cache.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn prepare(&self, config: &DataConfig) -> Result<CorpusInfo> {
        data::prepare(config, &self.cache())
    }

    fn open(&self, config: &DataConfig) -> Dataset {
        data::open(config, &self.cache(), &|| false).unwrap()
    }

    /// The folders of the token cache.
    fn cached(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("tokens")).unwrap();
        entries.map(|e| e.unwrap().path()).filter(|path| path.is_dir()).collect()
    }
}

fn text(path: &Path, tokenizer: TokenizerKind) -> DataConfig {
    DataConfig { corpus: CorpusKind::Text, path: Some(path.display().to_string()), tokenizer, ..DataConfig::default() }
}

fn playbook(seed: u64) -> DataConfig {
    DataConfig { corpus_seed: seed, corpus_chars: 20_000, ..DataConfig::default() }
}

/// The whole text again, from the tokens of both splits.
fn whole(data: &Dataset) -> String {
    let info = data.info();
    let split = |split, tokens: u64| {
        // One window over all but the last token of the split; y has that one.
        let mut batch = Batch::zeros(1, tokens as usize - 1);
        data.fill_eval(split, 0, &mut batch);
        data.tokenizer().decode(&[&batch.x[..1], &batch.y].concat())
    };
    split(Split::Train, info.train_tokens) + &split(Split::Val, info.val_tokens)
}

#[test]
fn the_playbook_needs_no_file_and_knows_its_cost() {
    let place = Place::new();
    let info = place.prepare(&playbook(1)).unwrap();
    assert_eq!(info.name, "playbook");
    assert!((20_000..40_000).contains(&info.chars), "{}", info.chars);
    assert_eq!(info.train_tokens + info.val_tokens, info.chars);
    assert_eq!(info.train_tokens, (info.chars as f64 * 0.9) as u64);
    assert_eq!(info.chars_per_token, 1.0);
    assert!((0.2..1.4).contains(&info.bits_per_char.unwrap()), "{:?}", info.bits_per_char);
    assert_eq!(info.hash, blake3::hash(whole(&place.open(&playbook(1))).as_bytes()).to_hex().to_string());
    assert_ne!(info.hash, place.prepare(&playbook(2)).unwrap().hash);
    let bytes = DataConfig { tokenizer: TokenizerKind::Byte, ..playbook(1) };
    let by_bytes = place.prepare(&bytes).unwrap();
    assert_eq!((by_bytes.vocab_size, by_bytes.bits_per_char), (256, info.bits_per_char));
    assert_eq!(place.cached().len(), 3);
}

#[test]
fn a_file_is_kept_as_it_is_but_for_a_byte_order_mark() {
    let place = Place::new();
    for (name, content) in [
        ("crlf", "one\r\ntwo\r\n"),
        ("nul", "a\0b\0c"),
        ("cjk", "春眠不覺曉，處處聞啼鳥。"),
        ("emoji", "🎭 the 👩‍🔧 smith 🎭"),
        ("inner mark", "ab\u{feff}cd"),
    ] {
        let path = place.write(name, content.repeat(3));
        for tokenizer in [TokenizerKind::Char, TokenizerKind::Byte] {
            let data = place.open(&text(&path, tokenizer));
            assert_eq!(data.info().chars, 3 * content.chars().count() as u64);
            assert_eq!(data.tokenizer().decode(&data.tokenizer().encode(content).unwrap()), content);
            if tokenizer == TokenizerKind::Char {
                assert_eq!(whole(&data), content.repeat(3), "{name}");
            }
        }
    }
    let marked = place.write("marked", "\u{feff}plain text, twice plain text");
    assert_eq!(whole(&place.open(&text(&marked, TokenizerKind::Char))), "plain text, twice plain text");
}

#[test]
fn characters_are_numbered_by_code_point() {
    let place = Place::new();
    let data = place.open(&text(&place.write("t", "zebra ZEBRA é!\n"), TokenizerKind::Char));
    assert_eq!(data.info().vocab_size, 14);
    assert_eq!(data.tokenizer().decode(&(0..14).collect::<Vec<_>>()), "\n !ABERZaberzé");
    let error = data.tokenizer().encode("quay").unwrap_err();
    assert_eq!(error.exit, Exit::Spec);
    assert!(error.to_string().contains("the tokenizer has no character 'q'"), "{error}");
    assert_eq!(data.tokenizer().decode(&[0, 14, u32::MAX]), "\n\u{fffd}\u{fffd}");
}

#[test]
fn more_than_65536_characters_take_wide_tokens() {
    let place = Place::new();
    let all: String = (0..=0x11_000).filter_map(char::from_u32).collect();
    let data = place.open(&text(&place.write("all", all.repeat(2)), TokenizerKind::Char));
    assert!(data.info().vocab_size > 1 << 16);
    assert_eq!(whole(&data), all.repeat(2));
}

#[test]
fn a_folder_is_read_in_order_of_path_without_what_is_no_text() {
    let place = Place::new();
    place.write("folder/b.txt", "bee\n");
    place.write("folder/a/z.txt", "zed");
    place.write("folder/a/empty.txt", "");
    place.write("folder/a-more.txt", "more");
    place.write("folder/.hidden/x.txt", "hidden");
    place.write("folder/.DS_Store", "hidden");
    place.write("folder/picture.png", b"\x89PNG\0\0\xff");
    std::os::unix::fs::symlink(place.path("folder"), place.path("folder/a/loop")).unwrap();
    let data = place.open(&text(&place.path("folder"), TokenizerKind::Char));
    assert_eq!(whole(&data), "zed\nmore\nbee\n");
    let notes = data.info().notes.join("\n");
    assert!(notes.contains("passed over as binary: ") && notes.contains("folder/picture.png"), "{notes}");
    assert!(data.info().name.ends_with("/folder"));
}

/// The message and hint of the error that a config ends in.
fn failure(place: &Place, config: &DataConfig) -> String {
    let error = place.prepare(config).unwrap_err();
    assert_eq!(error.exit, Exit::Spec, "{error}");
    format!("{error}\n{}", error.hint.clone().unwrap_or_default())
}

#[test]
fn errors_name_the_file_and_say_why() {
    let place = Place::new();
    place.write("folder/.hidden", "x");
    place.write("pictures/a.png", b"\0");
    place.write("mixed/a.txt", "fine");
    place.write("mixed/b.txt", b"caf\xe9!");
    place.write("empty.txt", "");
    place.write("mark.txt", "\u{feff}");
    let of = |name: &str| failure(&place, &text(&place.path(name), TokenizerKind::Char));
    for (name, why) in [
        ("missing.txt", "missing.txt: there is no such file or folder"),
        ("folder", "folder: the folder has no files"),
        ("pictures", "pictures: the folder has no text, only binary files (1)"),
        ("mixed", "mixed/b.txt is not UTF-8: byte 3 is 0xe9"),
        ("empty.txt", "empty.txt: there is no text in it"),
        ("mark.txt", "mark.txt: there is no text in it"),
    ] {
        assert!(of(name).contains(why), "{name}: {}", of(name));
    }
    assert!(of("mixed").contains("iconv"));

    let no_path = DataConfig { corpus: CorpusKind::Text, ..DataConfig::default() };
    assert!(failure(&place, &no_path).contains("data.path is not set"));
    let device = DataConfig { path: Some("/dev/null".into()), ..no_path };
    assert!(failure(&place, &device).contains("/dev/null: it is neither a file nor a folder"));
    let path = Some(place.path("mixed").display().to_string());
    let folder = DataConfig { corpus: CorpusKind::Shakespeare, path, ..DataConfig::default() };
    assert!(failure(&place, &folder).contains("mixed: it is a folder; a file is wanted here"));
}

#[test]
fn what_may_not_be_read_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let path = place.write("secret.txt", "x");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        return; // root may read everything
    }
    assert!(failure(&place, &text(&path, TokenizerKind::Char)).contains("secret.txt: Permission denied"));
}

#[test]
fn characters_that_only_the_validation_split_has_are_noted() {
    let place = Place::new();
    let path = place.write("t", "ab".repeat(45) + "abé\u{0}cdabab");
    let notes = place.prepare(&text(&path, TokenizerKind::Byte)).unwrap().notes;
    assert_eq!(notes[0], r"4 characters occur only in the validation split: '\0', 'c', 'd', 'é'");
    assert!(notes.len() == 2 && notes[1].starts_with("1 character is NUL"), "{notes:?}");
    let fine = place.write("fine", "ab".repeat(50));
    assert!(place.prepare(&text(&fine, TokenizerKind::Char)).unwrap().notes.is_empty());
}

#[test]
fn a_corpus_tells_whether_a_context_fits() {
    let place = Place::new();
    let info = place.prepare(&text(&place.write("t", "x".repeat(100)), TokenizerKind::Char)).unwrap();
    assert_eq!((info.train_tokens, info.val_tokens), (90, 10));
    info.check_context(9).unwrap();
    let why = info.check_context(10).unwrap_err();
    assert!(
        why.contains("the validation split of") && why.contains("has 10 tokens; a context of 10 needs at least 11")
    );
    assert!(info.check_context(90).unwrap_err().contains("the training split of"));

    let one = text(&place.write("one", "x"), TokenizerKind::Char);
    assert!(place.open(&one).info().check_context(1).unwrap_err().contains("has 0 tokens"));
}

#[test]
fn windows_lie_within_the_split_and_targets_follow_inputs() {
    let place = Place::new();
    // Each character occurs once, so a token tells where in the text it stands.
    let all: String = (0x4e00..0x4e00 + 200).filter_map(char::from_u32).collect();
    let data = place.open(&text(&place.write("t", &all), TokenizerKind::Char));
    let (mut batch, mut starts) = (Batch::zeros(64, 16), BTreeSet::new());
    let mut check = |batch: &Batch, range: std::ops::Range<u32>| {
        for (x, y) in batch.x.chunks(16).zip(batch.y.chunks(16)) {
            assert!(x.windows(2).all(|w| w[1] == w[0] + 1) && x[1..] == y[..15] && y[15] == x[15] + 1);
            assert!(range.contains(&x[0]) && y[15] < range.end, "{} to {} in {range:?}", x[0], y[15]);
            starts.insert(x[0]);
        }
    };
    for step in 1..=100 {
        data.fill_train(1, step, 0, &mut batch);
        check(&batch, 0..180);
        data.fill_eval(Split::Train, step as usize, &mut batch);
        check(&batch, 0..180);
        data.fill_eval(Split::Val, step as usize, &mut batch);
        check(&batch, 180..200);
    }
    let expected: BTreeSet<u32> = (0..=180 - 17).chain(180..=200 - 17).collect();
    assert_eq!(starts, expected, "every window occurs, the last one included");
}

#[test]
fn training_windows_are_uniform_and_a_pure_function() {
    let place = Place::new();
    let all: String = (0x4e00..0x4e00 + 100).filter_map(char::from_u32).collect();
    let data = place.open(&text(&place.write("t", all), TokenizerKind::Char));
    let draw = |seed, step, micro| {
        let mut batch = Batch::zeros(100, 10);
        data.fill_train(seed, step, micro, &mut batch);
        batch
    };
    let mut counts = [0u32; 80]; // 90 tokens: windows begin at 0 to 79
    for step in 1..=800 {
        draw(1, step, 0).x.chunks(10).for_each(|row| counts[row[0] as usize] += 1);
    }
    // 1000 expected each; the standard deviation is 31.
    assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    assert_eq!(draw(1, 7, 2), draw(1, 7, 2));
    for other in [(2, 7, 2), (1, 8, 2), (1, 7, 1)] {
        assert_ne!(draw(1, 7, 2), draw(other.0, other.1, other.2));
    }
}

#[test]
fn evaluation_windows_do_not_depend_on_how_they_are_grouped() {
    let place = Place::new();
    let data = place.open(&playbook(1));
    let windows = |size: usize, split| {
        let mut batch = Batch::zeros(size, 32);
        let batches = (0..24 / size).map(|index| {
            data.fill_train(index as u64, 1, 0, &mut batch); // whatever happened before
            data.fill_eval(split, index, &mut batch);
            (batch.x.clone(), batch.y.clone())
        });
        let (x, y): (Vec<_>, Vec<_>) = batches.unzip();
        (x.concat(), y.concat())
    };
    for split in [Split::Train, Split::Val] {
        assert_eq!(windows(12, split), windows(4, split));
        assert_eq!(windows(12, split), windows(24, split));
    }
    assert_ne!(windows(12, Split::Train), windows(12, Split::Val));
}

#[test]
fn the_whole_is_the_two_splits_without_a_seam() {
    let place = Place::new();
    let data = place.open(&playbook(1));
    let info = data.info();
    let (train, val) = (info.train_tokens as usize, info.val_tokens as usize);
    let walked = |split, start, length| {
        let mut batch = Batch::zeros(1, length);
        data.fill_walk(split, start, &mut batch);
        (batch.x, batch.y)
    };
    let (whole, next) = walked(Split::Whole, 0, train + val - 1);
    assert_eq!(whole[..train - 1], walked(Split::Train, 0, train - 1).0);
    assert_eq!(whole[train..], walked(Split::Val, 0, val - 1).0);
    assert_eq!(whole[1..], next[..train + val - 2]);
    for start in [train - 5, train - 4, train, train + 1] {
        let (x, y) = walked(Split::Whole, start, 4);
        assert_eq!((&x[..], &y[..]), (&whole[start..start + 4], &next[start..start + 4]), "from {start}");
    }
    assert_eq!(info.tokens(Split::Whole), info.chars, "a character is a token");
    assert_eq!(info.chars_per_token_of(Split::Whole), 1.0);
}

#[test]
fn many_prepare_at_once_and_one_works() {
    let place = Place::new();
    let (config, start) = (playbook(3), Barrier::new(8));
    let infos: Vec<CorpusInfo> = std::thread::scope(|scope| {
        let prepare = || {
            start.wait();
            place.prepare(&config).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(prepare)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(infos.iter().all(|info| *info == infos[0]));
    assert_eq!(place.cached().len(), 1, "nothing is left aside");
}

#[test]
fn a_damaged_cache_is_made_again() {
    let place = Place::new();
    let config = playbook(1);
    let info = place.prepare(&config).unwrap();
    let before = whole(&place.open(&config));
    let folder = place.cached().remove(0);
    for name in ["train.bin", "val.bin", "info.json"] {
        let path = folder.join(name);
        let content = fs::read(&path).unwrap();
        for damaged in [Some(&content[..content.len() / 2]), Some(&[]), None] {
            match damaged {
                Some(rest) => fs::write(&path, rest).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(place.prepare(&config).unwrap(), info, "{name} {damaged:?}");
            assert_eq!(whole(&place.open(&config)), before, "{name} {damaged:?}");
        }
    }
    // Of the same length, too.
    let path = folder.join("train.bin");
    let mut content = fs::read(&path).unwrap();
    content[1001] ^= 1;
    fs::write(&path, content).unwrap();
    assert_eq!(place.prepare(&config).unwrap(), info);
    assert_eq!(whole(&place.open(&config)), before);

    let aside = folder.with_file_name(format!(".aside-{}", folder.file_name().unwrap().to_str().unwrap()));
    fs::create_dir_all(aside.join("rest of a killed process")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.prepare(&config).unwrap(), info);
    assert_eq!(place.cached(), [folder]);
}

#[test]
fn a_whole_cache_is_used_as_it_is() {
    let place = Place::new();
    let path = place.write("t.txt", "some text\n".repeat(20));
    let config = text(&path, TokenizerKind::Char);
    place.prepare(&config).unwrap();
    let tokens = place.cached().remove(0).join("train.bin");
    let made = fs::metadata(&tokens).unwrap().modified().unwrap();
    place.prepare(&config).unwrap();
    place.open(&config);
    assert_eq!(fs::metadata(&tokens).unwrap().modified().unwrap(), made);

    // The same text elsewhere is the same cache under its own name; another text at the same place is not.
    let copy = place.write("copy.txt", "some text\n".repeat(20));
    assert!(place.prepare(&text(&copy, TokenizerKind::Char)).unwrap().name.ends_with("copy.txt"));
    assert_eq!(place.cached().len(), 1);
    fs::write(&path, "other text\n".repeat(20)).unwrap();
    assert_eq!(whole(&place.open(&config)), "other text\n".repeat(20));
    assert_eq!(place.cached().len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_comes_back(content in "\\PC{1,80}", fraction in 0.01..0.5) {
        prop_assume!(content.chars().count() > 4);
        let place = Place::new();
        let path = place.write("t", &content);
        for tokenizer in [TokenizerKind::Char, TokenizerKind::Byte] {
            let config = DataConfig { val_fraction: fraction, ..text(&path, tokenizer) };
            let data = place.open(&config);
            let tokens = data.tokenizer().encode(&content).unwrap();
            prop_assert_eq!(data.tokenizer().decode(&tokens), content.trim_start_matches('\u{feff}').to_owned());
            let info = data.info();
            prop_assert_eq!(tokens.len() as u64, info.train_tokens + info.val_tokens);
            prop_assert_eq!(info.train_tokens, (tokens.len() as f64 * (1.0 - fraction)) as u64);
        }
    }
}
