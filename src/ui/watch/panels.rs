//! What stands around the list: the head, devices, what there is to say of the selected run, its curve, and the foot.

use ratatui::{
    layout::Rect,
    style::{Color, Modifier, Style},
};

use super::{
    cells::{Cells, bar, bold, cells, dim, look, shown},
    rows::short_loss,
    scene::{Detail, Device, Group, Run, Scene},
    view::View,
};
use crate::ui::format;

/// What is being looked at, how far it is, and how long that takes.
pub fn head(out: &mut Cells, area: Rect, scene: &Scene) {
    let groups: Vec<&Group> = scene.groups.iter().collect();
    let (name, times) = match &groups[..] {
        [] => ("exp watch".to_owned(), String::new()),
        [group] if group.name.is_empty() => ("(no experiment)".to_owned(), times(group)),
        [group] => (group.name.clone(), times(group)),
        several => (format::plural(several.len(), "experiment"), String::new()),
    };
    let room = area.width.saturating_sub(cells(&times) as u16 + 2);
    out.text(area.x, area.y, room, &name, bold());
    out.right(area.x, area.y, area.width, &times, Style::new());
    if area.height < 2 {
        return;
    }
    let works = groups.iter().map(|group| group.share * group.runs.len() as f64).sum::<f64>();
    let share = works / groups.iter().map(|group| group.runs.len()).sum::<usize>().max(1) as f64;
    let wide = if area.width >= 100 { 30 } else { usize::from(area.width) / 6 };
    let y = area.y + 1;
    let mut texts =
        vec![(bar(share, wide), Style::new().fg(Color::Green)), (format!(" {:.0} %   ", share * 100.0), bold())];
    texts.extend(counts(&groups));
    if !groups.is_empty() {
        out.texts(area.x, y, area.width, &texts);
    }
}

/// How many runs stand how.
pub fn counts(groups: &[&Group]) -> Vec<(String, Style)> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for word in groups.iter().flat_map(|group| &group.runs).map(|run| run.state.word()) {
        match counted.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counted.push((word, 1)),
        }
    }
    counted.sort_by_key(|(word, _)| look(word).rank);
    let text = |at: usize, (word, count): &(&str, usize)| {
        let gap = if at > 0 { "  " } else { "" };
        (format!("{gap}{count} {word}"), Style::new().fg(look(word).colour))
    };
    counted.iter().enumerate().map(|(at, counted)| text(at, counted)).collect()
}

/// How long an experiment has taken and will take.
pub fn times(group: &Group) -> String {
    let is_on = group.is_at_work || group.runs.iter().any(|run| run.left.is_some());
    let took = if is_on { "" } else { "took " };
    let elapsed = group.elapsed.map(|seconds| format!("{took}{}", format::duration(seconds)));
    let left = group.left.map(|seconds| format!("~{} left", format::duration(seconds)));
    let waits = group.runs.iter().any(|run| run.state.word() == "queued");
    let idle = (waits && !group.is_at_work).then(|| "no `exp run` at work".to_owned());
    [elapsed, left, idle].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The devices, those first where something runs; as many as there is room for.
pub fn devices(out: &mut Cells, area: Rect, devices: &[Device]) {
    let mut sorted: Vec<&Device> = devices.iter().collect();
    sorted.sort_by_key(|device| device.runs.is_empty());
    let room = usize::from(area.height);
    let names = devices.iter().map(|device| cells(&device.name)).max().unwrap_or(0).min(12) as u16;
    for (n, (device, y)) in sorted.iter().zip(area.y..area.bottom()).enumerate() {
        if n + 1 == room && devices.len() > room {
            let more = devices.len() - n;
            out.text(area.x + 2, y, area.width.saturating_sub(2), &format!("and {more} more devices"), dim());
            return;
        }
        one_device(out, Rect { y, height: 1, ..area }, device, names);
    }
}

fn one_device(out: &mut Cells, row: Rect, device: &Device, names: u16) {
    let mut texts = Vec::new();
    if let Some((total, free)) = device.memory {
        let used = total.saturating_sub(free);
        let share = used as f64 / total.max(1) as f64;
        let full = if share > 0.95 { Style::new().fg(Color::Red) } else { Style::new() };
        texts.push((bar(share, 5), full));
        texts.push((format!(" {} of {} used", format::bytes(used), format::bytes(total)), Style::new()));
    }
    if let Some(load) = device.load {
        let cores = device.cores.map_or(String::new(), |cores| format!(" on {}", format::plural(cores, "core")));
        texts.push((format!("   load {load:.1}{cores}"), Style::new()));
    }
    texts.push(match &device.runs[..] {
        [] => ("   free".to_owned(), dim()),
        some => (format!("   {}", some.join(", ")), Style::new().fg(Color::Green)),
    });
    if row.width >= 120 {
        texts.push((format!("   {}", device.model), dim()));
    }
    out.text(row.x + 2, row.y, names, &device.name, bold());
    let x = 2 + names + 2;
    out.texts(row.x + x, row.y, row.width.saturating_sub(x), &texts);
}

/// What there is to say of the selected run.
pub fn detail(out: &mut Cells, area: Rect, detail: &Detail) {
    let width = usize::from(area.width.saturating_sub(2));
    let lines = detail.lines.iter().flat_map(|line| wrapped(line, width));
    for (line, y) in lines.zip(area.y..area.bottom()) {
        out.text(area.x + 2, y, area.width.saturating_sub(2), &line, Style::new());
    }
}

/// A text in lines of at most so many cells, but for words that are longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in shown(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() || cells(line) + 1 + cells(word) <= width => {
                *line += if line.is_empty() { "" } else { " " };
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The last line: a question, what was said last, or the keys.
pub fn foot(out: &mut Cells, area: Rect, scene: &Scene, view: &View) {
    if let Some(run) = &view.asked {
        let question = format!("cancel {}? y/n ", &run.to_string()[..scene.digits.clamp(1, 64)]);
        let style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD | Modifier::REVERSED);
        out.text(area.x, area.y, area.width, &format!(" {question}"), style);
        return;
    }
    let said = Style::new().fg(Color::Yellow);
    if let Some(text) = &view.message {
        out.text(area.x, area.y, area.width, text, said);
        return;
    }
    let keys = [
        ("q", "quit"),
        ("?", "keys"),
        ("c", "cancel"),
        ("↑↓", "move"),
        ("Enter", if view.is_open { "list" } else { "curve" }),
        ("s", view.sort.word()),
    ];
    // What is to be known as long as it is so leaves room for the most important keys.
    let room = if scene.notes.is_empty() { keys.len() } else { 2 };
    let mut x = 0;
    for (key, what) in &keys[..room] {
        let width = cells(key) + 1 + cells(what);
        if usize::from(x) + width > usize::from(area.width) {
            break;
        }
        let texts = [((*key).to_owned(), bold()), (format!(" {what}"), dim())];
        x += out.texts(area.x + x, area.y, area.width - x, &texts) + 3;
    }
    out.text(area.x + x, area.y, area.width.saturating_sub(x), &scene.notes.join("; "), said);
}

/// What the keys do.
pub fn help(out: &mut Cells, area: Rect) {
    const KEYS: [(&str, &str); 9] = [
        ("↑ ↓  k j", "the run above, below"),
        ("PgUp PgDn", "a page up, down"),
        ("Home End", "the first run, the last"),
        ("Enter", "open and close the curve of the selected run"),
        ("s", "order runs by state, as in the grid, by best loss"),
        ("c", "cancel the selected run, as `exp cancel` does; asks first"),
        ("Ctrl-L", "draw the screen again"),
        ("Ctrl-Z", "suspend; `fg` comes back"),
        ("q  Esc  Ctrl-C", "leave; runs go on"),
    ];
    out.clear(area);
    out.rule(Rect { height: 1, ..area }, "keys");
    for ((key, what), y) in KEYS.iter().zip(area.y + 1..area.bottom()) {
        out.text(area.x + 2, y, 14, key, bold());
        out.text(area.x + 18, y, area.width.saturating_sub(18), what, Style::new());
    }
}

/// The curve of a run: the training loss as a band of dots from the lowest to the highest value of each stretch, and the
/// validation losses.
pub fn curve(out: &mut Cells, area: Rect, run: &Run, validation: &[(u64, f64)]) {
    const LABELS: u16 = 9;
    let Some(curve) = run.curve.as_ref().filter(|curve| curve.last.is_some()) else {
        out.text(area.x + 2, area.y, area.width.saturating_sub(2), "no step yet", dim());
        return;
    };
    if area.height < 2 || area.width < LABELS + 8 {
        return;
    }
    let finite: Vec<(u64, f64)> = validation.iter().copied().filter(|(_, loss)| loss.is_finite()).collect();
    let seen = finite.iter().map(|(_, loss)| (*loss, *loss)).chain(curve.range());
    let Some((low, high)) = seen.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))) else {
        out.text(area.x + 2, area.y, area.width.saturating_sub(2), "no loss was finite", Style::new().fg(Color::Red));
        return;
    };
    let plot = Rect { x: area.x + LABELS, width: area.width - LABELS, height: area.height - 1, ..area };
    let (columns, rows) = (usize::from(plot.width) * 2, usize::from(plot.height) * 4);
    // From the top, in dots.
    let dot = |value: f64| {
        let share = if high > low { (high - value) / (high - low) } else { 0.5 };
        ((share * (rows - 1) as f64).round() as usize).min(rows - 1)
    };
    let stretches = curve.columns(columns);
    let mut bits = vec![0u8; usize::from(plot.width) * usize::from(plot.height)];
    let mut before: Option<(usize, usize)> = None;
    for column in 0..columns {
        let stretch = stretches[column * stretches.len() / columns];
        let Some((least, most)) = stretch.range else { continue };
        let (mut top, mut bottom) = (dot(most), dot(least));
        if let Some((last_top, last_bottom)) = before {
            (top, bottom) = (top.min(last_bottom), bottom.max(last_top)); // without gaps
        }
        before = Some((dot(most), dot(least)));
        for row in top..=bottom {
            const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
            bits[row / 4 * usize::from(plot.width) + column / 2] |= DOTS[column % 2][row % 4];
        }
    }
    for (place, bits) in bits.iter().enumerate().filter(|(_, bits)| **bits > 0) {
        let (x, y) = (place % usize::from(plot.width), place / usize::from(plot.width));
        let braille = char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' ').to_string();
        out.text(plot.x + x as u16, plot.y + y as u16, 1, &braille, Style::new().fg(Color::Cyan));
    }
    let last = curve.last.map_or(1, |(step, _)| step.max(1));
    let place = |step: u64| plot.x + (step.min(last) as f64 / last as f64 * f64::from(plot.width - 1)) as u16;
    for (column, _) in stretches.iter().enumerate().filter(|(_, stretch)| stretch.is_broken) {
        let x = plot.x + (column * usize::from(plot.width) / stretches.len()) as u16;
        out.text(x, plot.y, 1, "×", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
    }
    for (step, loss) in finite {
        out.text(place(step), plot.y + (dot(loss) / 4) as u16, 1, "◆", Style::new().fg(Color::Yellow));
    }
    out.right(area.x, plot.y, LABELS - 1, &short_loss(high), dim());
    out.right(area.x, plot.bottom() - 1, LABELS - 1, &short_loss(low), dim());
    let y = plot.bottom();
    out.text(plot.x, y, 8, "1", dim());
    let key = [
        ("⣿ train loss".to_owned(), Style::new().fg(Color::Cyan)),
        ("   ◆ val loss".to_owned(), Style::new().fg(Color::Yellow)),
    ];
    out.texts(plot.x + plot.width / 2 - (plot.width / 2).min(12), y, 26, &key);
    out.right(plot.x, y, plot.width, &format!("step {last}"), dim());
}
