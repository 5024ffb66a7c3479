//! Attention weights: those of a model made by hand, those of an independent computation, and what `exp attention` says
//! and draws of a real run.

mod common;
mod lab;

use std::fs;

use common::config;
use exp::{
    data::tokenizer,
    engine::{Engine, Part, tape::Tape},
    model::Layout,
    report::attention::{
        Maps, Token,
        patterns::{Pattern, survey},
    },
    spec::{
        RunConfig,
        config::{Norm, Position},
    },
    train::{Trained, Which},
};
use lab::{Lab, answer};
use serde_json::Value;

/// A parameter's place in the flat weights.
fn place<'a>(layout: &Layout, weights: &'a mut [f32], name: &str) -> &'a mut [f32] {
    let param = layout.params().iter().find(|param| param.name == name).unwrap();
    &mut weights[param.range()]
}

#[test]
fn heads_made_to_look_at_the_token_before_and_at_themselves_do() {
    const T: usize = 8;
    let c = config(1, 2, 2 * T, T);
    let mut tape = Tape::new(&c, 5, "cpu").unwrap();
    let layout = tape.layout().clone();
    let mut weights = vec![0.0; layout.len()];
    // Each position has a direction of its own in the residual stream, and tokens have none.
    let positions = place(&layout, &mut weights, "transformer.wpe.weight");
    (0..T).for_each(|p| positions[p * 2 * T + p] = 1.0);
    place(&layout, &mut weights, "transformer.h.0.ln_1.weight").fill(1.0);
    // Rows are q of head 0, q of head 1, k of head 0, k of head 1, then values.
    let qkv = place(&layout, &mut weights, "transformer.h.0.attn.c_attn.weight");
    for j in 0..T {
        let mut set = |row: usize, column: usize| qkv[row * 2 * T + column] = 5.0;
        if j + 1 < T {
            set(j, j + 1); // the query at p asks head 0 for p - 1
        }
        set(T + j, j); // and head 1 for p
        set(2 * T + j, j);
        set(3 * T + j, j);
    }
    tape.write(Part::Params, &weights).unwrap();
    let tokens = [3, 1, 4, 1, 0, 2, 3, 1];
    let layers = tape.attention(&tokens).unwrap();
    assert_eq!((layers.len(), layers[0].len()), (1, 2 * T * T));
    let tokens = tokens.iter().map(|&id| Token { id, text: String::new() }).collect();
    let maps = Maps { run: "made".into(), step: 0, tokens, layers: 1, heads: 2, weights: layers.concat() };
    let heads = survey(&maps).heads;
    let named: Vec<_> = heads.iter().map(|head| (head.head, head.pattern)).collect();
    assert_eq!(named, [(0, Some(Pattern::Previous)), (1, Some(Pattern::Own))]);
    assert!(heads[0].mass[0].unwrap() > 0.999 && heads[0].mass[2].unwrap() < 0.001, "{:?}", heads[0]);
    assert!(heads[1].mass[2].unwrap() > 0.999 && heads[1].entropy.unwrap() < 0.01, "{:?}", heads[1]);
    assert_eq!(maps.head(0, 0)[..T], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "the first has nothing else");
}

/// The attention weights of the first layer in plain f64, head by head: (H, T, T).
fn first_layer(c: &RunConfig, layout: &Layout, weights: &[f32], tokens: &[u32]) -> Vec<f64> {
    let m = &c.model;
    let of = |name: &str| -> Option<Vec<f64>> {
        let param = layout.params().iter().find(|param| param.name == name)?;
        Some(weights[param.range()].iter().map(|&w| f64::from(w)).collect())
    };
    let (d, width, t) = (m.d_model, m.d_model / m.heads, tokens.len());
    let normed = |x: &[f64], mean: f64, scale: &[f64]| -> Vec<f64> {
        let square = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64;
        x.iter().zip(scale).map(|(v, s)| (v - mean) / (square + m.norm_eps).sqrt() * s).collect()
    };
    let at = "transformer.h.0";
    let scale = of(&format!("{at}.ln_1.weight")).unwrap();
    let shift = of(&format!("{at}.ln_1.bias")).unwrap_or(vec![0.0; d]);
    let matrix = of(&format!("{at}.attn.c_attn.weight")).unwrap();
    let bias = of(&format!("{at}.attn.c_attn.bias")).unwrap_or(vec![0.0; matrix.len() / d]);
    let (words, places) = (of("transformer.wte.weight").unwrap(), of("transformer.wpe.weight"));
    // Queries or keys of one head at one position, as they meet.
    let meeting = |p: usize, row: usize, norm: &str| -> Vec<f64> {
        let token = &words[tokens[p] as usize * d..][..d];
        let place = places.as_ref().map_or(vec![0.0; d], |all| all[p * d..][..d].to_vec());
        let x: Vec<f64> = token.iter().zip(&place).map(|(a, b)| a + b).collect();
        let mean = if m.norm == Norm::LayerNorm { x.iter().sum::<f64>() / d as f64 } else { 0.0 };
        let x: Vec<f64> = normed(&x, mean, &scale).iter().zip(&shift).map(|(a, b)| a + b).collect();
        let product = |row: usize| matrix[row * d..][..d].iter().zip(&x).map(|(w, x)| w * x).sum::<f64>() + bias[row];
        let mut y: Vec<f64> = (row..row + width).map(product).collect();
        if let Some(scale) = of(&format!("{at}.attn.{norm}.weight")) {
            y = normed(&y, 0.0, &scale);
        }
        if m.position == Position::Rope {
            let half = width / 2;
            let turned = |j: usize| {
                let angle = p as f64 * m.rope_theta.powf(-2.0 * (j % half) as f64 / width as f64);
                let other = if j < half { -y[j + half] } else { y[j - half] };
                y[j] * angle.cos() + other * angle.sin()
            };
            return (0..width).map(turned).collect();
        }
        y
    };
    let mut all = vec![0.0; m.heads * t * t];
    for head in 0..m.heads {
        let shared = head * m.kv_heads / m.heads;
        for i in 0..t {
            let q = meeting(i, head * width, "q_norm");
            let scores: Vec<f64> = (0..=i)
                .map(|j| meeting(j, d + shared * width, "k_norm").iter().zip(&q).map(|(k, q)| k * q).sum::<f64>())
                .map(|score| (score / (width as f64).sqrt()).exp())
                .collect();
            let sum: f64 = scores.iter().sum();
            (0..=i).for_each(|j| all[(head * t + i) * t + j] = scores[j] / sum);
        }
    }
    all
}

#[test]
fn weights_are_those_of_an_independent_computation() {
    let gpt2 = config(2, 4, 32, 12);
    let mut llama = config(2, 4, 32, 12);
    let m = &mut llama.model;
    (m.norm, m.position, m.kv_heads, m.qk_norm, m.bias) = (Norm::RmsNorm, Position::Rope, 2, true, false);
    let tokens = [5, 1, 0, 10, 7, 1, 1, 3, 9, 2];
    let t = tokens.len();
    for c in [gpt2, llama] {
        let mut tape = Tape::new(&c, 11, "cpu").unwrap();
        let layout = tape.layout().clone();
        // As they are drawn, weights are so small that all keys are looked at alike.
        let weights: Vec<f32> = tape.read(Part::Params).unwrap().iter().map(|w| w * 9.0).collect();
        tape.write(Part::Params, &weights).unwrap();
        let layers = tape.attention(&tokens).unwrap();
        let want = first_layer(&c, &layout, &weights, &tokens);
        assert!(want.iter().filter(|&&w| w > 0.0).any(|&w| w < 0.02), "heads choose");
        let off = layers[0].iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        assert!(off < 2e-5, "{off}");
        for (i, row) in layers[1].chunks_exact(t).enumerate() {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "a query's attention is shared out");
            assert!(row[i % t + 1..].iter().all(|&w| w == 0.0), "over no later key");
        }
        assert_ne!(layers[0], layers[1]);
        assert_eq!(tape.attention(&tokens[..1]).unwrap()[0], [1.0; 4]);
        assert!(tape.attention(&[]).is_err() && tape.attention(&[0; 13]).is_err() && tape.attention(&[11]).is_err());
    }
}

const TINY: &str = "
experiment: tiny
model: {layers: 2, heads: 2, d_model: 16, context: 16}
data: {corpus: text, path: corpus.txt}
train: {steps: 12, batch: 4, lr: 1e-2}
eval: {every: 6, batches: 1, batch: 2}
";

/// A root in which a run was trained, and its id.
fn trained(folder: &tempfile::TempDir) -> (Lab, String) {
    let lab = Lab::at(folder.path());
    fs::write(folder.path().join("corpus.txt"), "so the sea sees us at noon,\nand yet another one. ".repeat(60))
        .unwrap();
    let (code, said) = lab.run(TINY);
    assert_eq!(code, Some(0), "{said}");
    let id = lab.rows()[0].id.to_string();
    (lab, id)
}

/// Width and height of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 5000, "{} bytes", png.len());
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_table_and_a_picture_say_where_the_heads_of_a_run_look() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, id) = trained(&folder);
    let json = |options: &[&str]| -> Value {
        let output = lab.exp(&[&["attention", &id, "--json"], options].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let picture = |value: &Value| size(&fs::read(folder.path().join(value["picture"].as_str().unwrap())).unwrap());

    let prompt = "so the sea\nsees";
    let all = json(&["--prompt", prompt, "--checkpoint", "last"]);
    assert_eq!((&all["run"], &all["step"]), (&id.as_str().into(), &12.into()));
    assert_eq!((&all["layers"], &all["heads"], all["table"].as_array().unwrap().len()), (&2.into(), &2.into(), 4));
    assert_eq!(all["tokens"][10]["text"], "\n");
    assert_eq!(all["patterns"]["previous-token"]["queries"], 14);
    assert!(all["patterns"]["induction"]["queries"].as_u64().unwrap() > 3);
    assert!(all["picture"].as_str().unwrap().starts_with(&format!("reports/attention/{}-step-12-", &id[..8])));
    assert!(picture(&all).0 > 1000);

    // The weights are the model's own, and the table is about them.
    let one = json(&["--prompt", prompt, "--checkpoint", "last", "--layer", "1", "--head", "0"]);
    let trained = Trained::load(&lab.folder(), Which::Last).unwrap();
    let mut tape = Tape::new(&trained.frozen.config, trained.frozen.vocab_size, "cpu").unwrap();
    tape.write(Part::Params, &trained.weights).unwrap();
    let tokens = tokenizer::kept(&lab.root, &lab.folder()).unwrap().unwrap().encode(prompt).unwrap();
    let want = &tape.attention(&tokens).unwrap()[1][..15 * 15];
    let entry = one["table"].as_array().unwrap().iter().find(|head| head["layer"] == 1 && head["head"] == 0).unwrap();
    let got: Vec<f32> = serde_json::from_value::<Vec<Vec<f32>>>(entry["weights"].clone()).unwrap().concat();
    assert_eq!(got, want);
    let previous: f64 = (1..15).map(|i| f64::from(want[i * 15 + i - 1])).sum::<f64>() / 14.0;
    assert!((entry["previous-token"].as_f64().unwrap() - previous).abs() < 1e-9);
    assert_eq!(one["table"].as_array().unwrap().iter().filter(|head| !head["weights"].is_null()).count(), 1);
    assert_ne!(one["picture"], all["picture"]);
    assert_ne!(json(&["--prompt", "another one"])["picture"], json(&["--prompt", "yet another"])["picture"]);
    let layer = json(&["--prompt", prompt, "--layer", "0"]);
    assert_eq!(layer["table"].as_array().unwrap().iter().filter(|head| !head["weights"].is_null()).count(), 2);

    // The same prompt by its tokens, and from a file.
    let ids = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(json(&["--ids", &ids, "--checkpoint", "last"]), all);
    let file = folder.path().join("prompt.txt");
    fs::write(&file, prompt).unwrap();
    let out = folder.path().join("here/it.png");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let output = lab.exp(&["attention", &id, "--prompt-file", file, "--checkpoint", "last", "--out", out]).output();
    let output = output.unwrap();
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("picture: {out}")), "{said}");
    assert_eq!(size(&fs::read(out).unwrap()), picture(&all));
    for word in ["after step 12, 15 tokens", " previous ", " duplicate ", "induction", "entropy", "all alike"] {
        assert!(table.contains(word), "{table}");
    }
    let longest = table.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest} columns\n{table}");
    // Without its tokenizer and its corpus, a run still takes numbers.
    fs::remove_file(lab.folder().tokenizer()).unwrap();
    fs::rename(folder.path().join("corpus.txt"), folder.path().join("away.txt")).unwrap();
    let (code, said) = answer(lab.exp(&["attention", &id, "--prompt", "so"]).output().unwrap());
    assert!(code == Some(3) && said.contains("looking for the tokenizer") && said.contains("corpus.txt"), "{said}");
    assert_eq!(json(&["--ids", "1,2,3"])["tokens"].as_array().unwrap().len(), 3);
}

#[test]
fn a_prompt_that_the_model_cannot_read_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, id) = trained(&folder);
    for (options, code, words) in [
        (&["--prompt", "the sea, the sea, the sea"][..], 2, &["25 tokens", "context is 16", "leave out 9"][..]),
        (&["--prompt", ""], 2, &["it is empty", "hint: attention needs a token that looks"]),
        (&["--prompt", "a"], 2, &["it is one token", "hint: attention needs a token that looks"]),
        (&["--ids", "1"], 2, &["it is one token"]),
        (&["--prompt", "so", "--out", "x.jpg"], 2, &["x.jpg", "ends in .png"]),
        (&["--prompt", "so", "--out", "png"], 2, &["ends in .png"]),
        (&["--prompt", "¿que?"], 2, &["no character '¿'"]),
        (&["--ids", "0,1000"], 2, &["the model has no token 1000"]),
        (&["--prompt", "a", "--layer", "2"], 2, &["layer 2", "it has 2 layers", "the last one is 1"]),
        (&["--prompt", "a", "--head", "2"], 2, &["head 2", "it has 2 heads"]),
        (&["--prompt", "a", "--checkpoint", "7"], 2, &["no checkpoint after step 7"]),
        (&["--prompt-file", "nowhere.txt"], 2, &["nowhere.txt: there is no such file"]),
        (&["--prompt", "a", "--ids", "1"], 2, &["cannot be used with"]),
        (&[], 2, &["--prompt"]),
    ] {
        let (exit, said) = answer(lab.exp(&[&["attention", &id], options].concat()).output().unwrap());
        assert_eq!(exit, Some(code), "{options:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{options:?}: {said}");
    }
    assert!(!folder.path().join("reports/attention").exists());
    let capital = folder.path().join("X.PNG");
    let two = lab.exp(&["attention", &id, "--prompt", "so", "--out", capital.to_str().unwrap()]).output().unwrap();
    assert!(two.status.success() && capital.exists(), "{}", String::from_utf8_lossy(&two.stderr));
}
