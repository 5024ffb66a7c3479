//! The two levels of x86-64, in intrinsics: AVX-512 and AVX2 with FMA. Why it is `unsafe` and when it is sound stands in
//! [`super`].

use std::arch::x86_64::*;

use super::{Simd, check_block};

/// Proof that AVX-512 F, VL, DQ and BW may run.
#[derive(Clone, Copy)]
pub struct Avx512(());

/// Proof that AVX2 and FMA may run.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx512 {
    /// # Safety
    /// The machine must have AVX-512 F, VL, DQ and BW.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Avx2 {
    /// # Safety
    /// The machine must have AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

/// Methods whose body is intrinsics. SAFETY of the block: `self` proves that the instructions exist.
macro_rules! methods {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty $body:block)+) => {
        $(#[inline(always)]
        fn $name(self, $($arg: $type),*) -> $ret {
            // SAFETY: a value of this type proves that the machine has the instructions.
            unsafe { $body }
        })+
    };
}

/// Methods that touch memory. Lengths are checked, then the raw access is in bounds.
macro_rules! memory {
    ($load:ident, $store:ident) => {
        #[inline(always)]
        fn load(self, x: &[f32]) -> Self::V {
            assert!(x.len() >= Self::LANES);
            // SAFETY: the slice has LANES numbers.
            unsafe { self.load_at(x.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, v: Self::V, x: &mut [f32]) {
            assert!(x.len() >= Self::LANES);
            // SAFETY: the slice has LANES numbers.
            unsafe { self.store_at(v, x.as_mut_ptr()) }
        }
        #[inline(always)]
        unsafe fn load_at(self, x: *const f32) -> Self::V {
            // SAFETY: the caller's promise; the instruction takes any alignment.
            unsafe { $load(x) }
        }
        #[inline(always)]
        unsafe fn store_at(self, v: Self::V, x: *mut f32) {
            // SAFETY: the caller's promise; the instruction takes any alignment.
            unsafe { $store(x, v) }
        }
        #[inline(always)]
        fn prefetch(self, x: *const f32) {
            // SAFETY: a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(x.cast()) }
        }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const ROWS: usize = 12;

    memory!(_mm512_loadu_ps, _mm512_storeu_ps);

    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::V {
        // SAFETY: the mask lets through as many lanes as the slice has numbers.
        unsafe { _mm512_maskz_loadu_ps(first_lanes(x.len()), x.as_ptr()) }
    }
    #[inline(always)]
    fn store_part(self, v: Self::V, x: &mut [f32]) {
        // SAFETY: the mask lets through as many lanes as the slice has numbers.
        unsafe { _mm512_mask_storeu_ps(x.as_mut_ptr(), first_lanes(x.len()), v) }
    }

    methods! {
        fn splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        fn add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        fn sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        fn mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        fn div(a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        fn max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        fn min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        fn sqrt(a: __m512) -> __m512 { _mm512_sqrt_ps(a) }
        fn abs(a: __m512) -> __m512 { _mm512_abs_ps(a) }
        fn where_positive(x: __m512, a: __m512, b: __m512) -> __m512 {
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_setzero_ps()), b, a)
        }
        fn pow2(n: __m512) -> __m512 { _mm512_scalef_ps(_mm512_set1_ps(1.0), n) }
        fn sum(a: __m512) -> f32 { _mm512_reduce_add_ps(a) }
        fn largest(a: __m512) -> f32 { _mm512_reduce_max_ps(a) }
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], ld: usize, to: &mut [f32], ld_to: usize) {
        check_block(16, from.len(), ld, to.len(), ld_to);
        // SAFETY: the block is in bounds, and `self` proves that the machine has the instructions.
        unsafe {
            let row = |i: usize| _mm512_loadu_ps(from.as_ptr().add(i * ld));
            // Quarter b of quads[4g + c] is column 4b + c of rows 4g and the three after it.
            let mut quads = [_mm512_setzero_ps(); 16];
            for g in 0..4 {
                let [a, b, c, d] = [row(4 * g), row(4 * g + 1), row(4 * g + 2), row(4 * g + 3)];
                let pairs = [_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d)].map(|x| _mm512_castps_pd(x));
                quads[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[0], pairs[1]));
                quads[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[0], pairs[1]));
                let pairs = [_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d)].map(|x| _mm512_castps_pd(x));
                quads[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[0], pairs[1]));
                quads[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[0], pairs[1]));
            }
            for c in 0..4 {
                let even = |g: usize| _mm512_shuffle_f32x4::<0x88>(quads[4 * g + c], quads[4 * g + 4 + c]);
                let odd = |g: usize| _mm512_shuffle_f32x4::<0xdd>(quads[4 * g + c], quads[4 * g + 4 + c]);
                let columns = [
                    _mm512_shuffle_f32x4::<0x88>(even(0), even(2)),
                    _mm512_shuffle_f32x4::<0x88>(odd(0), odd(2)),
                    _mm512_shuffle_f32x4::<0xdd>(even(0), even(2)),
                    _mm512_shuffle_f32x4::<0xdd>(odd(0), odd(2)),
                ];
                for (b, column) in columns.into_iter().enumerate() {
                    _mm512_storeu_ps(to.as_mut_ptr().add((4 * b + c) * ld_to), column);
                }
            }
        }
    }
}

#[inline(always)]
fn first_lanes(n: usize) -> __mmask16 {
    if n >= 16 { u16::MAX } else { (1u16 << n) - 1 }
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const ROWS: usize = 6;

    memory!(_mm256_loadu_ps, _mm256_storeu_ps);

    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::V {
        // SAFETY: the mask lets through as many lanes as the slice has numbers.
        unsafe { _mm256_maskload_ps(x.as_ptr(), lane_mask(x.len())) }
    }
    #[inline(always)]
    fn store_part(self, v: Self::V, x: &mut [f32]) {
        // SAFETY: the mask lets through as many lanes as the slice has numbers.
        unsafe { _mm256_maskstore_ps(x.as_mut_ptr(), lane_mask(x.len()), v) }
    }

    methods! {
        fn splat(x: f32) -> __m256 { _mm256_set1_ps(x) }
        fn add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
        fn sub(a: __m256, b: __m256) -> __m256 { _mm256_sub_ps(a, b) }
        fn mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
        fn div(a: __m256, b: __m256) -> __m256 { _mm256_div_ps(a, b) }
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
        fn max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
        fn min(a: __m256, b: __m256) -> __m256 { _mm256_min_ps(a, b) }
        fn sqrt(a: __m256) -> __m256 { _mm256_sqrt_ps(a) }
        fn abs(a: __m256) -> __m256 { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
        fn where_positive(x: __m256, a: __m256, b: __m256) -> __m256 {
            _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_setzero_ps()))
        }
        fn pow2(n: __m256) -> __m256 {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }
        fn sum(a: __m256) -> f32 {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
        fn largest(a: __m256) -> f32 {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], ld: usize, to: &mut [f32], ld_to: usize) {
        check_block(8, from.len(), ld, to.len(), ld_to);
        // SAFETY: the block is in bounds, and `self` proves that the machine has the instructions.
        unsafe {
            let row = |i: usize| _mm256_loadu_ps(from.as_ptr().add(i * ld));
            // Half b of quads[4g + c] is column 4b + c of rows 4g and the three after it.
            let mut quads = [_mm256_setzero_ps(); 8];
            for g in 0..2 {
                let [a, b, c, d] = [row(4 * g), row(4 * g + 1), row(4 * g + 2), row(4 * g + 3)];
                let pairs = [_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d)].map(|x| _mm256_castps_pd(x));
                quads[4 * g] = _mm256_castpd_ps(_mm256_unpacklo_pd(pairs[0], pairs[1]));
                quads[4 * g + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[0], pairs[1]));
                let pairs = [_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d)].map(|x| _mm256_castps_pd(x));
                quads[4 * g + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(pairs[0], pairs[1]));
                quads[4 * g + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[0], pairs[1]));
            }
            for c in 0..4 {
                let low = _mm256_permute2f128_ps::<0x20>(quads[c], quads[4 + c]);
                let high = _mm256_permute2f128_ps::<0x31>(quads[c], quads[4 + c]);
                _mm256_storeu_ps(to.as_mut_ptr().add(c * ld_to), low);
                _mm256_storeu_ps(to.as_mut_ptr().add((4 + c) * ld_to), high);
            }
        }
    }
}

#[inline(always)]
fn lane_mask(n: usize) -> __m256i {
    let n = n.min(8) as i32;
    // SAFETY: reached from methods of `Avx2` alone.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}
