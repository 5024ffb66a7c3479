//! Other programs' weights, read from folders and files as those programs write them: what comes of them, and what is
//! refused, by name.

use std::{fs, path::Path};

use exp::{
    base::{Error, Exit},
    model::import::{Format, Import},
};
use serde_json::{Value, json};

use crate::foreign::{Named, Small, Stored, Tensor, safetensors, write_hf, write_shards};

#[test]
fn gpt2_comes_in_however_it_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    for (tied, prefix) in [(true, "transformer."), (true, ""), (false, "transformer."), (false, "")] {
        let small = Small::gpt2(tied);
        let mut named = small.as_gpt2(prefix);
        for layer in 0..2 {
            named.insert(format!("{prefix}h.{layer}.attn.bias"), (vec![1, 1, 6, 6], vec![1.0; 36]));
            named.insert(format!("{prefix}h.{layer}.attn.masked_bias"), (vec![], vec![-1e4]));
        }
        if tied && !prefix.is_empty() {
            named.insert("lm_head.weight".into(), named["transformer.wte.weight"].clone());
        }
        for stored in [Stored::F32, Stored::F16, Stored::Bf16] {
            for sharded in [false, true] {
                let story = format!("tied {tied}, prefix {prefix:?}, {stored:?}, sharded {sharded}");
                let folder = dir.path().join(story.replace('"', ""));
                write_hf(&folder, &small.gpt2_config(), &Named::new());
                match sharded {
                    true => write_shards(&folder, &named, stored),
                    false => fs::write(folder.join("model.safetensors"), safetensors(&named, stored)).unwrap(),
                }
                let import = Import::open(&folder, None).unwrap_or_else(|e| panic!("{story}: {e}"));
                assert_eq!((import.format, &import.model), (Format::HfGpt2, &small.config), "{story}");
                let want: Vec<f32> = small.weights.iter().map(|w| stored.rounded(*w)).collect();
                assert!(import.weights() == want, "{story}: other weights");
                assert!(import.moment(0).is_none() && import.tokenizer_file.is_none());
            }
        }
    }
}

#[test]
fn llama_comes_in_however_it_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    for (kv_heads, tied, prefix) in [(4, false, "model."), (2, true, "model."), (1, false, ""), (2, false, "")] {
        let small = Small::llama(kv_heads, tied);
        let mut named = small.as_llama(prefix);
        named.insert(format!("{prefix}layers.0.self_attn.rotary_emb.inv_freq"), (vec![2], vec![1.0, 0.5]));
        let config = small.llama_config();
        let mut newer = config.clone();
        newer["rope_theta"].take();
        newer["rope_parameters"] = json!({"rope_type": "default", "rope_theta": small.config.rope_theta});
        newer["head_dim"] = 4.into();
        for config in [config, newer] {
            let folder = dir.path().join("llama");
            write_hf(&folder, &config, &named);
            fs::write(folder.join("tokenizer.json"), "{}").unwrap();
            let import = Import::open(&folder, None).unwrap();
            assert_eq!((import.format, &import.model), (Format::HfLlama, &small.config));
            assert!(import.weights() == small.weights, "{kv_heads} {tied} {prefix}");
            assert!(import.tokenizer_file.is_some());
        }
    }
}

#[test]
fn nanogpt_comes_in_with_its_moments() {
    let dir = tempfile::tempdir().unwrap();
    for (bias, prefix) in [(true, ""), (true, "_orig_mod."), (false, "_orig_mod.")] {
        let gpt2 = Small::gpt2(true).config;
        let small =
            Small::new(exp::spec::config::ModelConfig { bias, d_ff: 32, mlp: exp::spec::config::Mlp::Gelu, ..gpt2 });
        let [first, second] = [0.5f32, 2.0].map(|by| small.weights.iter().map(|w| w * by).collect::<Vec<f32>>());
        let path = dir.path().join("ckpt.pt");
        for moments in [None, Some([&first[..], &second[..]])] {
            small.write_nanogpt(&path, prefix, moments);
            for path in [&path, dir.path()] {
                let import = Import::open(path, None).unwrap();
                assert_eq!((import.format, &import.model), (Format::NanoGpt, &small.config));
                assert!(import.weights() == small.weights);
                assert_eq!(import.moment(0), moments.map(|_| first.clone()));
                assert_eq!(import.moment(1), moments.map(|_| second.clone()));
                assert_eq!(import.notes, ["it was trained for 20 iterations, its best validation loss 1.5000"]);
            }
        }
    }
}

#[test]
fn a_smaller_context_takes_the_first_positions() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    write_hf(dir.path(), &small.gpt2_config(), &small.as_gpt2("transformer."));
    let import = Import::open(dir.path(), Some(4)).unwrap();
    let range = |layout: &exp::model::Layout| layout.get("transformer.wpe.weight").unwrap().range();
    assert_eq!((import.model.context, range(&import.layout).len()), (4, 4 * 8));
    let (weights, whole) = (import.weights(), &small.weights[range(&small.layout)]);
    assert_eq!(weights[range(&import.layout)], whole[..32]);
    assert!(weights[range(&import.layout).end..] == small.weights[range(&small.layout).end..]);
    for context in [0, 7] {
        let error = Import::open(dir.path(), Some(context)).err().unwrap();
        assert!(error.exit == Exit::Usage && error.why.contains("the model has one of 6"), "{error}");
    }
}

#[test]
fn what_a_config_says_that_models_here_do_not_do_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (gpt2, llama) = (Small::gpt2(true), Small::llama(2, false));
    let refusal = |is_llama: bool, key: &str, value: Value| {
        let (mut config, named) = match is_llama {
            true => (llama.llama_config(), llama.as_llama("model.")),
            false => (gpt2.gpt2_config(), gpt2.as_gpt2("transformer.")),
        };
        config[key] = value;
        write_hf(dir.path(), &config, &named);
        refused(dir.path())
    };
    for (is_llama, key, value, why) in [
        (false, "activation_function", json!("relu"), "`activation_function` is \"relu\"; known here are gelu_new"),
        (false, "scale_attn_weights", json!(false), "`scale_attn_weights` is false"),
        (false, "scale_attn_by_inverse_layer_idx", json!(true), "`scale_attn_by_inverse_layer_idx` is true"),
        (false, "add_cross_attention", json!(true), "`add_cross_attention` is true"),
        (false, "model_type", json!("mistral"), "`model_type` is \"mistral\""),
        (false, "model_type", json!(null), "it has no `model_type`"),
        (false, "n_head", json!(3), "`n_head` 3 does not divide its `n_embd` 8"),
        (false, "n_embd", json!(null), "it has no `n_embd`"),
        (false, "n_embd", json!("8"), "`n_embd` is \"8\", which is not a size"),
        (false, "n_layer", json!(-1), "`n_layer` is -1"),
        (false, "n_embd", json!(1 << 40), "`n_embd` is 1099511627776"),
        (false, "n_embd", json!(16), "tensor transformer.wte.weight has shape [11, 8], not [11, 16]"),
        (false, "vocab_size", json!(12), "tensor transformer.wte.weight has shape [11, 8], not [12, 8]"),
        (false, "n_positions", json!(7), "tensor transformer.wpe.weight has shape [6, 8], not [7, 8]"),
        (false, "n_inner", json!(21), "tensor transformer.h.0.mlp.c_fc.weight has shape [8, 20], not [8, 21]"),
        (
            false,
            "n_layer",
            json!(1_000_000),
            "tensor transformer.h.2.ln_1.weight is not in it, and config.json has 1000000",
        ),
        (false, "n_layer", json!(1), "tensor transformer.h.1.attn.c_attn.bias of shape [24] is no parameter"),
        (false, "layer_norm_epsilon", json!(0), "`layer_norm_epsilon` is 0"),
        (false, "tie_word_embeddings", json!(false), "tensor lm_head.weight is not in it"),
        (true, "hidden_act", json!("gelu"), "`hidden_act` is \"gelu\""),
        (true, "attention_bias", json!(true), "`attention_bias` is true"),
        (true, "mlp_bias", json!(true), "`mlp_bias` is true"),
        (true, "head_dim", json!(8), "`head_dim` is 8"),
        (true, "sliding_window", json!(4096), "`sliding_window` is 4096"),
        (true, "rope_scaling", json!({"type": "linear", "factor": 2.0}), "the `type` \"linear\""),
        (true, "rope_parameters", json!({"rope_type": "llama3"}), "the `rope_type` \"llama3\""),
        (true, "partial_rotary_factor", json!(0.5), "`partial_rotary_factor` is 0.5"),
        (true, "num_key_value_heads", json!(3), "`num_key_value_heads` 3 does not divide"),
        (true, "quantization_config", json!({"bits": 4}), "quantized weights are not known here"),
        (true, "tie_word_embeddings", json!(true), "tensor lm_head.weight is not the token embedding"),
    ] {
        let error = refusal(is_llama, key, value);
        assert!(error.why.contains(why), "{key}: {error}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    let refusal = |change: &dyn Fn(&mut Named)| {
        let mut named = small.as_gpt2("transformer.");
        change(&mut named);
        write_hf(dir.path(), &small.gpt2_config(), &named);
        refused(dir.path()).to_string()
    };
    let name = "transformer.h.1.mlp.c_proj.weight";
    let error = refusal(&|named| drop(named.remove(name)));
    assert!(error.contains(&format!("tensor {name} is not in it")), "{error}");
    let error = refusal(&|named| named.get_mut(name).unwrap().0 = vec![8, 20]);
    assert!(error.contains(&format!("tensor {name} has shape [8, 20], not [20, 8]")), "{error}");
    let error = refusal(&|named| drop(named.insert("transformer.h.0.lora.weight".into(), (vec![1], vec![1.0]))));
    assert!(error.contains("tensor transformer.h.0.lora.weight of shape [1] is no parameter of this model"), "{error}");
    let mut integers = small.as_gpt2("transformer.");
    integers.remove(name);
    let bytes = safetensors::serialize(
        integers
            .iter()
            .map(|(name, (shape, values))| {
                (name.clone(), values.iter().flat_map(|v| v.to_le_bytes()).collect(), shape, safetensors::Dtype::F32)
            })
            .chain([(name.to_owned(), vec![0; 4 * 160], &vec![20, 8], safetensors::Dtype::I32)])
            .map(|(name, bytes, shape, dtype)| (name, Tensor { dtype, shape: shape.clone(), bytes })),
        None,
    );
    fs::write(dir.path().join("model.safetensors"), bytes.unwrap()).unwrap();
    let error = refused(dir.path()).to_string();
    assert!(error.contains(&format!("tensor {name} holds I32, not F32, F16 or BF16")), "{error}");
}

#[test]
fn an_index_names_whole_files_of_its_own_folder() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    let named = small.as_gpt2("transformer.");
    write_hf(dir.path(), &small.gpt2_config(), &named);
    write_shards(dir.path(), &named, Stored::F32);
    Import::open(dir.path(), None).unwrap();
    let index = dir.path().join("model.safetensors.index.json");
    let whole: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    fs::write(dir.path().join("../stray.safetensors"), "x").unwrap();
    let absolute = dir.path().join("model-00001-of-00002.safetensors");
    for file in ["../stray.safetensors", absolute.to_str().unwrap(), "..", "", "./model-00001-of-00002.safetensors"] {
        let mut changed = whole.clone();
        changed["weight_map"]["transformer.ln_f.bias"] = file.into();
        fs::write(&index, changed.to_string()).unwrap();
        let error = refused(dir.path()).to_string();
        assert!(error.contains("index.json: it names the file") && error.contains("own folder"), "{file}: {error}");
    }
    fs::remove_file(dir.path().join("../stray.safetensors")).unwrap();
    for (tensor, file, why) in [
        ("transformer.ln_f.bias", "model-00003-of-00003.safetensors", "and there is no such file"),
        ("transformer.x", "model-00001-of-00002.safetensors", "it says that tensor transformer.x is in model-00001"),
    ] {
        let mut changed = whole.clone();
        changed["weight_map"][tensor] = file.into();
        fs::write(&index, changed.to_string()).unwrap();
        let error = refused(dir.path()).to_string();
        assert!(error.contains(why), "{error}");
    }
    fs::write(&index, whole.to_string()).unwrap();
    fs::write(dir.path().join("model-00002-of-00002.safetensors"), safetensors(&named, Stored::F32)).unwrap();
    let error = refused(dir.path()).to_string();
    assert!(error.contains("is there twice, also in "), "{error}");
}

#[test]
fn what_is_no_model_is_refused_with_what_was_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Import::open(&dir.path().join("nothing"), None).err().unwrap();
    assert_eq!(missing.exit, Exit::Usage);
    let error = refused(dir.path());
    assert!(error.why.contains("neither a config.json of Hugging Face's models nor a ckpt.pt"), "{error}");
    assert!(error.hint.is_some());
    let small = Small::gpt2(true);
    write_hf(dir.path(), &small.gpt2_config(), &small.as_gpt2(""));
    fs::rename(dir.path().join("model.safetensors"), dir.path().join("pytorch_model.bin")).unwrap();
    let error = refused(dir.path());
    assert!(
        error.why.contains("it has neither model.safetensors nor") && error.hint.unwrap().contains("save_pretrained")
    );
    let text = dir.path().join("notes.txt");
    fs::write(&text, "PKzip is not what this is").unwrap();
    assert!(refused(&text).to_string().contains("notes.txt: it is no whole file of `torch.save`"));
    fs::write(&text, "notes").unwrap();
    assert!(refused(&text).why.contains("neither safetensors nor a file of `torch.save`"));
    fs::write(dir.path().join("config.json"), "[1]").unwrap();
    assert!(refused(dir.path()).to_string().contains("config.json: it is no JSON object"));
}

/// The error of a path that is no model. Its message names a file or folder.
pub fn refused(path: &Path) -> Error {
    let error = Import::open(path, None).err().unwrap_or_else(|| panic!("{} was taken in", path.display()));
    assert_eq!(error.exit, Exit::Spec, "{error}");
    assert!(error.doing.starts_with("importing ") || error.doing.starts_with("reading "), "{error}");
    error
}
