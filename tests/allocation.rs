//! What the CPU engine allocates: exactly what its workspace says, and nothing large once it has taken a step.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use exp::{
    cost::Workspace,
    engine::{Batch, Engine, Place, Update, cpu::Cpu},
    spec::{
        RunConfig,
        config::{Mlp, Norm, Optimizer, Position},
    },
};

/// The system's allocator, counted.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Names, offsets, threads and queues, which the workspace does not count.
const BOOKKEEPING: usize = 64 << 10;

fn configs() -> Vec<(RunConfig, usize)> {
    let mut small = RunConfig::default();
    (small.train.batch, small.model.dropout) = (9, 0.1);
    let mut medium = RunConfig::default();
    let m = &mut medium.model;
    (m.layers, m.heads, m.kv_heads, m.d_model, m.d_ff, m.context) = (2, 4, 2, 448, 1800, 80);
    (m.bias, m.tie_embeddings, medium.train.batch) = (false, false, 5);
    let mut large = medium.clone();
    (large.model.d_model, large.model.d_ff, large.train.batch) = (2000, 1800, 2);
    let mut switched = vec![(small.clone(), 65), (medium.clone(), 300), (medium.clone(), 300), (small.clone(), 65)];
    for (i, (c, _)) in switched.iter_mut().enumerate() {
        let m = &mut c.model;
        (m.norm, m.qk_norm) = (Norm::RmsNorm, i != 3);
        m.position = [Position::Rope, Position::Sinusoidal, Position::Rope, Position::None][i];
        m.mlp = [Mlp::SwiGlu, Mlp::Relu2, Mlp::SwiGlu, Mlp::GeluTanh][i];
    }
    let mut muon = medium.clone();
    muon.train.optimizer = Optimizer::Muon;
    let mut all = vec![(small, 65), (medium, 300), (large, 300), (muon, 300)];
    all.extend(switched);
    all
}

/// One test, since others beside it would be counted too.
#[test]
fn the_workspace_is_what_is_allocated_and_a_step_allocates_nothing_large() {
    for (config, vocab) in configs() {
        for threads in [1, 3] {
            let before = LIVE.load(Relaxed);
            let mut engine = Cpu::new(&config, vocab, threads).unwrap();
            let (got, want) = (LIVE.load(Relaxed) - before, Workspace::of(&config, vocab, threads).bytes as usize);
            assert!((want..want + BOOKKEEPING).contains(&got), "{got} bytes allocated, {want} in the workspace");
            let batch = Batch::zeros(config.train.batch, config.model.context);
            for step in 1..=3 {
                LARGEST.store(0, Relaxed);
                engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
                engine.update(&config.train, Update { step, lr: 1e-3 }).unwrap();
                engine.loss(&batch).unwrap();
                let largest = LARGEST.load(Relaxed);
                assert!(step == 1 || largest <= 64 << 10, "step {step} allocates {largest} bytes at once");
            }
        }
    }
}
