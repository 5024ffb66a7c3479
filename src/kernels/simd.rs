//! Vectors of f32 in three widths, and which of them this machine runs: AVX-512, AVX2 with FMA, or plain Rust.
//!
//! A kernel is written once, generic over [`Simd`], and the `kernel!` macro compiles it for
//! each level and picks one at run time. So a plain release build has full speed on every x86-64, and other
//! architectures run the scalar level. The intrinsics stand in `x86` alone.
//!
//! Why `unsafe`: an intrinsic may run only where its instruction exists. The vector types' methods reach them, and a
//! value of [`Avx512`] or [`Avx2`] exists only inside a function that [`Level::detect`] has allowed. Loads and stores
//! check their slices' lengths; the two raw ones are for the inner loop of the matrix product.

use std::sync::OnceLock;

use crate::base::{Error, Exit, Result};

/// A width of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Avx512,
    Avx2,
    Scalar,
}

impl Level {
    /// Plain Rust, which runs anywhere.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// All levels that this machine has, the widest first.
    pub fn available() -> Vec<Self> {
        [Kind::Avx512, Kind::Avx2, Kind::Scalar].into_iter().filter(|k| k.runs_here()).map(Self).collect()
    }

    /// The level that `EXP_SIMD` (`avx512`, `avx2`, `scalar`) names, else the widest that this machine has. Looked up
    /// once. Errors where the word is unknown or the machine lacks the level.
    pub fn detect() -> Result<Self> {
        static LEVEL: OnceLock<Result<Level>> = OnceLock::new();
        LEVEL.get_or_init(|| Self::choose(std::env::var("EXP_SIMD").ok().as_deref())).clone()
    }

    fn choose(word: Option<&str>) -> Result<Self> {
        let all = Self::available();
        let Some(word) = word.filter(|w| !w.is_empty()) else { return Ok(all[0]) };
        all.iter().copied().find(|l| l.name() == word).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|l| l.name()).collect();
            Error::new(Exit::Usage, "reading EXP_SIMD", format!("this machine has no level `{word}`"))
                .hint(format!("use one of {}, or leave it unset", names.join(", ")))
        })
    }

    /// `avx512`, `avx2` or `scalar`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Avx512 => "avx512",
            Kind::Avx2 => "avx2",
            Kind::Scalar => "scalar",
        }
    }

    /// Columns of a tile of the matrix product, and so of a panel of a packed matrix.
    pub fn panel(self) -> usize {
        match self.0 {
            Kind::Avx512 => 2 * 16,
            Kind::Avx2 | Kind::Scalar => 2 * 8,
        }
    }

    pub(super) fn kind(self) -> Kind {
        self.0
    }
}

impl Kind {
    fn runs_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Kind::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && Kind::Avx2.runs_here()
            }
            Kind::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Kind::Scalar => true,
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Kind::Scalar)
    }
}

/// A vector type and what kernels do with it. Every method is inlined into the kernel's clone for its level.
pub trait Simd: Copy {
    /// `LANES` numbers.
    type V: Copy;
    /// How many numbers a vector has.
    const LANES: usize;
    /// Rows of a tile of the matrix product: as many as the registers hold accumulators for.
    const ROWS: usize;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// The first `LANES` numbers. Panics where there are fewer.
    fn load(self, x: &[f32]) -> Self::V;
    /// Writes the first `LANES` numbers. Panics where there are fewer.
    fn store(self, v: Self::V, x: &mut [f32]);
    /// At most `LANES` numbers, then zeros.
    fn load_part(self, x: &[f32]) -> Self::V;
    /// Writes at most `LANES` numbers.
    fn store_part(self, v: Self::V, x: &mut [f32]);
    /// Reads `LANES` numbers.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn load_at(self, x: *const f32) -> Self::V;
    /// Writes `LANES` numbers.
    ///
    /// # Safety
    /// They must be writable.
    unsafe fn store_at(self, v: Self::V, x: *mut f32);
    /// Asks for the cache line at `x`, which need not be valid.
    #[inline(always)]
    fn prefetch(self, x: *const f32) {
        let _ = x;
    }
    /// a + b
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a / b
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a · b + c, rounded once where the machine can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger one.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller one.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// √a
    fn sqrt(self, a: Self::V) -> Self::V;
    /// |a|
    fn abs(self, a: Self::V) -> Self::V;
    /// `a` where `x` is not negative, else `b`.
    fn where_positive(self, x: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// 2ⁿ for whole n in -126..=127.
    fn pow2(self, n: Self::V) -> Self::V;
    /// The sum of the lanes, in an order of the level's own.
    fn sum(self, a: Self::V) -> f32;
    /// The largest lane.
    fn largest(self, a: Self::V) -> f32;
    /// Writes the transpose of a block of `LANES` rows and columns: `to[i · ld_to + j] = from[j · ld + i]`. Panics where
    /// either is too short.
    fn transpose(self, from: &[f32], ld: usize, to: &mut [f32], ld_to: usize);

    /// `len` numbers of `x` from `i` on: a whole vector, or its beginning and zeros.
    #[inline(always)]
    fn get(self, x: &[f32], i: usize, len: usize) -> Self::V {
        if len == Self::LANES { self.load(&x[i..]) } else { self.load_part(&x[i..i + len]) }
    }

    /// Writes `len` numbers to `x` from `i` on.
    #[inline(always)]
    fn put(self, v: Self::V, x: &mut [f32], i: usize, len: usize) {
        if len == Self::LANES { self.store(v, &mut x[i..]) } else { self.store_part(v, &mut x[i..i + len]) }
    }

    /// Calls `f` with the beginning and length of each vector of a row of `width`: of `LANES` but for the last. Closures
    /// need `#[inline(always)]`: one that is not inlined lacks its kernel's instructions and runs ten times slower.
    #[inline(always)]
    fn along(self, width: usize, mut f: impl FnMut(usize, usize)) {
        let whole = width / Self::LANES * Self::LANES;
        (0..whole).step_by(Self::LANES).for_each(|i| f(i, Self::LANES));
        if whole < width {
            f(whole, width - whole);
        }
    }
}

/// Whether `LANES` rows of `LANES` numbers fit.
fn check_block(lanes: usize, from: usize, ld: usize, to: usize, ld_to: usize) {
    assert!(from >= (lanes - 1) * ld + lanes && to >= (lanes - 1) * ld_to + lanes, "a block is too short");
}

/// Plain Rust on eight numbers; the compiler makes SSE2 or NEON of it. No `mul_add`: without FMA it is a library call.
#[derive(Clone, Copy)]
pub struct Scalar;

impl Simd for Scalar {
    type V = [f32; 8];
    const LANES: usize = 8;
    const ROWS: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; 8]
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> Self::V {
        std::array::from_fn(|i| x[i])
    }
    #[inline(always)]
    fn store(self, v: Self::V, x: &mut [f32]) {
        x[..8].copy_from_slice(&v);
    }
    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::V {
        std::array::from_fn(|i| x.get(i).copied().unwrap_or(0.0))
    }
    #[inline(always)]
    fn store_part(self, v: Self::V, x: &mut [f32]) {
        x.iter_mut().zip(v).for_each(|(x, v)| *x = v);
    }
    #[inline(always)]
    unsafe fn load_at(self, x: *const f32) -> Self::V {
        // SAFETY: the caller's promise; an array of f32 may be read wherever f32s may.
        unsafe { x.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_at(self, v: Self::V, x: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { x.cast::<[f32; 8]>().write_unaligned(v) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn sqrt(self, a: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].sqrt())
    }
    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].abs())
    }
    #[inline(always)]
    fn where_positive(self, x: Self::V, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if x[i] >= 0.0 { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        std::array::from_fn(|i| f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    fn largest(self, a: Self::V) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    fn transpose(self, from: &[f32], ld: usize, to: &mut [f32], ld_to: usize) {
        check_block(8, from.len(), ld, to.len(), ld_to);
        for i in 0..8 {
            for j in 0..8 {
                to[i * ld_to + j] = from[j * ld + i];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86;

/// Declares a kernel: a function whose body is generic over a [`Simd`] value, compiled once per level. The function
/// takes the [`Level`] first, then the arguments as written.
macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($simd:ident $(, $arg:ident: $type:ty)* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(level: $crate::kernels::Level, $($arg: $type),*) $(-> $ret)? {
            #[inline(always)]
            fn generic<S: $crate::kernels::simd::Simd>($simd: S, $($arg: $type),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
            fn avx512($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function's own features are those that the value stands for.
                generic(unsafe { $crate::kernels::simd::Avx512::new() }, $($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function's own features are those that the value stands for.
                generic(unsafe { $crate::kernels::simd::Avx2::new() }, $($arg),*)
            }

            match level.kind() {
                // SAFETY: a `Level` other than scalar is only made where the machine has it.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::simd::Kind::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::simd::Kind::Avx2 => unsafe { avx2($($arg),*) },
                _ => generic($crate::kernels::simd::Scalar, $($arg),*),
            }
        }
    };
}
pub(crate) use kernel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_an_error_and_each_level_here_can_be_forced() {
        for level in Level::available() {
            assert_eq!(Level::choose(Some(level.name())).unwrap(), level);
        }
        assert_eq!(Level::choose(None).unwrap(), Level::available()[0]);
        let error = Level::choose(Some("sse9")).unwrap_err();
        assert!(error.why.contains("sse9") && error.hint.unwrap().contains("scalar"));
    }

    kernel! {
        fn lanes(s, x: &[f32], y: &mut [f32]) -> (f32, f32) {
            let n = x.len().min(S::LANES);
            let v = s.load_part(&x[..n]);
            let doubled = s.mul_add(v, s.splat(2.0), s.where_positive(v, s.splat(1.0), s.pow2(s.splat(3.0))));
            s.store_part(doubled, &mut y[..n]);
            (s.sum(v), s.largest(v))
        }
    }

    kernel! {
        fn turn(s, from: &[f32], to: &mut [f32]) -> usize {
            s.transpose(from, 20, to, 17);
            S::LANES
        }
    }

    #[test]
    fn each_level_transposes_a_block() {
        for level in Level::available() {
            let from: Vec<f32> = (0..320).map(|i| i as f32).collect();
            let mut to = vec![-1.0; 17 * 16];
            let lanes = turn(level, &from, &mut to);
            for (i, got) in to.iter().enumerate() {
                let (i, j) = (i / 17, i % 17);
                let want = if i < lanes && j < lanes { from[j * 20 + i] } else { -1.0 };
                assert_eq!(*got, want, "{level:?} {i} {j}");
            }
        }
    }

    #[test]
    fn each_level_loads_parts_and_computes_lane_by_lane() {
        for level in Level::available() {
            let (x, mut y) = ([3.0, -1.0, 2.0], [9.0; 5]);
            assert_eq!(lanes(level, &x, &mut y), (4.0, 3.0), "{level:?}");
            assert_eq!(y, [7.0, 6.0, 5.0, 9.0, 9.0], "{level:?}");
        }
    }
}
