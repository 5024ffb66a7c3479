//! What a person looks at, and what keys do to that. Knows no terminal: keys come in, what is to be done comes out.

use std::{cmp::Ordering, ops::Range};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    cells::look,
    scene::{Group, Run, Scene},
};
use crate::base::RunId;

/// What whoever fills scenes is asked for.
#[derive(Clone, Debug)]
pub enum Order {
    /// These runs are looked at.
    Look(Look),
    /// Stop this run.
    Cancel(RunId),
}

/// What is looked at: no more than that needs to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The runs on screen.
    pub visible: Vec<RunId>,
    /// The run of which more is shown.
    pub selected: Option<RunId>,
}

/// What whoever fills scenes has to say.
#[derive(Debug)]
pub enum News {
    /// How things stand now.
    Scene(Box<Scene>),
    /// Something that a person should know.
    Said(String),
}

/// What is to be done because of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave.
    Quit,
    /// Let the shell have the terminal until it says otherwise.
    Suspend,
    /// Stop this run.
    Cancel(RunId),
    /// Draw all anew.
    Redraw,
}

/// In what order runs stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Those first that run, then those that wait, then the rest.
    #[default]
    State,
    /// As in the spec.
    Grid,
    /// The lowest validation loss first.
    Best,
}

impl Sort {
    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Grid => "grid",
            Self::Best => "best loss",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::State => Self::Grid,
            Self::Grid => Self::Best,
            Self::Best => Self::State,
        }
    }

    fn order(self, a: &Run, b: &Run) -> Ordering {
        let rank = |run: &Run| look(run.state.word()).rank;
        match self {
            Self::State => rank(a).cmp(&rank(b)),
            Self::Grid => Ordering::Equal,
            Self::Best => a.best.unwrap_or(f64::INFINITY).total_cmp(&b.best.unwrap_or(f64::INFINITY)),
        }
    }
}

/// A line of the list.
#[derive(Clone, Copy, Debug)]
pub enum Line<'a> {
    /// An experiment, where there are several.
    Title(&'a Group),
    /// A run of it.
    Run(&'a Group, &'a Run),
}

impl Line<'_> {
    fn key(&self) -> Option<Key> {
        match self {
            Line::Title(_) => None,
            Line::Run(group, run) => Some((group.name.clone(), run.id)),
        }
    }
}

/// A run in a list: one that belongs to several experiments may stand there more than once.
type Key = (String, RunId);

/// What a person looks at.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// In what order runs stand.
    pub sort: Sort,
    /// Whether the selected run's curve is open.
    pub is_open: bool,
    /// Whether the keys are explained.
    pub is_help: bool,
    /// The run that is to be stopped, if the answer is yes.
    pub asked: Option<RunId>,
    /// What was said last; until the next key, or some seconds.
    pub message: Option<String>,
    /// The selected run; none where no one is to be marked.
    pub selected: Option<Key>,
    /// Whether a person has chosen that one; else the first line stays selected, whatever comes to stand there.
    is_chosen: bool,
    /// The first line on screen, and how many there were.
    top: usize,
    height: usize,
}

impl View {
    /// A view for the screen, whose first run is selected.
    pub fn new(scene: &Scene) -> Self {
        let mut view = Self::default();
        view.keep_selected(scene);
        view
    }

    /// The lines of the list in order.
    pub fn lines<'a>(&self, scene: &'a Scene) -> Vec<Line<'a>> {
        let mut lines = Vec::new();
        for group in &scene.groups {
            lines.extend((scene.groups.len() > 1).then_some(Line::Title(group)));
            let mut runs: Vec<&Run> = group.runs.iter().collect();
            runs.sort_by(|a, b| self.sort.order(a, b)); // stable: the rest is the order of the grid
            lines.extend(runs.into_iter().map(|run| Line::Run(group, run)));
        }
        lines
    }

    /// Selects the first run where nobody has chosen one, or that one is no longer there.
    pub fn keep_selected(&mut self, scene: &Scene) {
        let lines = self.lines(scene);
        self.is_chosen &= self.position(&lines).is_some();
        if !self.is_chosen {
            self.selected = lines.iter().find_map(Line::key);
        }
    }

    /// The lines that a list of that height shows: those around the selected one, moved as little as possible.
    pub fn window(&mut self, lines: &[Line], height: usize) -> Range<usize> {
        self.height = height;
        let most = lines.len().saturating_sub(height);
        if let Some(at) = self.position(lines) {
            // The title above the first run of an experiment comes with it.
            let first = at - usize::from(at > 0 && matches!(lines[at - 1], Line::Title(_)) && height > 1);
            self.top = self.top.max((at + 1).saturating_sub(height)).min(first);
        }
        self.top = self.top.min(most);
        self.top..lines.len().min(self.top + height)
    }

    /// Whether a line is the selected one.
    pub fn is_selected(&self, line: &Line) -> bool {
        self.selected.is_some() && line.key() == self.selected
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent, scene: &Scene) -> Option<Action> {
        self.message = None;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Some(Action::Quit),
            KeyCode::Char('z') if is_control => return Some(Action::Suspend),
            KeyCode::Char('l') if is_control => return Some(Action::Redraw),
            _ if is_control => return None,
            _ => {}
        }
        if let Some(run) = self.asked.take() {
            let is_yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
            self.is_chosen &= !is_yes; // it goes to the end of the list, and the view is not to follow it there
            return is_yes.then_some(Action::Cancel(run));
        }
        if std::mem::take(&mut self.is_help) {
            return None;
        }
        let page = self.height.saturating_sub(1).max(1) as isize;
        match key.code {
            KeyCode::Esc if self.is_open => self.is_open = false,
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Char('?' | 'h') => self.is_help = true,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.keep_selected(scene);
            }
            KeyCode::Char('c') => {
                self.asked = self.selected.as_ref().map(|(_, run)| *run);
                self.is_chosen = true;
            }
            KeyCode::Enter => (self.is_open, self.is_chosen) = (!self.is_open, true),
            KeyCode::Up | KeyCode::Char('k') => self.step(scene, -1),
            KeyCode::Down | KeyCode::Char('j') => self.step(scene, 1),
            KeyCode::PageUp => self.step(scene, -page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(scene, page),
            KeyCode::Home | KeyCode::Char('g') => self.step(scene, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(scene, isize::MAX),
            _ => {}
        }
        None
    }

    /// Selects the run that is so many runs further down.
    fn step(&mut self, scene: &Scene, by: isize) {
        let lines = self.lines(scene);
        let runs: Vec<&Line> = lines.iter().filter(|line| line.key().is_some()).collect();
        let at = runs.iter().position(|line| line.key() == self.selected).unwrap_or(0);
        let to = at.saturating_add_signed(by).min(runs.len().saturating_sub(1));
        self.selected = runs.get(to).and_then(|line| line.key());
        self.is_chosen = true;
    }

    fn position(&self, lines: &[Line]) -> Option<usize> {
        lines.iter().position(|line| self.is_selected(line))
    }
}
