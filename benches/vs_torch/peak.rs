//! How fast this machine multiplies matrices at best, right now.

use std::time::Instant;

use exp::kernels::{
    Buffer, Level,
    gemm::{Lhs, Rhs, Start, gemm},
};

/// GFLOP/s of a product of matrices that stay in the cache, on so many threads: the best of some tries.
pub fn gflops(threads: usize) -> f64 {
    let level = Level::detect().expect("a SIMD level");
    (0..5).map(|_| once(level, threads)).fold(0.0, f64::max)
}

fn once(level: Level, threads: usize) -> f64 {
    let (m, n, k, times) = (128, 128, 256, 400);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut a, mut b, mut c) = (Buffer::zeros(m * k), Buffer::zeros(k * n), Buffer::zeros(m * n));
                a.fill(0.5);
                b.fill(0.25);
                for _ in 0..times {
                    gemm(level, [m, n, k], Lhs::rows(&a, k), Rhs::Panels(&b), Start::Zero, &mut c, n);
                }
                assert_eq!(c[0], 32.0);
            });
        }
    });
    (2 * m * n * k * times * threads) as f64 / start.elapsed().as_secs_f64() / 1e9
}
