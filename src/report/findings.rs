//! What an experiment found, in sentences whose numbers all come from its rows, with the caution that few seeds ask for.

use std::collections::BTreeSet;

use super::{
    curves::Curves,
    frame::{Frame, LeftOut, PRESET, Run, Setting, Unit},
    insights,
    markdown::escaped,
    names::{self, setting},
    numbers::{extent, mean, median, rounded, several, value, with_spread},
    pace,
    plots::title,
    star::{self, Change, untied},
    welch::{Difference, difference},
};
use crate::{base::RunId, spec::config::Schedule};

/// Changes from a base that are told one by one.
const MAX_TOLD: usize = 8;

/// Values of an axis that a sentence lists one by one.
const MAX_LISTED: usize = 5;

/// A setting with the results of its runs that are done.
struct Scored<'a> {
    setting: Setting<'a>,
    losses: Vec<f64>,
}

/// One paragraph on how it went and what came out best, and a list of what is behind it.
pub fn text(frame: &Frame) -> String {
    let mut scored: Vec<Scored> = frame
        .settings()
        .into_iter()
        .map(|setting| Scored { losses: setting.runs.iter().filter_map(|r| frame.result(r).ok()).collect(), setting })
        .filter(|s| !s.losses.is_empty())
        .collect();
    scored.sort_by(|a, b| mean(&a.losses).total_cmp(&mean(&b.losses)));
    let Some((best, rest)) = scored.split_first() else {
        return format!("{} The pictures show what there is so far.\n", census(frame));
    };
    let lead = [Some(census(frame)), Some(winner(frame, best, rest.first())), caution(&scored)];
    let lead: Vec<String> = lead.into_iter().flatten().collect();
    let details: Vec<String> = match star::changes(frame) {
        Some(changes) => from_base(frame, &changes),
        None => untied(frame).into_iter().filter_map(|a| along(frame, a, best, &scored)).collect(),
    };
    let details = details
        .into_iter()
        .chain(equal_time(frame, best, &scored))
        .chain(insights::all(frame, &best.setting.at))
        .chain(above_own_cost(frame, best));
    let list: String = details.map(|sentence| format!("- {sentence}\n")).collect();
    format!("{}\n{}{list}", lead.join(" "), if list.is_empty() { "" } else { "\n" })
}

/// How many runs there are and how they ended.
fn census(frame: &Frame) -> String {
    let ended = endings(frame) + &shared(frame) + &unlike(frame);
    match frame.absent {
        0 => ended,
        1 => format!("{ended} One more point of the spec has not been run."),
        n => format!("{ended} {n} more points of the spec have not been run."),
    }
}

/// What differs between experiments that are compared, other than what either varies; empty where nothing does.
fn unlike(frame: &Frame) -> String {
    const MOST: usize = 8;
    let names: BTreeSet<&str> = frame.runs.iter().filter_map(|run| run.experiment.as_deref()).collect();
    if names.len() < 2 {
        return String::new();
    }
    // The value of a leaf that all runs of an experiment share.
    let shared = |name: &str, path: &str| {
        let own = frame.runs.iter().filter(|run| run.experiment.as_deref() == Some(name));
        let values: BTreeSet<String> = own.filter_map(|run| run.leaves.get(path)).map(value).collect();
        if values.len() == 1 { values.into_iter().next() } else { None }
    };
    let differs = |path: &&str| {
        let values: Option<BTreeSet<String>> = names.iter().map(|name| shared(name, path)).collect();
        values.is_some_and(|values| values.len() > 1)
            && ["model.", "data.", "train.", "eval."].iter().any(|part| path.starts_with(part))
    };
    let paths = frame.runs.first().into_iter().flat_map(|run| run.leaves.keys()).map(String::as_str);
    let is_told = |path: &&str| *path == PRESET || frame.axes.iter().any(|axis| axis.path == *path);
    let found: Vec<&str> = paths.filter(|path| !is_told(path)).filter(differs).collect();
    let told = found.iter().take(MOST).map(|path| {
        let values = names.iter().filter_map(|name| Some(format!("{} in {name}", shared(name, path)?)));
        format!("{path} ({})", escaped(&values.collect::<Vec<_>>().join(", ")))
    });
    let more = found.len().saturating_sub(MOST);
    let told = listed(told.chain((more > 0).then(|| format!("{more} more settings"))));
    let texts: BTreeSet<&str> =
        frame.runs.iter().filter_map(|run| run.row.ready.as_ref()).map(|ready| ready.corpus_hash.as_str()).collect();
    let differing =
        if found.is_empty() { String::new() } else { format!(" The experiments differ in {told} besides.") };
    match texts.len() > 1 {
        true => {
            format!("{differing} **They were evaluated on different corpora: the loss on one says little of another.**")
        }
        false => differing,
    }
}

/// That runs stand for several of the experiments that are compared; empty where none does.
fn shared(frame: &Frame) -> String {
    let ids: BTreeSet<RunId> = frame.runs.iter().map(|run| run.row.id).collect();
    match frame.runs.len() - ids.len() {
        0 => String::new(),
        n => format!(
            " Of these {n} {} the same as of another experiment, and {} for both: between them nothing differs.",
            if n == 1 { "is" } else { "are" },
            if n == 1 { "stands" } else { "stand" }
        ),
    }
}

fn endings(frame: &Frame) -> String {
    let settings = frame.settings();
    let fewest = settings.iter().map(|s| s.runs.len()).min().unwrap_or(0);
    let runs = several(frame.runs.len(), "run");
    let whole = match (settings.len(), fewest, frame.seeds()) {
        (1, _, 1) => runs,
        (1, ..) => format!("{runs} that differ in their seed"),
        (_, _, 1) => runs,
        (n, a, b) if a == b => format!("{runs}: {n} settings, {b} seeds each"),
        (n, _, b) => format!("{runs}: {n} settings, up to {b} seeds each"),
    };
    let reasons: Vec<LeftOut> = frame.runs.iter().filter_map(Run::left_out).collect();
    if reasons.is_empty() {
        return format!("{whole}; {} done.", if frame.runs.len() == 1 { "it is" } else { "all are" });
    }
    let count = |keep: fn(&LeftOut) -> bool| reasons.iter().filter(|r| keep(r)).count();
    let parts = [
        (frame.runs.len() - reasons.len(), "done"),
        (count(|r| matches!(r, LeftOut::Failed(_))), "failed"),
        (count(|r| *r == LeftOut::NotFinite), "ended with a loss that is no finite number"),
        (count(|r| *r == LeftOut::Unfinished), "not finished"),
        (count(|r| *r == LeftOut::Paused), "paused by the search"),
        (count(|r| matches!(r, LeftOut::Skipped(_))), "skipped"),
    ];
    let parts: Vec<String> = parts.iter().filter(|p| p.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let rest = if reasons.len() < frame.runs.len() { " What follows rests on the runs that are done." } else { "" };
    format!("{whole}; {}.{rest}{}", parts.join(", "), chosen_seeds(frame))
}

/// The caution that means need where seeds of one setting were chosen by how well they did; empty where none were.
fn chosen_seeds(frame: &Frame) -> String {
    let is_chosen = |setting: &Setting| {
        let is = |reason: Option<LeftOut>| setting.runs.iter().any(|run| run.left_out() == reason);
        is(None) && is(Some(LeftOut::Paused))
    };
    let chosen = frame.settings().iter().filter(|setting| is_chosen(setting)).count();
    match chosen {
        0 => String::new(),
        n => format!(
            " Of {} only the seeds that did best came to an end: what is said of {} is better than all of its seeds would \
             be, and differences from it prove nothing.",
            several(n, "setting"),
            if n == 1 { "it" } else { "each" }
        ),
    }
}

/// The best setting, and how far the next is behind it.
fn winner(frame: &Frame, best: &Scored, next: Option<&Scored>) -> String {
    let unit = frame.unit.words();
    let loss = format!("**{} {unit}**{}", with_spread(&best.losses), of_seeds(best.losses.len()));
    if frame.axes.is_empty() {
        return format!("The lowest validation loss is {loss}.");
    }
    let lead = format!("The lowest validation loss is {loss}, with **{}**", name(frame, best));
    let Some(next) = next else { return format!("{lead}, the only setting that is done.") };
    let gap = mean(&next.losses) - mean(&best.losses);
    let verdict = match difference(&next.losses, &best.losses).and_then(Difference::is_beyond_chance) {
        None => "",
        Some(true) => ", more than seeds alone would make (Welch's t, 5 %)",
        Some(false) => ", which seeds alone can make: the order of these two is open",
    };
    let gap = if gap < 0.01 { format!("{gap:.4}") } else { format!("{gap:.3}") };
    let (name, next_loss) = (name(frame, next), with_spread(&next.losses));
    let pace = insights::pace(&best.setting.runs, (&name, &next.setting.runs));
    format!("{lead}. Next comes {name} with {next_loss}, {gap} higher{verdict}.{pace}")
}

/// ` (mean ± standard deviation over 3 seeds)`.
fn of_seeds(n: usize) -> String {
    if n > 1 { format!(" (mean ± standard deviation over {n} seeds)") } else { String::new() }
}

/// What a setting is called.
fn name(frame: &Frame, scored: &Scored) -> String {
    escaped(&names::name(frame, &scored.setting.at))
}

/// What each change from the base does: those that matter from the best on, then those that seeds could make.
fn from_base(frame: &Frame, changes: &[Change]) -> Vec<String> {
    let Some((base, rest)) = changes.split_first().filter(|(base, _)| !base.losses.is_empty()) else {
        return vec!["The base has no result, so that nothing is compared with it.".to_owned()];
    };
    let digits = star::digits(changes);
    let name = |c: &Change| escaped(&names::name(frame, &c.setting.at));
    let judged = |wanted: Option<bool>| {
        let found = rest.iter().filter_map(|c| Some((c, c.from_base?)));
        found.filter(move |(_, d)| d.is_beyond_chance() == wanted)
    };
    let mut out = vec![format!("{} The base has {}.", escaped(&names::legend(frame)), with_spread(&base.losses))];
    for (i, (change, difference)) in judged(Some(true)).take(MAX_TOLD).enumerate() {
        let verb = if difference.mean < 0.0 { "lower" } else { "raise" };
        let by = star::unsigned(difference, digits);
        let what = if i == 0 { "the loss" } else { "it" };
        let against = if i == 0 { " against the base (±: 95 % confidence interval, Welch's t)" } else { "" };
        let name = name(change);
        out.push(match change.axes {
            1 => format!("**{name}** alone {verb}s {what} by {by}{against}."),
            _ => {
                let sum = one_by_one(frame, change, rest, digits);
                format!("**{name}** together {verb} {what} by {by}{against}{sum}.")
            }
        });
    }
    let more = judged(Some(true)).count().saturating_sub(MAX_TOLD);
    if more > 0 {
        out.push(format!("{} more differ from the base by more than seeds would make: see the table.", more));
    }
    for (wanted, lead) in
        [(Some(false), "No difference that seeds would not make"), (None, "By one seed, so not judged")]
    {
        let parts: Vec<String> =
            judged(wanted).map(|(c, d)| format!("{} ({})", name(c), star::signed(d, digits))).collect();
        let (told, more) = (parts.len().min(MAX_TOLD), parts.len().saturating_sub(MAX_TOLD));
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        if told > 0 {
            out.push(format!("{lead}: {}{rest}.", parts[..told].join(", ")));
        }
    }
    out
}

/// `; one by one they add up to −0.80`: what the changes of a setting do alone, where each was tried and has a result.
fn one_by_one(frame: &Frame, change: &Change, rest: &[Change], digits: usize) -> String {
    let Some(base) = &frame.base else { return String::new() };
    let is_part = |at: &[usize]| at.iter().zip(base).zip(&change.setting.at).all(|((v, b), c)| v == b || v == c);
    let alone = rest.iter().filter(|c| c.axes == 1 && is_part(&c.setting.at));
    let parts: Vec<f64> = alone.filter_map(|c| Some(c.from_base?.mean)).collect();
    if parts.len() < change.axes {
        return String::new();
    }
    let sum: f64 = parts.iter().sum();
    format!("; one by one they add up to {}{:.digits$}", if sum < 0.0 { "−" } else { "+" }, sum.abs())
}

/// How the loss goes along one axis where all others stay at the best setting's values.
fn along(frame: &Frame, axis: usize, best: &Scored, scored: &[Scored]) -> Option<String> {
    let line = on_line(frame, axis, best, scored);
    if line.len() < 2 {
        return None;
    }
    let swept = &frame.axes[axis];
    let place = |s: &Scored| escaped(&value(&swept.values[s.setting.at[axis]]));
    let fixed = others(frame, axis, best);
    let together = (0..frame.axes.len()).filter(|&a| a != axis && frame.is_tied(a, axis));
    let together: String = together.map(|a| format!(" with {}", frame.axes[a].name)).collect();
    let walked = format!("{}{together}", title(swept).0);
    let mut text = if line.len() <= MAX_LISTED {
        let at = if swept.numbers().is_some() { "at" } else { "with" };
        let parts = line.iter().map(|s| format!("{} {at} {}", with_spread(&s.losses), place(s)));
        format!("Over {walked}{fixed}: {}", listed(parts))
    } else {
        let worst = line.iter().max_by(|a, b| mean(&a.losses).total_cmp(&mean(&b.losses)))?;
        format!(
            "Over {walked}{fixed} the loss is lowest at {} and highest, {}, at {}",
            place(best),
            with_spread(&worst.losses),
            place(worst)
        )
    };
    // What pauses was tried, and was behind.
    let paused = frame.runs.iter().filter(|run| run.left_out() == Some(LeftOut::Paused));
    let paused = paused.filter(|run| held(frame, axis).all(|i| run.at[i] == best.setting.at[i]));
    let tried: Vec<usize> = line.iter().map(|s| s.setting.at[axis]).chain(paused.map(|run| run.at[axis])).collect();
    let at_edge = |edge: Option<&usize>| edge == Some(&best.setting.at[axis]);
    let is_number = swept.numbers().is_some() && line.len() > 2;
    if is_number && (at_edge(tried.iter().min()) || at_edge(tried.iter().max())) {
        text += "; the best value is at the edge of those tried";
    }
    if swept.path == "model.layers" {
        text += &step_times(frame, &line);
    }
    Some(text + ".")
}

/// The axes that stay as they are while one is walked along; those that are walked together with it do not.
fn held(frame: &Frame, axis: usize) -> impl Iterator<Item = usize> {
    (0..frame.axes.len()).filter(move |&i| i != axis && !frame.is_tied(i, axis))
}

/// The settings that differ from the best along one axis alone, ascending.
fn on_line<'s, 'a>(frame: &Frame, axis: usize, best: &Scored, scored: &'s [Scored<'a>]) -> Vec<&'s Scored<'a>> {
    let same = |s: &&Scored| held(frame, axis).all(|i| s.setting.at[i] == best.setting.at[i]);
    let mut line: Vec<&Scored> = scored.iter().filter(same).collect();
    line.sort_by_key(|s| s.setting.at[axis]);
    line
}

/// ` (lr 1e-3)`: what stays as it is along an axis.
fn others(frame: &Frame, axis: usize, best: &Scored) -> String {
    let parts: Vec<String> = held(frame, axis).map(|i| setting(&frame.axes[i], best.setting.at[i])).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", escaped(&parts.join(", "))) }
}

/// How much longer a step takes at each depth than at the first.
fn step_times(frame: &Frame, line: &[&Scored]) -> String {
    let ms = |s: &&Scored| -> Option<f64> {
        let all: Vec<f64> = s.setting.runs.iter().filter_map(|r| r.step_time).collect();
        (!all.is_empty()).then(|| median(&all))
    };
    let axis = frame.axis("model.layers").unwrap_or_default();
    let depth = |s: &Scored| value(&frame.axes[axis].values[s.setting.at[axis]]);
    let Some(times) = line.iter().map(ms).collect::<Option<Vec<f64>>>() else { return String::new() };
    let ratios =
        times[1..].iter().zip(&line[1..]).map(|(t, s)| format!("{:.1} times that with {}", t / times[0], depth(s)));
    format!("; a step takes {} ms with {}, {}", rounded(times[0]), depth(line[0]), listed(ratios))
}

/// Where each depth stands when the quickest has done all its steps.
fn equal_time(frame: &Frame, best: &Scored, scored: &[Scored]) -> Option<String> {
    let axis = frame.axis("model.layers")?;
    let line = on_line(frame, axis, best, scored);
    let curves: Vec<Curves> = line.iter().map(|s| Curves::of(frame, &s.setting)).collect::<Option<_>>()?;
    if line.len() < 2 || pace::used(curves.iter().flat_map(|c| c.runs.iter().copied())).len() != 1 {
        return None;
    }
    let ends: Vec<f64> = curves.iter().map(|c| c.seconds().last().map(|s| s.mean)).collect::<Option<_>>()?;
    let (end, _) = extent(&ends);
    let first = ends.iter().position(|&e| e == end)?;
    let then: Vec<f64> = curves.iter().map(|c| loss_after(c, end)).collect::<Option<_>>()?;
    let (lowest, _) = extent(&then);
    let leader = then.iter().position(|&l| l == lowest)?;
    let depth = |i: usize| setting(&frame.axes[axis], line[i].setting.at[axis]);
    let parts = then.iter().enumerate().map(|(i, loss)| format!("{loss:.3} with {}", depth(i)));
    let too = if line[leader].setting.at == best.setting.at { " too" } else { "" };
    let decays = line[0].setting.runs[0].row.config.train.schedule != Schedule::Constant;
    let schedule =
        if decays { ", though the slower ones are then still amid their learning-rate schedule" } else { "" };
    Some(format!(
        "After the {} that training with {} takes in all, the loss is {} (interpolated between evaluations): at equal \
         time it is lowest with {}{too}{schedule}.",
        duration(end),
        depth(first),
        listed(parts),
        depth(leader)
    ))
}

/// The validation loss after some seconds of training: on a straight line over the logarithm of steps between the
/// evaluations before and after. `None` where there is no evaluation but the first before it.
fn loss_after(curves: &Curves, seconds: f64) -> Option<f64> {
    let reached = curves.seconds().partition_point(|s| s.mean <= seconds * (1.0 + 1e-9)).checked_sub(1)?;
    let step = curves.seconds()[reached].step;
    let after = curves.val().partition_point(|s| s.step <= step);
    let before = curves.val()[..after].last().filter(|s| s.step > 0)?;
    let Some(next) = curves.val().get(after) else { return Some(before.mean) };
    let log = |step: u64| (step as f64).ln();
    let share = (log(step) - log(before.step)) / (log(next.step) - log(before.step));
    Some(before.mean + share * (next.mean - before.mean)).filter(|l| l.is_finite())
}

/// How far the best setting is from the corpus's own cost.
fn above_own_cost(frame: &Frame, best: &Scored) -> Option<String> {
    let cost = frame.own_cost()?;
    let gap = mean(&best.losses) - cost;
    let side = if gap < 0.0 { "below" } else { "above" };
    let in_bits = if frame.unit == Unit::BitsPerChar { "bits" } else { "nats" };
    Some(format!(
        "Under its own grammar the corpus costs {cost:.3} {}; the best setting is {:.3} {in_bits} {side} that.",
        frame.unit.words(),
        gap.abs()
    ))
}

/// What few seeds mean.
fn caution(scored: &[Scored]) -> Option<String> {
    match scored.iter().map(|s| s.losses.len()).min()? {
        1 if scored.iter().all(|s| s.losses.len() == 1) => {
            (scored.len() > 1).then(|| "One seed a setting: how far losses scatter by chance is not known, so small differences mean nothing yet.".to_owned())
        }
        1 => Some("Some settings have one seed alone: their scatter is not known.".to_owned()),
        n @ 2..=4 => Some(format!("{n} seeds give but a rough idea of the scatter.")),
        _ => None,
    }
}

/// `a, b and c`.
fn listed(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => parts.concat(),
    }
}

/// `6.6 s`, `3.4 min`, `2.1 h`.
fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::*, *};
    use crate::event::RunState;

    #[test]
    fn seeds_that_were_chosen_by_their_loss_ask_for_caution() {
        let pausing = |which: &[usize]| {
            text(&edited(depths(), |i, run| {
                if which.contains(&i) {
                    run.row.state = RunState::Paused { step: 100, why: "9th of 9".into() };
                }
            }))
        };
        assert!(!pausing(&[0, 1, 2]).contains("seeds that did best"), "all seeds of one setting");
        assert!(pausing(&[0, 4]).contains("Of 2 settings only the seeds that did best came to an end"));
    }

    #[test]
    fn points_that_were_not_asked_for_are_told() {
        let told = |absent| text(&Frame { absent, ..depths() });
        assert!(!told(0).contains("of the spec"));
        assert!(told(1).contains("all are done. One more point of the spec has not been run."));
        assert!(told(3).contains("all are done. 3 more points of the spec have not been run."));
    }

    #[test]
    fn the_paragraph_states_what_the_rows_say() {
        let text = text(&depths());
        for part in [
            "9 runs: 3 settings, 3 seeds each; all are done.",
            "with **8 layers**. Next comes 4 layers",
            "more than seeds alone would make",
            "; a step takes 13.3 ms with 2, 1.8 times that with 4 and 3.5 times that with 8.",
            "s that training with 2 layers takes in all, the loss is 1.761 with 2 layers, 1.8",
            "at equal time it is lowest with 2 layers, though the slower ones",
            "the corpus costs 1.317 nats per character",
            "3 seeds give but a rough idea",
        ] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
    }

    #[test]
    fn one_seed_asks_for_caution() {
        let two = grid("two", &[("model.layers", values(&[2, 8]))], 1, &[]);
        assert!(text(&two).contains("One seed a setting"));
    }

    #[test]
    fn what_is_not_done_is_counted_and_not_judged() {
        let mut frame = depths();
        frame.runs.iter_mut().for_each(|r| cut(r, 200, RunState::Interrupted { step: 200 }));
        let text = text(&frame);
        assert!(text.contains("9 not finished. The pictures show"), "{text}");
        assert!(!text.contains("lowest"), "{text}");
    }
}
