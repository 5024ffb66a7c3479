//! Figures as text: SVG, the page and the tables of data.

use super::{
    super::{data, files, svg},
    *,
};

/// A frame whose names would be markup, were they not escaped.
fn hostile() -> Frame {
    let path = ("data.path", values(&["<script>alert(1)</script>", "a & \"b\" 'c'"]));
    grid("h<b>&\"", &[path], 2, &[("data.corpus", json!("text"))])
}

fn file(frame: &Frame, formats: &[Format], name: &str) -> String {
    let all = files(frame, formats).unwrap();
    let names: Vec<String> = all.iter().map(|f| f.0.clone()).collect();
    let found = all.into_iter().find(|f| f.0 == name).unwrap_or_else(|| panic!("no {name} in {names:?}"));
    String::from_utf8(found.1).unwrap()
}

/// Elements are closed in the order in which they were opened, and no text holds a bare `<` or `&`.
fn check_markup(text: &str, name: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in text.split('<').skip(1) {
        let (tag, rest) = piece.split_once('>').unwrap_or_else(|| panic!("{name}: a bare < before {piece:.60}"));
        assert!(!rest.contains('>'), "{name}: a bare > in {rest:.60}");
        for entity in rest.split('&').skip(1) {
            assert!(entity.contains(';'), "{name}: a bare & before {entity:.40}");
        }
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}"),
            None if tag.ends_with('/') || tag.starts_with('?') => {}
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "{name}");
}

#[test]
fn every_figure_is_a_whole_svg_with_all_its_words() {
    for (name, frame) in frames().into_iter().chain([("hostile", hostile())]) {
        for (file, figure) in figures(&frame) {
            let text = svg::svg(&figure);
            check_markup(&text, &format!("{name}/{file}"));
            assert!(
                text.contains("font-size=\"34\"") && !["=\"NaN", "MNaN", "LNaN"].iter().any(|bad| text.contains(bad)),
                "{name}/{file}"
            );
            pictures::show(name, &format!("{file}.svg"), text.as_bytes());
        }
    }
}

#[test]
fn names_are_text_in_every_file() {
    let all = files(&hostile(), &[Format::Svg]).unwrap();
    for (name, bytes) in all.iter().filter(|(name, _)| name.ends_with(".svg") || name.ends_with(".html")) {
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(!text.contains("<script>alert") && !text.contains("<b>&\""), "{name}");
        assert!(text.contains("alert(1)"), "{name}");
    }
}

#[test]
fn formats_choose_the_pictures_and_what_the_page_shows() {
    let names = |formats: &[Format]| {
        let all = files(&depths(), formats).unwrap().into_iter().map(|f| f.0);
        all.filter(|name| name.starts_with("loss_vs_depth")).collect::<Vec<_>>()
    };
    assert_eq!(names(PNG), ["loss_vs_depth.csv", "loss_vs_depth.png"]);
    assert_eq!(names(&[Format::Svg]), ["loss_vs_depth.csv", "loss_vs_depth.svg"]);
    assert_eq!(names(&[Format::Svg, Format::Png]).len(), 3);
    assert!(file(&depths(), &[Format::Svg, Format::Png], "summary.md").contains("(loss_vs_depth.svg)"));
}

#[test]
fn the_data_of_a_figure_is_told_point_by_point() {
    let figure = figure(&depths(), "loss_vs_depth");
    let text = data::csv(&figure);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "panel,x_axis,y_axis,series,kind,x,y,low,high");
    let series = &panels(&figure)[0].series[0];
    let ((x, y), (_, low, high)) = (series.points[2], series.band[2]);
    let labels = "layers (log scale),best validation loss (nats per character)";
    assert!(text.contains(&format!(",{labels},,point,{x},{y},{low},{high}\n")), "{text}");
    assert_eq!(lines.iter().filter(|line| line.contains(",value,")).count(), 9);
}

#[test]
fn the_data_of_a_long_curve_keeps_a_spike_and_not_every_step() {
    let text = data::csv(&figure(&spike(), "learning_curves"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() < 2 * 10_000 && lines.iter().any(|line| line.contains(",6554,3.9,")), "{}", lines.len());
}

#[test]
fn the_page_has_every_figure_the_runs_and_the_sentences() {
    let page = file(&depths(), PNG, "report.html");
    for (name, _) in figures(&depths()) {
        assert!(page.contains(&format!("id=\"{name}\"")) && page.contains(&format!("href=\"#{name}\"")), "{name}");
    }
    assert_eq!(page.matches("<td><code title=").count(), 9);
    assert!(page.contains("<strong>8 layers</strong>") && page.contains("prefers-color-scheme: dark"));
    assert!(!page.contains(" src=") && !page.contains("https://"), "the page needs another file");
}
