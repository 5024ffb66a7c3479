//! Files that are damaged, or made to do harm: each is refused by its name, and none ends the process.

use std::fs;

use exp::{
    base::{Exit, rng},
    model::import::Import,
    spec::config::{Mlp, ModelConfig},
};

use crate::{
    files::refused,
    foreign::{Small, Torch, write_hf},
};

#[test]
fn a_pickle_that_calls_or_points_elsewhere_is_refused_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ckpt.pt");
    let refusal = |build: &dyn Fn(&mut Torch)| {
        let mut torch = Torch::default();
        torch.op(b"\x80\x02}(").text("model").op(b"}(").text("transformer.wte.weight");
        build(&mut torch);
        torch.op(b"u").text("model_args").op(b"}u.");
        torch.write(&path);
        refused(&path).to_string()
    };
    let marker = dir.path().join("ran");
    let command = format!("touch {}", marker.display());
    let error = refusal(&|torch| {
        torch.op(b"cposix\nsystem\n(").text(&command).op(b"tR");
    });
    assert!(error.contains("ckpt.pt: it calls posix.system, which no tensor needs; nothing was run"), "{error}");
    assert!(!marker.exists());
    let rebuilt = |storage: &'static [u8], key: &'static str, shape: usize, stride: usize| {
        move |torch: &mut Torch| {
            torch.tensor(&[4], &[1.0; 4]); // so that there is a file of numbers
            torch.text("transformer.wpe.weight").op(b"ctorch._utils\n_rebuild_tensor_v2\n((").text("storage");
            torch.op(storage).text(key).text("cpu").int(4).op(b"tQ").int(0).op(b"(").int(shape).op(b"t(");
            torch.int(stride).op(b"t\x89ccollections\nOrderedDict\n)RtR");
        }
    };
    let float = b"ctorch\nFloatStorage\n";
    for (build, why) in [
        (rebuilt(float, "0", 5, 1), "needs the bytes 0 to 20 of 16 there are"),
        (rebuilt(float, "0", 2_000_000_000, 1), "needs the bytes 0 to 8000000000 of 16"),
        (rebuilt(float, "0", 2, 2), "does not lie in one piece"),
        (rebuilt(float, "7", 4, 1), "has its numbers in ckpt/data/7, which lacks"),
        (rebuilt(float, "../byteorder", 1, 1), "has its numbers in ckpt/data/../byteorder, which lacks"),
        (rebuilt(b"ctorch\nLongStorage\n", "0", 2, 1), "holds torch.LongStorage, not float"),
    ] {
        let error = refusal(&build);
        assert!(error.contains("tensor transformer.wpe.weight") && error.contains(why), "{error}");
    }
}

#[test]
fn damaged_files_are_refused_and_never_end_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    let folder = dir.path().join("hf");
    write_hf(&folder, &small.gpt2_config(), &small.as_gpt2("transformer."));
    let nano = dir.path().join("ckpt.pt");
    let gpt2 = Small::new(ModelConfig { d_ff: 32, mlp: Mlp::Gelu, ..small.config.clone() });
    gpt2.write_nanogpt(&nano, "", Some([&gpt2.weights, &gpt2.weights]));
    let weights = folder.join("model.safetensors");
    let mut rng = rng::stream(1, "test/damage");
    for (file, path) in [(&weights, &folder), (&folder.join("config.json"), &folder), (&nano, &nano)] {
        let whole = fs::read(file).unwrap();
        let try_with = |bytes: &[u8]| {
            fs::write(file, bytes).unwrap();
            Import::open(path, None).map(|import| (import.weights(), import.moment(0), import.moment(1)))
        };
        try_with(&whole).unwrap();
        let steps = (0..40).map(|i| whole.len() * i / 40).chain([1, 2, 7, 8, 9, whole.len() - 1]);
        for length in steps {
            let error =
                try_with(&whole[..length]).err().unwrap_or_else(|| panic!("{length} bytes of {file:?} will do"));
            assert_eq!(error.exit, Exit::Spec, "{error}");
        }
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=rng::below(&mut rng, 3) {
                // Most of what can break stands at the beginning, and of a zip at the end.
                let at = match rng::below(&mut rng, 3) {
                    0 => rng::below(&mut rng, bytes.len() as u64),
                    1 => rng::below(&mut rng, bytes.len().min(400) as u64),
                    _ => (bytes.len() - 1) as u64 - rng::below(&mut rng, bytes.len().min(4000) as u64),
                };
                bytes[at as usize] = rng::below(&mut rng, 256) as u8;
            }
            let _ = try_with(&bytes); // whatever comes of it, it comes as an answer
        }
        fs::write(file, whole).unwrap();
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    write_hf(dir.path(), &small.gpt2_config(), &small.as_gpt2("transformer."));
    let file = |length: u64, header: &str, data: usize| {
        [&length.to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
    };
    let tensor = |name: &str, shape: &str, from: u64, to: u64| {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    };
    let with = |tensors: &[String], data: usize| {
        let header = format!("{{{}}}", tensors.join(","));
        file(header.len() as u64, &header, data)
    };
    for (what, bytes) in [
        ("a huge header", file(u64::MAX, "{}", 0)),
        ("a header beyond the file", file(1 << 20, "{}", 0)),
        ("overlapping tensors", with(&[tensor("a", "[2]", 0, 8), tensor("b", "[2]", 4, 12)], 12)),
        ("a tensor beyond the file", with(&[tensor("a", "[4]", 0, 16)], 8)),
        ("offsets the wrong way round", with(&[tensor("a", "[2]", 8, 0)], 8)),
        ("a shape that overflows", with(&[tensor("a", "[4294967296,4294967296,4]", 0, 8)], 8)),
        ("a shape of another length", with(&[tensor("a", "[3]", 0, 8)], 8)),
        ("one name twice", with(&[tensor("a", "[2]", 0, 8), tensor("a", "[2]", 8, 16)], 16)),
        ("what belongs to nothing", with(&[tensor("a", "[2]", 0, 8)], 12)),
        ("nothing", Vec::new()),
    ] {
        fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        let error = refused(dir.path()).to_string();
        assert!(error.contains("model.safetensors: it is no whole safetensors file"), "{what}: {error}");
    }
}
