//! From planned runs to what the queue knows of them.

use std::time::Duration;

use super::{
    Options, PlannedRun, Reason,
    needs::Needs,
    queue::{Standing, Task},
};
use crate::{
    event::RunState,
    exec::device,
    spec::{RunConfig, identity::FrozenRun, leaf},
};

/// A planned run as the queue sees it.
pub fn task(run: &PlannedRun, options: &Options) -> Task {
    let settings = &run.frozen.config.run;
    let from = match run.reason {
        Reason::Interrupted { step } | Reason::Paused { step, .. } => Some(step),
        _ => None,
    };
    let done = from.unwrap_or(0) as f64 / run.frozen.config.train.steps.max(1) as f64;
    Task {
        run: run.frozen.id,
        device: settings.device.clone(),
        flops: run.cost.flops * (1.0 - done),
        bytes: bytes(run),
        retries: settings.retries,
        timeout: settings.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        from,
        failed: match &run.reason {
            Reason::FailedBefore { why } => Some(why.clone()),
            _ => None,
        },
        needs: (!options.force).then(|| Needs::of(&run.frozen.config)),
    }
}

/// What a run needs of its device's memory with one thread, two, and so on, as far as its config tells.
fn bytes(run: &PlannedRun) -> Vec<u64> {
    let FrozenRun { config, vocab_size, .. } = &run.frozen;
    match device::kind(&config.run.device) {
        "cpu" => (1..=device::cores()).map(|threads| run.cost.process_bytes(config, *vocab_size, threads)).collect(),
        _ => vec![run.cost.bytes + device::CONTEXT_BYTES],
    }
}

/// Where it stands at first.
pub fn standing(run: &PlannedRun, options: &Options) -> Standing {
    match &run.reason {
        Reason::Done => Standing::Ended(RunState::Done),
        Reason::Elsewhere => Standing::Elsewhere,
        Reason::Skipped { why } if !options.force => Standing::Ended(RunState::Skipped { why: why.clone() }),
        Reason::Paused { why, .. } if options.search.is_some() => Standing::Paused { why: why.clone() },
        Reason::Skipped { .. } | Reason::Paused { .. } => Standing::Waiting(Duration::ZERO),
        Reason::New | Reason::FailedBefore { .. } | Reason::Interrupted { .. } => Standing::Waiting(Duration::ZERO),
    }
}

/// What a run that has begun keeps of its config though the spec says something else by now: `checkpoint.every = 100`.
/// Where the text lies, and what the scheduler alone looks at, goes by the spec; a preset is but a name.
pub fn kept(began: &RunConfig, asked: &RunConfig) -> Vec<String> {
    const BY_THE_SPEC: [&str; 6] =
        ["data.path", "data.tokenizer_file", "run.retries", "run.timeout", "checkpoint.max_bytes", leaf::PRESET];
    let asked = asked.leaves();
    let differ = began.leaves().into_iter().filter(|(leaf, value)| asked.get(leaf) != Some(value));
    let kept = differ.filter(|(leaf, _)| !BY_THE_SPEC.contains(&leaf.as_str()));
    kept.map(|(leaf, value)| format!("{leaf} = {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}
