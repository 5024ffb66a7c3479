//! The kernels at the shapes of the comparison with PyTorch; throughput in operations (products) or numbers (the rest).

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use exp::{
    cost::stride,
    kernels::{
        Buffer, Level,
        adamw::{Rates, adamw},
        attention::{self, Gradient, Heads, Scratch},
        gemm::{Lhs, Rhs, Start, gemm},
        loss, norm,
        pack::{pack_rows, pack_transposed, packed_len},
        pointwise,
    },
};

/// Numbers between -1 and 1.
fn numbers(len: usize) -> Buffer {
    let mut buffer = Buffer::zeros(len);
    buffer.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7919 % 2000) as f32 / 1000.0 - 1.0);
    buffer
}

/// Forward, backward to the input, and backward to the weights of one matrix (n, k) over m rows, and its packing.
fn products(c: &mut Criterion) {
    let level = Level::detect().expect("a SIMD level");
    for [m, n, k] in [[512, 384, 128], [512, 512, 128], [512, 128, 512], [512, 65, 128], [512, 3072, 768]] {
        let mut group = c.benchmark_group(format!("product {m}x{n}x{k}"));
        let (x, dy, w) = (numbers(m * stride(k)), numbers(m * stride(n)), numbers(n * k));
        let (mut y, mut dx, mut dw) = (numbers(m * stride(n)), numbers(m * stride(k)), numbers(n * k));
        let mut packed = Buffer::zeros(packed_len(k, n, level.panel()).max(packed_len(n, k, level.panel())));
        group.throughput(Throughput::Elements(2 * (m * n * k) as u64));
        pack_transposed(level, &w, k, [k, n], &mut packed[..packed_len(k, n, level.panel())], 0);
        group.bench_function("forward", |b| {
            let lhs = Lhs::rows(&x, stride(k));
            b.iter(|| gemm(level, [m, n, k], lhs, Rhs::Panels(&packed), Start::Zero, &mut y, stride(n)));
        });
        group.bench_function("to the input", |b| {
            let lhs = Lhs::rows(&dy, stride(n));
            b.iter(|| gemm(level, [m, k, n], lhs, Rhs::Rows(&w, k), Start::Zero, &mut dx, stride(k)));
        });
        group.bench_function("to the weights", |b| {
            let (lhs, rhs) = (Lhs::transposed(&dy, stride(n)), Rhs::Rows(&x, stride(k)));
            b.iter(|| gemm(level, [n, k, m], lhs, rhs, Start::C, &mut dw, k));
        });
        group.throughput(Throughput::Elements((n * k) as u64));
        group.bench_function("packing", |b| {
            let packed = &mut packed[..packed_len(k, n, level.panel())];
            b.iter(|| pack_transposed(level, &w, k, [k, n], packed, 0));
        });
        group.bench_function("packing as it lies", |b| {
            let packed = &mut packed[..packed_len(n, k, level.panel())];
            b.iter(|| pack_rows(&w, k, [n, k], level.panel(), packed, 0));
        });
    }
}

fn attention_of_one_head(c: &mut Criterion) {
    let level = Level::detect().expect("a SIMD level");
    for (t, w, size) in [(64, 32, 1.0), (256, 32, 1.0), (256, 64, 1.0), (1024, 64, 1.0), (256, 32, 10.0)] {
        let ld = stride(3 * w);
        let mut qkv = numbers(t * ld);
        qkv.iter_mut().for_each(|x| *x *= size);
        let h = Heads { context: t, width: w, group: 1, ld, ldo: stride(w), dropout: None };
        let (mut out, dout, mut d) = (numbers(t * h.ldo), numbers(t * h.ldo), numbers(t * ld));
        let (mut logsum, mut room) = (vec![0.0; t], Scratch::new(w, t));
        let operands = [&qkv[..], &qkv[w..], &qkv[2 * w..]];
        let mut group =
            c.benchmark_group(format!("attention {t}x{w}{}", if size > 1.0 { " to one position" } else { "" }));
        let product = (t * (t + 1) * w) as u64; // up to the diagonal
        group.throughput(Throughput::Elements(2 * product));
        group.bench_function("forward", |b| {
            b.iter(|| attention::forward(level, h, operands, &mut out, &mut logsum, &mut room));
        });
        group.throughput(Throughput::Elements(5 * product));
        group.bench_function("backward", |b| {
            b.iter(|| {
                let into = Gradient { data: &mut d, ld, at: [0, w, 2 * w] };
                attention::backward(level, h, operands, [&out, &dout], &logsum, into, &mut room);
            });
        });
    }
}

fn rows(c: &mut Criterion) {
    let level = Level::detect().expect("a SIMD level");
    let (rows, d, ld) = (512, 128, stride(128));
    let (x, w) = (numbers(rows * ld), numbers(d));
    let (mut y, mut normal, mut dx) = (numbers(rows * ld), numbers(rows * ld), numbers(rows * ld));
    let mut inverse = vec![0.0; rows];
    let mut group = c.benchmark_group("rows of 128");
    group.throughput(Throughput::Elements((rows * d) as u64));
    group.bench_function("layer norm", |b| {
        b.iter(|| norm::layer_norm(level, d, ld, &x, &w, Some(&w), 1e-5, &mut normal, &mut inverse, &mut y));
    });
    group.bench_function("layer norm, backward", |b| {
        b.iter(|| norm::layer_norm_backward(level, d, ld, &x, &normal, &inverse, &w, &mut dx));
    });
    group.bench_function("GELU and its slope", |b| {
        let (x, mut y, mut slope) = (numbers(rows * d), numbers(rows * d), numbers(rows * d));
        b.iter(|| {
            y.copy_from_slice(&x); // GELU of GELU of GELU is 0
            pointwise::gelu_with_slope(level, black_box(&mut y), &mut slope);
        });
    });
    group.bench_function("cross-entropy of 65 tokens", |b| {
        let (mut logits, targets, mut losses) = (numbers(rows * d), vec![7; rows], vec![0.0; rows]);
        b.iter(|| loss::cross_entropy_with_gradient(level, 65, d, &mut logits, &targets, 1.0, &mut losses));
    });
    group.bench_function("AdamW", |b| {
        let r = Rates { clip: 0.5, beta1: 0.9, beta2: 0.99, unbias2: 1.0, eps: 1e-8, step: 1e-3, keep: 0.999 };
        let (mut p, g, mut m, mut v) = (numbers(1 << 16), numbers(1 << 16), numbers(1 << 16), Buffer::zeros(1 << 16));
        b.iter(|| adamw(level, r, &mut p, &g, &mut m, &mut v));
    });
    group.bench_function("AdamW of moments that have faded", |b| {
        let r = Rates { clip: 0.5, beta1: 0.9, beta2: 0.99, unbias2: 1.0, eps: 1e-8, step: 1e-3, keep: 0.999 };
        let (mut p, g) = (numbers(1 << 16), Buffer::zeros(1 << 16));
        let (mut m, mut v) = (Buffer::zeros(1 << 16), Buffer::zeros(1 << 16));
        m.fill(f32::MIN_POSITIVE);
        v.fill(f32::MIN_POSITIVE);
        b.iter(|| adamw(level, r, &mut p, &g, &mut m, &mut v));
    });
}

criterion_group!(benches, products, attention_of_one_head, rows);
criterion_main!(benches);
