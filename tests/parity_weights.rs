//! Imported weights against Hugging Face's transformers and nanoGPT in PyTorch, for each folder of `$EXP_PARITY_DIR`
//! (`../shared/parity` by default) whose name starts with `gpt2_hf`, `llama_hf` or `ckpt`: logits on every engine that
//! knows the model, the loss, what is written greedily, how many parameters there are; and that what is exported comes
//! back to the bit.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use common::{ENGINES, norm};
use exp::{
    engine::{Batch, Engine, Part, cpu::Cpu},
    model::{export, import::Import},
    spec::RunConfig,
    train::generate::{self, Sampling, Writer},
};
use safetensors::SafeTensors;
use serde_json::Value;

#[test]
fn parity_of_imported_logits_and_loss() {
    for_each_case("imported logits and loss", |case, engine| {
        let got = engine.logits(&case.ids, case.rows).unwrap();
        let off: Vec<f32> = got.iter().zip(&case.logits).map(|(got, want)| got - want).collect();
        let off = norm(&off) / norm(&case.logits);
        assert!(off <= 1e-4 && got.len() == case.logits.len(), "{}: logits are off by {off:.1e}", case.name);
        if let Some(want) = case.reference["loss"].as_f64() {
            let loss = engine.loss(&case.shifted()).unwrap();
            assert!((loss - want).abs() <= 1e-5 * want, "{}: the loss is {loss}, not {want}", case.name);
        }
    });
}

#[test]
fn parity_of_what_imported_weights_write() {
    for_each_case("greedy continuations", |case, engine| {
        let ids = |key: &str| -> Vec<u32> {
            let ids = case.reference[key].as_array().into_iter().flatten();
            ids.map(|id| id.as_u64().unwrap() as u32).collect()
        };
        let (mut tokens, want) = (ids("prompt"), ids("greedy"));
        if want.is_empty() {
            return; // the reference has no text
        }
        while tokens.len() < want.len() {
            let logits = engine.logits(&tokens, 1).unwrap();
            let last = &logits[logits.len() - case.import.vocab..];
            let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap();
            tokens.push(best as u32);
        }
        assert_eq!(tokens, want, "{}", case.name);

        let import = &case.import;
        let mut writer = Writer::new(&import.model, import.vocab, &import.weights(), want.len(), 1).unwrap();
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        writer.begin(&ids("prompt")).unwrap();
        while writer.tokens().len() < want.len() {
            writer.next(&greedy, &mut generate::stream(1, 0)).unwrap();
        }
        assert_eq!(writer.tokens(), want, "{} with a cache", case.name);
    });
}

#[test]
fn parity_of_exported_and_imported_weights() {
    for case in cases("export and import") {
        let import = &case.import;
        assert_eq!(import.layout.len() as u64, case.params(), "{}", case.name);
        let weights = import.weights();
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let model = export::Model {
            config: &import.model,
            vocab: import.vocab,
            layout: &import.layout,
            weights: &weights,
            end_of_text: None,
        };
        export::write(&out, &model, &[]).unwrap();
        let again = Import::open(&out, None).unwrap();
        assert_eq!((&again.model, again.vocab), (&import.model, import.vocab), "{}", case.name);
        let bits = |weights: Vec<f32>| weights.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert!(bits(again.weights()) == bits(weights), "{}: other weights came back", case.name);
    }
}

#[test]
fn parity_of_moments() {
    for case in cases("moments").iter().filter(|case| case.import.has_moments()) {
        let moments = [0, 1].map(|which| case.import.moment(which).unwrap());
        assert!(moments[1].iter().all(|v| *v >= 0.0), "{}: second moments are squares", case.name);
        assert!(moments[0].iter().any(|m| *m < 0.0), "{}: first moments are means", case.name);
    }
}

/// One folder of reference numbers.
struct Case {
    name: String,
    import: Import,
    config: RunConfig,
    reference: Value,
    ids: Vec<u32>,
    rows: usize,
    logits: Vec<f32>,
}

impl Case {
    fn open(folder: &Path) -> Self {
        let import = Import::open(folder, None).unwrap();
        let bytes = fs::read(folder.join("reference.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (ids, logits) = (file.tensor("ids").unwrap(), file.tensor("logits").unwrap());
        Self {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            config: RunConfig { model: import.model.clone(), ..RunConfig::default() },
            import,
            reference: serde_json::from_slice(&fs::read(folder.join("reference.json")).unwrap()).unwrap(),
            ids: ids.data().as_chunks().0.iter().map(|id| i64::from_le_bytes(*id) as u32).collect(),
            rows: ids.shape()[0],
            logits: logits.data().as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect(),
        }
    }

    /// Each id with the one after it.
    fn shifted(&self) -> Batch {
        let length = self.ids.len() / self.rows;
        let rows = |from: usize, to: usize| self.ids.chunks(length).flat_map(|row| row[from..to].to_vec()).collect();
        Batch { x: rows(0, length - 1), y: rows(1, length), batch: self.rows, context: length - 1 }
    }

    /// Parameters: as the reference counts them, else by nanoGPT's arguments.
    fn params(&self) -> u64 {
        if let Some(n) = self.reference["n_params"].as_u64() {
            return n;
        }
        let args = &self.reference["model_args"];
        let of = |key: &str| args[key].as_u64().unwrap();
        let (d, bias) = (of("n_embd"), u64::from(args["bias"].as_bool().unwrap()));
        let layer = 12 * d * d + 2 * d + bias * (9 + 2) * d;
        (of("vocab_size") + of("block_size")) * d + of("n_layer") * layer + d + bias * d
    }
}

/// The cases that there are, and a word where there are none.
fn cases(what: &str) -> Vec<Case> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let asked = std::env::var_os("EXP_PARITY_DIR");
    let expected = asked.is_some() || shared.exists();
    let folder = asked.map_or_else(|| shared.join("parity"), PathBuf::from);
    let is_case = |name: &str| ["gpt2_hf", "llama_hf", "ckpt"].iter().any(|prefix| name.starts_with(prefix));
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<_> =
        entries.filter(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_case)).collect();
    folders.sort();
    if folders.is_empty() {
        assert!(!expected, "{} has no folder of imported weights", folder.display());
        println!("parity of {what}: skipped, there are no reference numbers at {}", folder.display());
    }
    folders.iter().map(|folder| Case::open(folder)).collect()
}

/// Runs `check` on every case with every engine that knows its model.
fn for_each_case(what: &str, check: impl Fn(&Case, &mut dyn Engine)) {
    for case in cases(what) {
        for (name, make) in ENGINES.iter().filter(|(name, _)| *name != "cpu" || Cpu::knows(&case.config)) {
            println!("parity of {what}: {name} on {}", case.name);
            let mut engine = make(&case.config, case.import.vocab);
            engine.write(Part::Params, &case.import.weights()).unwrap();
            check(&case, &mut *engine);
        }
    }
}
