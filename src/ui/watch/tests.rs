//! Scenes drawn at the sizes that terminals have, and keys pressed.

use std::sync::Arc;

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};

use super::{
    curve::Curve,
    draw::{draw, plain, text},
    scene::{Detail, Device, Group, Run, Scene},
    view::{Action, Look, View},
};
use crate::{base::RunId, event::RunState};

fn curve(values: impl IntoIterator<Item = f64>) -> Option<Arc<Curve>> {
    let mut curve = Curve::default();
    values.into_iter().zip(1..).for_each(|(value, step)| curve.push(step, value));
    Some(Arc::new(curve))
}

/// A loss that falls from 4 towards 1.
fn falling(steps: u64) -> impl Iterator<Item = f64> {
    (0..steps).map(move |step| 1.0 + 3.0 * (-(step as f64) / 40.0).exp())
}

fn run(n: u8, state: RunState, step: u64) -> Run {
    Run {
        id: RunId([n; 32]),
        state,
        settings: vec![(2 * n).to_string(), n.to_string()],
        step,
        steps: 200,
        train_loss: (step > 0).then_some(1.25),
        best: (step > 0).then_some(1.5 - f64::from(n) / 100.0),
        speed: (step > 0).then_some(12_345.0),
        left: None,
        curve: (step > 0).then(|| curve(falling(step))).flatten(),
    }
}

fn running() -> RunState {
    RunState::Running { slot: "cpu".into(), since: 0 }
}

fn failed() -> RunState {
    RunState::Failed { why: "the loss of step 60 is NaN; a lower learning rate may help".into() }
}

fn group(name: &str, runs: Vec<Run>) -> Group {
    Group {
        name: name.into(),
        is_at_work: true,
        settings: vec!["layers".into(), "seed".into()],
        share: 0.42,
        elapsed: Some(95.0),
        left: Some(260.0),
        runs,
    }
}

/// A sweep in the midst of it.
fn sweep() -> Scene {
    let mut broken = run(3, failed(), 60);
    broken.curve = curve(falling(60).enumerate().map(|(n, loss)| if n == 59 { f64::NAN } else { loss }));
    broken.train_loss = Some(f64::NAN);
    let mut trained = run(2, running(), 120);
    trained.left = Some(75.0);
    let runs = vec![run(1, RunState::Done, 200), trained, broken, run(4, RunState::Queued, 0)];
    let lines = vec!["layers=4 seed=2; cpu of vega, 1 thread, begun 2026-11-29 16:02:11 +01:00".to_owned()];
    let validation = vec![(0, 4.1), (50, 2.1), (100, 1.4)];
    let cpu = Device {
        name: "cpu".into(),
        model: "Threadripper".into(),
        cores: Some(2),
        load: Some(1.5),
        memory: Some((32 << 30, 20 << 30)),
        runs: vec!["020202".into()],
    };
    Scene {
        groups: vec![group("depth_sweep", runs)],
        devices: vec![cpu],
        detail: Some(Detail { id: RunId([2; 32]), lines, validation }),
        digits: 6,
        ..Scene::default()
    }
}

/// What a terminal of that size shows.
fn on_screen(scene: &Scene, view: &mut View, width: u16, height: u16) -> (Buffer, Look) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut look = Look::default();
    terminal.draw(|frame| look = draw(frame.buffer_mut(), scene, view, true)).unwrap();
    (terminal.backend().buffer().clone(), look)
}

fn shown(scene: &Scene, width: u16, height: u16) -> String {
    text(&on_screen(scene, &mut View::new(scene), width, height).0)
}

fn press(view: &mut View, scene: &Scene, keys: &[KeyCode]) -> Option<Action> {
    keys.iter().map(|key| view.key(KeyEvent::new(*key, KeyModifiers::NONE), scene)).last().flatten()
}

#[test]
fn a_sweep_at_usual_sizes() {
    for (width, height) in [(80, 24), (40, 10), (120, 40), (50, 12)] {
        insta::assert_snapshot!(format!("sweep_{width}x{height}"), shown(&sweep(), width, height));
    }
}

#[test]
fn a_curve_is_opened_and_closed() {
    let scene = sweep();
    let mut view = View::new(&scene);
    press(&mut view, &scene, &[KeyCode::Enter]);
    insta::assert_snapshot!("curve_80x24", text(&on_screen(&scene, &mut view, 80, 24).0));
    insta::assert_snapshot!("curve_200x50", text(&on_screen(&scene, &mut view, 200, 50).0));
    assert_eq!(press(&mut view, &scene, &[KeyCode::Esc]), None, "the first Esc closes the curve");
    assert!(!view.is_open);
    assert_eq!(press(&mut view, &scene, &[KeyCode::Esc]), Some(Action::Quit));
}

#[test]
fn several_experiments_have_a_title_each() {
    let mut scene = sweep();
    scene.groups.push(Group { settings: vec!["lr".into()], ..group("lr_sweep", vec![run(7, RunState::Done, 200)]) });
    scene.groups.push(Group { name: String::new(), is_at_work: false, ..group("", vec![run(8, running(), 4)]) });
    insta::assert_snapshot!("several_100x24", shown(&scene, 100, 24));
    insta::assert_snapshot!("several_plain", plain(&scene, 120));
}

#[test]
fn those_that_run_come_first_and_an_unknown_state_last() {
    let scene = sweep();
    let mut view = View::new(&scene);
    let states = |view: &mut View| {
        let text = text(&on_screen(&scene, view, 80, 24).0);
        let words: Vec<String> =
            text.lines().filter_map(|line| line.split_whitespace().find(|w| is_state(w)).map(Into::into)).collect();
        words[words.len() - 4..].to_vec()
    };
    fn is_state(word: &str) -> bool {
        ["running", "queued", "failed", "done"].contains(&word)
    }
    assert_eq!(states(&mut view), ["running", "queued", "failed", "done"]);
    press(&mut view, &scene, &[KeyCode::Char('s')]);
    assert_eq!(states(&mut view), ["done", "running", "failed", "queued"], "the order of the grid");
    press(&mut view, &scene, &[KeyCode::Char('s')]);
    assert_eq!(states(&mut view), ["failed", "running", "done", "queued"], "the lowest loss first");
    let unknown = super::cells::look("hibernating");
    assert!(unknown.rank > super::cells::look("skipped").rank);
}

#[test]
fn nothing_that_steers_a_terminal_gets_into_a_cell() {
    let mut scene = sweep();
    let evil = "\u{1b}[31mred\u{7}\u{9b}2J\r\n\u{202e}x";
    scene.groups[0].name = evil.into();
    scene.groups[0].settings = vec![evil.into(), evil.into()];
    scene.groups[0].runs[1].settings = vec![evil.into(), evil.into()];
    scene.detail.as_mut().unwrap().lines = vec![evil.into()];
    scene.devices[0].runs = vec![evil.into()];
    scene.devices[0].name = evil.into();
    scene.notes = vec![evil.into()];
    for (width, height) in [(80, 24), (200, 50), (30, 8)] {
        let (buffer, _) = on_screen(&scene, &mut View::new(&scene), width, height);
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(buffer.content().iter().all(|cell| !cell.symbol().contains(steers)), "{width}x{height}");
    }
    assert!(shown(&scene, 80, 24).contains(r"\u{1b}[31mred"), "it is shown instead");
    assert!(!plain(&scene, 120).contains('\u{1b}'));
}

#[test]
fn wide_and_long_names_move_nothing() {
    let mut scene = sweep();
    scene.groups[0].name = "春の夜の夢".repeat(12);
    scene.groups[0].runs[0].settings =
        vec!["資治通鑑👩‍🔧é".into(), "a very long value of a setting that has no end in sight at all".into()];
    insta::assert_snapshot!("wide_80x16", shown(&scene, 80, 16));
    insta::assert_snapshot!("wide_44x16", shown(&scene, 44, 16));
}

#[test]
fn no_size_is_too_small() {
    let mut scene = sweep();
    scene.groups.push(group("other", vec![run(9, RunState::Queued, 0)]));
    for width in (1..60).chain([200, 500]) {
        for height in (1..24).chain([60]) {
            for is_open in [false, true] {
                let mut view = View::new(&scene);
                view.is_open = is_open;
                view.is_help = width % 2 == 0;
                let (_, look) = on_screen(&scene, &mut view, width, height);
                assert!(
                    height < 4 || look.visible.contains(&RunId([2; 32])),
                    "{width}x{height}: the selected run is seen"
                );
            }
        }
    }
}

#[test]
fn where_there_are_no_runs_that_is_said() {
    let scene =
        Scene { empty: "no runs under runs yet; `exp run SPEC` makes some".into(), digits: 6, ..Scene::default() };
    let mut view = View::new(&scene);
    let (buffer, look) = on_screen(&scene, &mut view, 80, 24);
    assert!(text(&buffer).contains("no runs under runs yet"), "{}", text(&buffer));
    assert_eq!(look, Look::default());
    let keys = [KeyCode::Down, KeyCode::End, KeyCode::Enter, KeyCode::Char('c')];
    assert_eq!(press(&mut view, &scene, &keys), None);
    assert_eq!(view.asked, None, "nothing is selected");
}

/// So many runs, each with an id of its own, in the order of the grid.
fn many(count: usize) -> Scene {
    let one = |n: usize| Run {
        id: RunId([(n / 256) as u8, (n % 256) as u8].repeat(16).try_into().unwrap()),
        ..run(1, RunState::Queued, 0)
    };
    Scene { groups: vec![group("many", (0..count).map(one).collect())], digits: 6, ..Scene::default() }
}

#[test]
fn of_many_runs_those_on_screen_are_asked_for() {
    let scene = many(300);
    let mut view = View::new(&scene);
    let id = |n: usize| scene.groups[0].runs[n].id;
    let ids = |view: &mut View| on_screen(&scene, view, 80, 24).1;
    let first = ids(&mut view);
    let page = first.visible.len();
    assert!((10..24).contains(&page) && first.selected == Some(id(0)), "{first:?}");
    press(&mut view, &scene, &[KeyCode::End]);
    let last = ids(&mut view);
    assert_eq!((last.visible.last(), last.selected), (Some(&id(299)), Some(id(299))));
    press(&mut view, &scene, &[KeyCode::PageUp]);
    assert_eq!(ids(&mut view).selected, Some(id(299 - (page - 1))));
    press(&mut view, &scene, &[KeyCode::Up]);
    let above = ids(&mut view);
    assert_eq!(above.visible.first(), Some(&id(299 - page)), "the list moves no more than it has to");
    press(&mut view, &scene, &[KeyCode::Char('g'), KeyCode::Char('k'), KeyCode::Char('j')]);
    assert_eq!(ids(&mut view).selected, Some(id(1)));
}

#[test]
fn the_selected_run_stays_selected_whatever_becomes_of_the_order() {
    let mut scene = sweep();
    let mut view = View::new(&scene);
    press(&mut view, &scene, &[KeyCode::Down]);
    let selected = on_screen(&scene, &mut view, 80, 24).1.selected;
    assert_eq!(selected, Some(RunId([4; 32])), "the queued one");
    scene.groups[0].runs[3].state = running();
    scene.groups[0].runs[1].state = RunState::Done;
    view.keep_selected(&scene);
    assert_eq!(on_screen(&scene, &mut view, 80, 24).1.selected, selected);
    scene.groups[0].runs.truncate(3);
    view.keep_selected(&scene);
    assert_eq!(on_screen(&scene, &mut view, 80, 24).1.selected, Some(RunId([3; 32])), "the first there is");
}

#[test]
fn as_long_as_nobody_chooses_the_first_run_is_selected() {
    let mut scene = sweep();
    let mut view = View::new(&scene);
    let selected = |view: &mut View, scene: &Scene| on_screen(scene, view, 80, 24).1.selected;
    assert_eq!(selected(&mut view, &scene), Some(RunId([2; 32])), "what runs");
    (scene.groups[0].runs[1].state, scene.groups[0].runs[3].state) = (RunState::Done, running());
    view.keep_selected(&scene);
    assert_eq!(selected(&mut view, &scene), Some(RunId([4; 32])), "what runs now");
    press(&mut view, &scene, &[KeyCode::Enter]);
    scene.groups[0].runs[3].state = RunState::Done;
    view.keep_selected(&scene);
    assert_eq!(selected(&mut view, &scene), Some(RunId([4; 32])), "whose curve is open");
}

#[test]
fn a_run_of_two_experiments_can_be_passed() {
    let mut scene = sweep();
    scene.groups.push(group("again", scene.groups[0].runs.clone()));
    let mut view = View::new(&scene);
    press(&mut view, &scene, &[KeyCode::Down; 5]);
    let at = view.selected.clone().unwrap();
    assert_eq!(at, ("again".to_owned(), RunId([4; 32])));
    let text = text(&on_screen(&scene, &mut view, 80, 24).0);
    assert_eq!(text.matches('›').count(), 1, "{text}");
}

#[test]
fn a_cancel_asks_first_and_only_yes_is_yes() {
    let scene = sweep();
    let mut view = View::new(&scene);
    let run = RunId([2; 32]);
    assert_eq!(press(&mut view, &scene, &[KeyCode::Char('c')]), None);
    let screen = text(&on_screen(&scene, &mut view, 80, 24).0);
    assert!(screen.contains("cancel 020202? y/n"), "{screen}");
    assert_eq!(press(&mut view, &scene, &[KeyCode::Char('n')]), None);
    for no in [KeyCode::Char('q'), KeyCode::Esc, KeyCode::Enter, KeyCode::Down] {
        assert_eq!(press(&mut view, &scene, &[KeyCode::Char('c'), no]), None, "{no:?} is no");
        assert!(view.asked.is_none() && !view.is_open);
    }
    assert_eq!(press(&mut view, &scene, &[KeyCode::Char('c'), KeyCode::Char('y')]), Some(Action::Cancel(run)));
    assert_eq!(press(&mut view, &scene, &[KeyCode::Char('y')]), None, "it is asked again each time");
}

#[test]
fn help_covers_the_list_and_any_key_closes_it() {
    let scene = sweep();
    let mut view = View::new(&scene);
    press(&mut view, &scene, &[KeyCode::Char('?')]);
    insta::assert_snapshot!("help_80x24", text(&on_screen(&scene, &mut view, 80, 24).0));
    assert_eq!(press(&mut view, &scene, &[KeyCode::Char('q')]), None);
    assert!(!view.is_help);
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    press(&mut view, &scene, &[KeyCode::Char('c')]);
    assert_eq!(view.key(control('c'), &scene), Some(Action::Quit), "whatever is asked");
    assert_eq!(view.key(control('z'), &scene), Some(Action::Suspend));
}

#[test]
fn where_no_colour_is_wanted_there_is_none() {
    let scene = sweep();
    let coloured = |has_colour: bool| {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 80, 24));
        let mut view = View::new(&scene);
        view.is_open = true;
        draw(&mut buffer, &scene, &mut view, has_colour);
        buffer.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(coloured(true) > 0);
    assert_eq!(coloured(false), 0);
}
