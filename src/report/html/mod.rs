//! `report.html`: the whole report in one file that needs nothing else, in light and dark, on a wide screen and a phone.
//! What moves in it is `page.js`, how it looks `page.css`; both are part of the file.

mod plot;
mod runs;

pub use plot::section;

use std::fmt::Write as _;

use pulldown_cmark::{Event, Options, Parser};

use super::{figure::Figure, findings, frame::Frame, markup::escaped, palette, summary, svg::hex, texts};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page. `figures`: their names and what they show, in order; `sections`: what [`section`] made of each.
pub fn page(frame: &Frame, figures: &[(String, Figure)], sections: &[String]) -> String {
    let title = escaped(&frame.experiment);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"kind\">Experiment</p><h1>{title}</h1></header>\n",
        dark_inks()
    );
    let _ = writeln!(out, "<section class=\"findings\">\n{}</section>", from_markdown(&findings::text(frame)));
    let links: String = figures.iter().map(|(name, figure)| plot::link(name, figure)).collect();
    let _ = writeln!(
        out,
        "<nav aria-label=\"Contents\">{links}<a href=\"#results\">Results</a><a href=\"#runs\">Runs</a></nav>"
    );
    sections.iter().for_each(|section| out += section);
    let results = from_markdown(&summary::table(frame));
    let _ = writeln!(out, "<section id=\"results\"><h2>Results</h2>\n{results}</section>");
    let _ = writeln!(out, "<section id=\"runs\"><h2>Runs</h2>\n{}</section>", runs::table(frame));
    for text in [summary::without_result(frame), texts::section(frame)] {
        if !text.is_empty() {
            let _ = writeln!(out, "<section>\n{}</section>", from_markdown(&text));
        }
    }
    let _ = write!(
        out,
        "</main>\n<div id=\"value\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

/// HTML of what a report says in Markdown.
fn from_markdown(text: &str) -> String {
    let mut out = String::new();
    let parts = Parser::new_ext(text, Options::ENABLE_TABLES).map(|part| match part {
        Event::Html(markup) | Event::InlineHtml(markup) => Event::Text(markup), // a report has none: it is somebody's text
        part => part,
    });
    pulldown_cmark::html::push_html(&mut out, parts);
    out.replace("<table>", "<div class=\"scroll\"><table>").replace("</table>", "</table></div>")
}

/// The colours of pictures where the page is dark. Those in pictures of print and pixels stay as they are.
fn dark_inks() -> String {
    let mut out = "@media (prefers-color-scheme: dark) {\n".to_owned();
    for (light, dark) in palette::dark() {
        let (light, dark) = (hex(light), hex(dark));
        let _ =
            writeln!(out, "svg [fill=\"{light}\"] {{ fill: {dark} }} svg [stroke=\"{light}\"] {{ stroke: {dark} }}");
    }
    out + "}\n"
}
