//! `report.html` in a real browser, where there is one: `chromium` on the path, or what `EXP_TEST_CHROMIUM` names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use exp::{base::folders::Root, report};
use serde_json::{Value, json};

use super::{PNG, sweep, text};

/// The browser; says that the test is skipped where there is none, or none that works.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("EXP_TEST_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| std::env::split_paths(&path).map(|p| p.join("chromium")).find(|p| p.is_file()));
    if found.is_none() {
        println!("skipped: there is no chromium on the path and EXP_TEST_CHROMIUM names none");
    }
    let works = |browser: &PathBuf| {
        let blank = tempfile::tempdir().unwrap();
        let page = blank.path().join("blank.html");
        fs::write(&page, "<p>it works</p>").unwrap();
        let (document, said) = open(browser, &page);
        let works = document.contains("it works");
        if !works {
            println!("skipped: {} shows no page: {said}", browser.display());
        }
        works
    };
    found.filter(works)
}

/// The document that a page has become, and what the browser said of it.
fn open(browser: &Path, page: &Path) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=5000", "--window-size=1200,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// Shows a report in a frame as wide as a phone, uses it as a person would, and writes down what came of it.
const PROBE: &str = r#"
const frame = document.createElement('iframe');
frame.style.cssText = 'width:390px;height:800px;border:0';
window.faults = [];
const watch = '<script>addEventListener("error", (e) => parent.faults.push(e.message));' +
  'console.error = (...words) => parent.faults.push(words.join(" "));<\/script>';
frame.srcdoc = PAGE.replace('<head>', '<head>' + watch);
frame.onload = () => {
  const page = frame.contentDocument;
  const found = { faults: window.faults };
  const part = (name, look) => { try { found[name] = look(); } catch (e) { window.faults.push(name + ': ' + e); } };
  part('width', () => [page.documentElement.scrollWidth, frame.contentWindow.innerWidth]);
  const runs = page.querySelector('#runs table');
  const column = (name) => {
    const at = [...runs.tHead.rows[0].cells].findIndex((cell) => cell.textContent.startsWith(name));
    return { head: runs.tHead.rows[0].cells[at], cells: () => [...runs.tBodies[0].rows].map((row) => row.cells[at].textContent) };
  };
  part('before', () => column('best val loss').cells());
  part('up', () => { column('best val loss').head.querySelector('button').click(); return column('best val loss').cells(); });
  part('down', () => { column('best val loss').head.querySelector('button').click(); return column('best val loss').cells(); });
  part('order', () => column('best val loss').head.getAttribute('aria-sort'));
  const svg = page.querySelector('#loss_vs_depth svg');
  const at = (x, y) => {
    const p = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    return { clientX: p.x, clientY: p.y, bubbles: true, button: 0, pointerType: 'mouse', pointerId: 1 };
  };
  const point = (kind, x, y) => svg.dispatchEvent(new frame.contentWindow.PointerEvent(kind, at(x, y)));
  const mark = () => svg.querySelector('.mark').dataset.at.split(' ').map(Number);
  svg.setPointerCapture = () => {};
  part('value', () => { point('pointermove', ...mark()); return page.getElementById('value').innerText; });
  const words = () => [...svg.querySelectorAll('.ticks text')].map((t) => t.textContent).join(' ');
  part('ticks', words);
  part('zoomed', () => {
    const [x, y] = mark();
    point('pointerdown', x - 5, y + 10); point('pointermove', x + 200, y + 130); point('pointerup', x + 200, y + 130);
    return [words(), Boolean(svg.querySelector('.zoomed')), !page.querySelector('#loss_vs_depth .whole').hidden];
  });
  part('whole', () => { page.querySelector('#loss_vs_depth .whole').click(); return words(); });
  document.title = 'probed';
  document.body.dataset.found = JSON.stringify(found);
};
document.body.append(frame);
"#;

#[test]
fn the_page_works_in_a_browser_from_the_file_system() {
    let Some(browser) = browser() else { return };
    let home = tempfile::tempdir().unwrap();
    let store = sweep(&Root::new(home.path()), &[2, 4, 8], 2, 200, 6);
    let page = text(&report::build(&store, &["sweep"], PNG).unwrap(), "report.html");
    assert!(!page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org/").count());
    assert!(!page.contains("https://"), "a page that asks for something");
    let file = home.path().join("report.html");
    fs::write(&file, &page).unwrap();
    let (document, said) = open(&browser, &file);
    assert!(document.contains("<button type=\"button\" title=\"sort\">"), "its script did not run: {said}");
    assert!(!said.contains("CONSOLE"), "{said}");

    let probe = home.path().join("probe.html");
    let quoted = json!(page).to_string().replace("</", "<\\/");
    fs::write(&probe, format!("<!doctype html><body><script>const PAGE = {quoted};{PROBE}</script>")).unwrap();
    let (document, said) = open(&browser, &probe);
    let found = document.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
    let found = found.unwrap_or_else(|| panic!("the probe found nothing: {said}")).replace("&quot;", "\"");
    let found: Value =
        serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap();
    assert_eq!(found["faults"], json!([]), "{found}");
    let width = |i: usize| found["width"][i].as_u64().unwrap();
    assert!(width(0) <= width(1) && width(1) == 390, "the page scrolls to the side: {}", found["width"]);
    let column = |name: &str| -> Vec<f64> {
        found[name].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().parse().unwrap()).collect()
    };
    let mut sorted = column("before");
    assert!(sorted.len() == 6 && !sorted.is_sorted());
    sorted.sort_by(f64::total_cmp);
    assert_eq!(column("up"), sorted);
    sorted.reverse();
    assert_eq!((column("down"), &found["order"]), (sorted, &json!("descending")));
    let value = found["value"].as_str().unwrap();
    assert!(value.contains("layers: 2") && value.contains("best validation loss:"), "{value}");
    assert_eq!((&found["zoomed"][1], &found["zoomed"][2]), (&json!(true), &json!(true)), "{found}");
    assert_ne!(found["zoomed"][0], found["ticks"], "the ticks stayed as they were");
    assert_eq!(found["whole"], found["ticks"]);
}
