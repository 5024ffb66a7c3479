//! A scene and a view as cells: what is given up where a terminal is small.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{
    cells::{Cells, dim},
    panels, rows,
    scene::Scene,
    view::{Line, Look, View},
};

/// Where what stands. What has no height is left out.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    head: Rect,
    columns: Rect,
    list: Rect,
    curve: Rect,
    devices: Rect,
    detail: Rect,
    foot: Rect,
}

impl Places {
    fn of(area: Rect, devices: usize, is_open: bool) -> Self {
        let height = area.height;
        let devices = devices as u16;
        let foot = height.min(1);
        let head = if height >= 9 { 2 } else { u16::from(height >= 3) };
        let columns = u16::from(height >= 6);
        // Each with a rule above it.
        let detail = match height {
            0..10 => 0,
            10..14 => 2,
            14..20 => 3,
            _ => 4,
        };
        let devices = match height {
            0..14 => 0,
            14..20 => 1 + devices.min(1),
            20..30 => 1 + devices.min(2),
            _ => 1 + devices.min(8),
        };
        let room = height.saturating_sub(foot + head + columns + detail + devices);
        let list = if is_open { room.min((room / 3).max(2)) } else { room };
        let mut y = area.y;
        let mut take = |height: u16| {
            let place = Rect { y, height, ..area };
            y += height;
            place
        };
        Self {
            head: take(head),
            columns: take(columns),
            list: take(list),
            curve: take(room - list),
            detail: take(detail),
            devices: take(devices),
            foot: take(foot),
        }
    }
}

/// Draws all of it. Returns what of it is looked at.
pub fn draw(buffer: &mut Buffer, scene: &Scene, view: &mut View, has_colour: bool) -> Look {
    let out = &mut Cells::new(buffer, has_colour);
    let places = Places::of(out.area(), scene.devices.len(), view.is_open);
    let lines = view.lines(scene);
    let window = view.window(&lines, places.list.height.into());
    let visible = &lines[window];
    let columns = rows::Columns::fit(scene, places.list.width);
    panels::head(out, places.head, scene);
    if lines.is_empty() {
        out.text(2, places.list.y, places.list.width.saturating_sub(2), &scene.empty, dim());
    } else {
        if places.columns.height > 0 {
            rows::head(out, places.columns, scene, &columns);
        }
        rows::list(out, places.list, visible, view, scene, &columns);
    }
    let selected = lines.iter().find_map(|line| match line {
        Line::Run(_, run) if view.is_selected(line) => Some(*run),
        _ => None,
    });
    let detail = scene.detail.as_ref().filter(|detail| selected.is_some_and(|run| run.id == detail.id));
    if let Some(run) = selected {
        let name = format!("run {}", &run.id.to_string()[..scene.digits.clamp(1, 64)]);
        if let Some(rest) = ruled(out, places.curve, &format!("loss of {name}")) {
            panels::curve(out, rest, run, detail.map_or(&[], |detail| &detail.validation));
        }
        if let Some(rest) = ruled(out, places.detail, &name) {
            detail.into_iter().for_each(|detail| panels::detail(out, rest, detail));
        }
    }
    if let Some(rest) = ruled(out, places.devices, "devices") {
        panels::devices(out, rest, &scene.devices);
    }
    if places.foot.height > 0 {
        panels::foot(out, places.foot, scene, view);
    }
    if view.is_help {
        let above = Rect { height: places.foot.y.saturating_sub(places.columns.y), ..places.columns };
        panels::help(out, above);
    }
    let runs = visible.iter().filter_map(|line| match line {
        Line::Run(_, run) => Some(run.id),
        Line::Title(_) => None,
    });
    Look { visible: runs.collect(), selected: selected.map(|run| run.id) }
}

/// A rule with a title; what is left below it.
fn ruled(out: &mut Cells, area: Rect, title: &str) -> Option<Rect> {
    if area.height < 2 {
        return None;
    }
    out.rule(Rect { height: 1, ..area }, title);
    Some(Rect { y: area.y + 1, height: area.height - 1, ..area })
}

/// A scene as plain text of lines of at most `width` cells, for where there is no terminal.
pub fn plain(scene: &Scene, width: u16) -> String {
    let view = View::default(); // nothing is selected
    let lines = view.lines(scene);
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX - 64).min(u16::MAX - 64);
    let devices = scene.devices.len() as u16;
    let area = Rect::new(0, 0, width, 3 + count.max(1) + 1 + devices);
    let mut buffer = Buffer::empty(area);
    let out = &mut Cells::new(&mut buffer, false);
    let columns = rows::Columns::fit(scene, width);
    panels::head(out, Rect { height: 2, ..area }, scene);
    if lines.is_empty() {
        out.text(0, 2, width, &scene.empty, Style::new());
    } else {
        rows::head(out, Rect { y: 2, height: 1, ..area }, scene, &columns);
        rows::list(out, Rect { y: 3, height: count, ..area }, &lines, &view, scene, &columns);
    }
    let y = 3 + count.max(1);
    if let Some(rest) = ruled(out, Rect { y, height: 1 + devices, ..area }, "devices") {
        panels::devices(out, rest, &scene.devices);
    }
    text(&buffer)
}

/// What stands in cells, a line each, without the blanks at their ends.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            x += super::cells::cells(symbol).max(1) as u16; // a wide one hides the next
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}
