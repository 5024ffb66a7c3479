//! How fast this machine reads memory: what decoding a large model is bound by.

use std::time::Instant;

use crate::{
    base::Result,
    kernels::{Buffer, Level, pointwise},
};

/// Numbers that are read: more than a processor's caches hold.
const NUMBERS: usize = 1 << 26;

/// Bytes a second that so many threads together read at best.
///
/// # Errors
/// Where `EXP_SIMD` names a level that the machine lacks.
pub fn memory_bandwidth(threads: usize) -> Result<f64> {
    let level = Level::detect()?;
    let mut numbers = Buffer::zeros(NUMBERS);
    numbers.fill(1.0); // pages that were never written are one page of zeros
    let part = NUMBERS.div_ceil(threads.max(1));
    let read = || {
        let begin = Instant::now();
        let total: f64 = std::thread::scope(|scope| {
            let readers = numbers.chunks(part).map(|part| scope.spawn(move || pointwise::sum_of_squares(level, part)));
            let readers: Vec<_> = readers.collect(); // all at work before the first is waited for
            readers.into_iter().map(|reader| reader.join().unwrap_or(0.0)).sum()
        });
        let seconds = begin.elapsed().as_secs_f64();
        // The sum is looked at, or nothing would have to be read.
        if total > 0.0 { (size_of::<f32>() * NUMBERS) as f64 / seconds } else { 0.0 }
    };
    Ok((0..3).map(|_| read()).fold(0.0, f64::max))
}
