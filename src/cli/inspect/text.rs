//! What `exp inspect` shows of models, as tables for a terminal of 80 columns.

use super::Subject;
use crate::{
    spec::{
        config::{EngineKind, ModelConfig, Position},
        leaf,
    },
    ui::{
        format,
        table::{self, numbers, words},
    },
};

/// Everything of one model.
pub fn whole(s: &Subject) -> String {
    [head(s), parameters(s), flops(s), memory(s), positions(s)].join("\n")
}

/// Several models, a line each, with the settings of the sweep in which they differ.
pub fn compared(subjects: &[Subject], axes: &[String]) -> String {
    let differ = |path: &&String| {
        let value = |s: &Subject| leaf::find(path).map(|leaf| leaf.get(&s.config));
        subjects.iter().any(|s| value(s) != value(&subjects[0]))
    };
    let axes: Vec<&String> = axes.iter().filter(differ).collect();
    let mut columns: Vec<_> = format::headings(&axes, &[]).into_iter().map(numbers).collect();
    columns.extend(["params", "in layers", "FLOPs/token", "cache/token", "training"].map(numbers));
    let row = |s: &Subject| {
        let leaves = s.config.leaves();
        let mut row: Vec<String> =
            axes.iter().map(|path| leaves.get(*path).map_or(String::new(), format::value)).collect();
        row.push(format::count(s.parts.total() as f64));
        row.push(share(s.parts.in_layers(), s.parts.total()));
        row.push(format::count(s.cost.flops_per_token));
        row.push(format::decimal_bytes(s.bytes.cache_per_token));
        row.push(format::decimal_bytes(s.bytes.engine.total));
        row
    };
    table::render(&columns, &subjects.iter().map(row).collect::<Vec<_>>())
}

fn head(s: &Subject) -> String {
    let m = &s.config.model;
    let shared = if m.kv_heads == m.heads { String::new() } else { format!(", {} of keys and values", m.kv_heads) };
    [
        ("model", s.name.clone()),
        ("layers", format!("{}, each of {} heads{shared}", m.layers, m.heads)),
        ("widths", format!("d_model {}, d_ff {}, a head {}", m.d_model, m.d_ff, m.d_model / m.heads)),
        ("block", block(m)),
        (
            "tokens",
            format!("{} distinct, {} of context", format::grouped(s.vocab as u64), format::grouped(m.context as u64)),
        ),
    ]
    .map(|(name, value)| format!("{name:<9}{value}\n"))
    .concat()
}

fn block(m: &ModelConfig) -> String {
    let positions = match m.position {
        Position::Learned => "learned positions".to_owned(),
        Position::Rope => format!("rope (theta {})", m.rope_theta),
        Position::Sinusoidal => "sinusoidal positions".to_owned(),
        Position::None => "no positions".to_owned(),
    };
    let mut words = vec![m.norm.word().to_owned(), positions, m.mlp.word().to_owned()];
    words.extend(m.qk_norm.then(|| "normed queries and keys".to_owned()));
    words.push(if m.bias { "biases" } else { "no biases" }.to_owned());
    words.push(if m.tie_embeddings { "tied head" } else { "a head of its own" }.to_owned());
    words.join(", ")
}

fn parameters(s: &Subject) -> String {
    let (p, l) = (&s.parts, &s.parts.layer);
    let (all, of_layer) = (p.total(), l.total());
    let row = |name: &str, n: u64| vec![name.to_owned(), format::grouped(n), share(n, all), String::new()];
    let within = |name: &str, n: u64| {
        let mut row = row(name, n);
        row[3] = share(n, of_layer);
        row
    };
    let mut rows = vec![row("embedding", p.embedding()), row("  tokens", p.tokens)];
    rows.extend((p.positions > 0).then(|| row("  positions", p.positions)));
    rows.extend([
        row("layers", p.in_layers()),
        within(&format!("  one of {}", p.layers), of_layer),
        within("    attention", l.attention()),
        within("      queries", l.query),
        within("      keys", l.key),
        within("      values", l.value),
        within("      output", l.output),
        within("    feed-forward", l.feed_forward),
        within("    norms", l.norms),
        row("final norm", p.final_norm),
    ]);
    rows.extend((p.head > 0).then(|| row("head", p.head)));
    rows.push(row("all", all));
    table::render(&[words("parameters"), numbers("number"), numbers("of all"), numbers("of a layer")], &rows)
}

fn flops(s: &Subject) -> String {
    let m = &s.config.model;
    let row = |name: &str, formula: &str, n: f64| vec![name.to_owned(), formula.to_owned(), format::count(n)];
    let step = s.config.tokens_per_step();
    let rows = [
        row("forward", "2·N + 4·L·D·T", s.cost.forward_flops_per_token()),
        row("forward and backward", "6·N + 12·L·D·T", s.cost.flops_per_token),
        row(&format!("a step of {} tokens", format::grouped(step)), "", s.cost.flops_per_token * step as f64),
    ];
    let table = table::render(&[words("FLOPs a token"), words("reckoned as"), numbers("FLOPs")], &rows);
    let n = format::count(s.cost.params_without_positions as f64);
    let (l, d, t) = (m.layers, m.d_model, m.context);
    format!("{table}N = {n} parameters without positions, L = {l} layers, D = {d}, T = {t}\n")
}

fn memory(s: &Subject) -> String {
    let (b, m) = (&s.bytes, &s.config.model);
    let dtype = s.config.train.dtype.word();
    let width = if dtype == "f32" { 4 } else { 2 };
    let row = |name: &str, formula: &str, n: u64| {
        vec![name.to_owned(), formula.to_owned(), format::grouped(n), format::decimal_bytes(n)]
    };
    let mut rows = vec![
        row("weights", "4·P", b.weights),
        row("gradients", "4·P", b.gradients),
        row("optimizer", "8·P", b.optimizer),
    ];
    rows.extend(match b.engine.engine {
        EngineKind::Tape => vec![
            row("sums of gradients", "8·P", b.engine.gradient_sums),
            row("activations", "about, by tape", b.engine.activations),
            row("training by tape", "the sum of these", b.engine.total),
        ],
        _ => vec![
            row("workspace of cpu", "activations, 1 thread", b.engine.activations),
            row("training by cpu", "the sum of these", b.engine.total),
        ],
    });
    if let Some(tape) = &b.tape {
        rows.push(row("  by tape instead", "about", tape.total));
        rows.push(row("    activations", "about", tape.activations));
    }
    rows.extend((width == 2).then(|| row(&format!("weights in {dtype}"), "2·P", b.weights_in_dtype)));
    rows.extend([
        row("logits", &format!("{width}·B·T·V"), b.logits),
        row("KV cache, a token", &format!("{width}·2·L·K·W"), b.cache_per_token),
        row("  a context", "·T", b.cache_per_sequence),
        row("  a batch", "·B", b.cache),
    ]);
    let table = table::render(&[words("memory"), words("reckoned as"), numbers("bytes"), numbers("")], &rows);
    let (batch, t, heads, head) = (s.config.train.batch, m.context, m.kv_heads, m.d_model / m.heads);
    let (p, v) = (format::count(s.parts.total() as f64), format::grouped(s.vocab as u64));
    let all = format!("P = {p} parameters, B = {batch} sequences of T = {t} tokens in {dtype}");
    format!("{table}{all}\nV = {v} tokens, K = {heads} heads of keys and values, each of W = {head}\n")
}

fn positions(s: &Subject) -> String {
    let tokens = if s.new == 1 { "token" } else { "tokens" };
    let title = format!("to generate {} {tokens} after {}", format::grouped(s.new), format::grouped(s.prompt));
    let rows = [("with a cache", s.passes.with_cache), ("without", s.passes.without_cache)]
        .map(|(name, n)| vec![name.to_owned(), format::grouped(n)]);
    let table = table::render(&[words(title), numbers("positions forward")], &rows);
    let context = s.config.model.context as u64;
    if s.prompt + s.new > context {
        return table + &format!("more than the context of {}: the window would slide\n", format::grouped(context));
    }
    table
}

/// `31.6 %`, for a part of a whole.
fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}
