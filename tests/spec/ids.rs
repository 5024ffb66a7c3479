//! What names a run: golden ids, which stored runs depend on, and what does and does not change them.

use exp::spec::{RunConfig, identity::run_id};

use super::sweep;

#[test]
fn golden_ids() {
    let mut one = RunConfig::default();
    one.run.device = "cpu".into();
    let two = sweep(
        "model: {layers: 4, heads: 4, d_model: 128, context: 128, bias: false}\n\
         train: {batch: 32, steps: 2000, warmup_steps: 100, lr: 1e-3, min_lr: 1e-4, beta2: 0.99, weight_decay: 0.1}\n\
         device: cuda:1\n",
    );
    let three = sweep(
        "data: {corpus: text, path: a.txt, tokenizer: byte}\nlr: 3e-4\neps: 1e-9\nseed: 9007199254740991\ndevice: cpu\n",
    );
    let ids = [
        run_id(&one, None).to_string(),
        run_id(&two.points[0], None).to_string(),
        run_id(&three.points[0], Some("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")).to_string(),
    ];
    assert_eq!(ids, GOLDEN, "every stored run would be lost: a new rule needs a new FORMAT");
}

const GOLDEN: [&str; 3] = [
    "305bc179f8461a618a4aff98fb5e487b5ad44932a91640a57c5e918592bf2dfc",
    "cb56d9b82e28b6deb9d503a95d274e94cc7c3a9963200717278cca591b44aa80",
    "948fd1b137261e1eb173d6f8a6e654f5e6feb56276881a7a245aa79a15a85082",
];

/// A spec of all that the language has, by its ids.
#[test]
fn golden_ids_of_a_sweep() {
    let sweep = sweep(
        "tokens: 1e6\nsamples: 2\nsample_seed: 3\ndevice: cpu\nseeds: 2\n\
         grid:\n  lr: {logspace: [1e-4, 1e-2, 4]}\n  position: [learned, rope]\n  dropout: {uniform: [0, 0.2]}\n\
         blocks:\n  - {when: {position: rope}, grid: {rope_theta: [1e4, 5e5]}, set: {qk_norm: true}}\n\
         derive: {min_lr: lr / 20, d_ff: 3 * d_model}\n\
         exclude: ['lr > 5e-3 and position == rope']\n",
    );
    let ids: Vec<String> = sweep.points.iter().map(|point| run_id(point, None).to_string()).collect();
    assert_eq!((ids.len(), sweep.excluded), (4 * 2 * 2 + 3 * 2 * 2 * 2, 8));
    let all = blake3::hash(ids.concat().as_bytes()).to_hex();
    assert_eq!((&ids[0][..16], all.as_str()), GOLDEN_SWEEP, "every stored sweep would be lost");
}

const GOLDEN_SWEEP: (&str, &str) =
    ("d5157a8ed3af3725", "2cee49b7956b368cb76608a1a46375979ae2b02c227a9aace20eb45bff96337a");

#[test]
fn what_is_written_does_not_matter_but_what_is_meant() {
    let id = |text: &str| run_id(&sweep(text).points[0], None);
    let same = |a: &str, b: &str| assert_eq!(id(a), id(b), "{a:?} and {b:?}");
    let other = |a: &str, b: &str| assert_ne!(id(a), id(b), "{a:?} and {b:?}");
    same("{}", "lr: 1e-3\nmin_lr: 0.0001\nd_ff: 512\nkv_heads: 4\nwarmup_steps: 50\n");
    same("lr: 3e-4", "lr: 0.0003\nmin_lr: 3e-5\n");
    same("steps: 30", "steps: 3e1\ndecay_steps: 30\n");
    same("{}", "checkpoint: {every: 7, keep_last: 1, keep_best: 0}\nrun: {engine: tape, retries: 0, timeout: 5}\n");
    same("experiment: x", "experiment: y");
    same("weight_decay: -0.0", "weight_decay: 0");
    same("{}", "optimizer: adamw\nmomentum: 95e-2\n");
    other("{}", "optimizer: muon");
    other("optimizer: muon", "optimizer: muon\nmomentum: 0.9\n");
    other("{}", "min_lr: 2e-4");
    other("{}", "eval.every: 50");
    other("{}", "device: cpu");
    other("device: cuda", "device: cuda:0");
    other("{}", "init_from: 00ff");
    other("seed: 1", "seed: 2");
    other("data: {corpus: text, path: a}", "data: {corpus: text, path: b}");
    other("tokenizer: byte", "tokenizer: gpt2");
    let file = |name: &str| sweep(&format!("tokenizer: file\ntokenizer_file: {name}\n")).points.remove(0);
    assert_ne!(run_id(&file("a"), None), run_id(&file("b"), None));
    assert_eq!(
        run_id(&file("a"), Some("00ff")),
        run_id(&file("b"), Some("00ff")),
        "the hash is of its content as well"
    );
}
