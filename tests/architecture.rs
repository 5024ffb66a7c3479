//! The drawing in `src/lib.rs` is true: no module uses another that its line does not name, external crates keep to
//! their layer, and only the layers that talk to people print.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What everybody may use.
const COMMON: [&str; 4] = ["base", "event", "spec::config", "spec::identity"];

#[test]
fn modules_use_only_what_the_drawing_names() {
    let arrows = drawing();
    let mut wrong = Vec::new();
    for (module, path) in sources() {
        let Some(allowed) = arrows.get(module.as_str()) else {
            panic!("src/lib.rs draws no line for the module {module} ({})", path.display())
        };
        for used in used_modules(&path) {
            let common = COMMON.iter().any(|c| used == *c || used.starts_with(&format!("{c}::")));
            let target = used.split("::").next().unwrap_or_default();
            let is_config = used == "spec::RunConfig"; // `spec` re-exports it from `spec::config`
            if target != module && !common && !is_config && !allowed.contains(target) {
                wrong.push(format!("{} uses crate::{used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the drawing in src/lib.rs lacks:\n{}", wrong.join("\n"));
}

#[test]
fn the_drawing_has_no_circle() {
    let arrows = drawing();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // Take away modules whose arrows all lead to what is taken already; a circle leaves something over.
    while let Some((module, _)) =
        arrows.iter().find(|(m, to)| !seen.contains(m.as_str()) && to.iter().all(|t| seen.contains(t.as_str())))
    {
        seen.insert(module);
    }
    let left: Vec<_> = arrows.keys().filter(|m| !seen.contains(m.as_str())).collect();
    assert!(left.is_empty(), "these modules use each other in a circle: {left:?}");
}

#[test]
fn external_crates_keep_to_their_layer() {
    let layers: [(&str, &[&str]); 22] = [
        ("candle_core", &["model", "engine", "exec/device"]),
        ("candle_nn", &["model", "engine"]),
        ("nvml_wrapper", &["exec/device"]),
        ("rusqlite", &["store"]),
        ("plotters", &["report"]),
        ("pulldown_cmark", &["report/html"]),
        ("indicatif", &["ui"]),
        ("ratatui", &["ui/watch"]),
        ("parquet", &["export"]),
        ("crc", &["export/tensorboard"]),
        ("clap", &["cli"]),
        ("saphyr_parser", &["spec"]),
        ("serde_yaml", &["spec"]),
        ("tiktoken_rs", &["data/tokenizer"]),
        ("tokenizers", &["data/tokenizer"]),
        ("dirs", &["base/folders"]),
        ("flate2", &["data/prepare"]),
        ("regex_syntax", &["data/tokenizer"]),
        ("rustc_hash", &["data/tokenizer"]),
        ("sha2", &["data/fetch"]),
        ("ureq", &["data/fetch"]),
        ("zstd", &["data/prepare"]),
    ];
    let mut wrong = Vec::new();
    for (_, path) in sources() {
        let text = code(&path);
        let place = path.strip_prefix(root()).unwrap().display().to_string();
        for (name, allowed) in layers {
            let is_used = text.contains(&format!("{name}::")) || text.contains(&format!("{name}::{{"));
            if is_used && !allowed.iter().any(|a| place.starts_with(&format!("src/{a}"))) {
                wrong.push(format!("{place} uses {name}"));
            }
        }
        let prints = ["println!", "eprintln!", "print!(", "dbg!"].iter().any(|p| text.contains(p));
        if prints && !place.starts_with("src/ui") {
            wrong.push(format!("{place} prints; only src/ui does"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_open_with_what_they_hold_and_stay_short() {
    for (_, path) in sources() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} does not open with //!", path.display());
        let lines = text.lines().count();
        assert!(lines <= 550, "{} has {lines} lines: split it by topic", path.display());
    }
}

/// The arrows of the drawing: module to the modules that it may use.
fn drawing() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let arrows: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! ")?.split_once('►'))
        .filter(|(module, _)| module.trim().chars().all(|c| c.is_ascii_lowercase()) && !module.trim().is_empty())
        .map(|(module, rest)| {
            // The names stand between the arrow and a gap of two spaces.
            let names = if rest.starts_with("  ") { "" } else { rest.trim().split("  ").next().unwrap_or_default() };
            let names = names.split(',').map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect();
            (module.trim().to_owned(), names)
        })
        .collect();
    assert!(arrows.len() >= 15, "the drawing in src/lib.rs was not found: {arrows:?}");
    arrows
}

/// Every source file below a module, with that module's name.
fn sources() -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let inner = path.strip_prefix(root().join("src")).unwrap().to_owned();
                let first = inner.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
                let module = first.trim_end_matches(".rs").to_owned();
                if module != "lib" && module != "main" {
                    files.push((module, path));
                }
            }
        }
    }
    assert!(files.len() > 30, "the sources were not found");
    files
}

/// A file without its comments and its unit tests, which may use anything.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Every `crate::` path of a file in full: `crate::{base::Result, data}` gives `base::Result` and `data`.
fn used_modules(path: &Path) -> Vec<String> {
    let text = code(path);
    let mut used = Vec::new();
    for (at, name) in text.match_indices("crate::") {
        expand("", &text[at + name.len()..], &mut used);
    }
    used
}

/// Adds the paths that begin `text` to `used`, each with `prefix`; gives what follows them.
fn expand<'a>(prefix: &str, text: &'a str, used: &mut Vec<String>) -> &'a str {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let text = text.trim_start();
    let end = text.find(|c| !word(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    let Some(mut rest) = text[end..].strip_prefix('{') else {
        used.push(path);
        return &text[end..];
    };
    loop {
        rest = expand(&path, rest, used).trim_start();
        match rest.strip_prefix(',') {
            Some(next) if !next.trim_start().starts_with('}') => rest = next,
            _ => return rest.trim_start_matches(',').trim_start().strip_prefix('}').unwrap_or_default(),
        }
    }
}

#[test]
fn nested_imports_are_read_whole() {
    let mut used = Vec::new();
    expand("", "{\n base::{Error, files::Lock},\n data, spec::{\n RunConfig, config::{A, B},\n },\n};", &mut used);
    assert_eq!(
        used,
        ["base::Error", "base::files::Lock", "data", "spec::RunConfig", "spec::config::A", "spec::config::B"]
    );
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
