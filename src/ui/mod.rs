//! The only place that prints. Results go to standard output, progress and notes to standard error; colour and bars only
//! where standard error is a terminal and `NO_COLOR` is not set.

pub mod format;
pub mod progress;
pub mod screen;
pub mod table;
pub mod watch;

use std::{
    io::{ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::base::{Error, visible::visible};

/// Whether results could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether some result could not be written to standard output.
pub fn has_lost_output() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes results to standard output. A reader that has gone away (`exp ls | head -1`) is no error.
pub fn print(text: &str) {
    try_print(text);
}

/// As [`print()`]; `false` where nobody reads any more, or nothing can be written: who goes on, works in vain.
pub fn try_print(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    let Err(e) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return true };
    if e.kind() != ErrorKind::BrokenPipe {
        LOST.store(true, Ordering::Relaxed);
        note(&format!("standard output cannot be written: {e}"));
    }
    false
}

/// Writes a value as indented JSON to standard output.
pub fn print_json(value: &serde_json::Value) {
    print(&format!("{value:#}\n"));
}

/// Writes a line for people to standard error, or leaves it to the live view where that has the terminal.
pub fn note(line: &str) {
    if !watch::said_instead(line) {
        show(&visible(line));
    }
}

/// The same with colours.
fn show(line: &str) {
    // Nothing is left to tell where even standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Asks a person; `None` where nobody can be asked, since standard input or standard error is no terminal. Whoever says
/// nothing, or anything but yes, says no.
pub fn ask(question: &str) -> Option<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let _ = write!(std::io::stderr().lock(), "{} [y/N] ", visible(question));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Some(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Shows an error as every command ends with it: what was being done, why it failed, what to do.
pub fn error(e: &Error) {
    watch::yield_terminal().iter().for_each(|line| note(line));
    show(&paint(Colour::Red, "error: ", &visible(&e.to_string())));
    if let Some(hint) = &e.hint {
        show(&paint(Colour::Cyan, "hint: ", &visible(hint)));
    }
}

/// The colours that words in front of a line may have.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// For errors.
    Red,
    /// For hints.
    Cyan,
}

/// A line whose first word is bold and coloured where standard error takes colour.
fn paint(colour: Colour, word: &str, rest: &str) -> String {
    let code = match colour {
        Colour::Red => 31,
        Colour::Cyan => 36,
    };
    if is_fancy() { format!("\x1b[1;{code}m{word}\x1b[0m{rest}") } else { format!("{word}{rest}") }
}

/// Whether bars and colour may be shown on standard error.
pub fn is_fancy() -> bool {
    std::io::stderr().is_terminal() && has_colour()
}

/// Whether a terminal may be shown colour.
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
