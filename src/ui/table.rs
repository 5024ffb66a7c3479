//! Tables in a terminal: columns aligned by spaces, numbers to the right, a rule under the head.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::base::visible::visible;

/// A column's heading, and whether its cells are numbers.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    numeric: bool,
}

/// A column of words.
pub fn words(heading: impl Into<String>) -> Column {
    Column { heading: heading.into(), numeric: false }
}

/// A column of numbers.
pub fn numbers(heading: impl Into<String>) -> Column {
    Column { heading: heading.into(), numeric: true }
}

/// What stands between two columns.
const GAP: usize = 3;

/// What is left at least of a last column that a terminal has no room for.
const LEAST: usize = 16;

/// The table as text, one line a row, ending in a newline. Lines are never wrapped: they are for `grep` and `cut` too. In a
/// terminal that is too narrow, words of the last column are cut.
pub fn render(columns: &[Column], rows: &[Vec<String>]) -> String {
    within(columns, rows, super::watch::columns())
}

fn within(columns: &[Column], rows: &[Vec<String>], most: Option<usize>) -> String {
    let heads: Vec<Cow<str>> = columns.iter().map(|column| on_one_line(&column.heading)).collect();
    let mut rows: Vec<Vec<Cow<str>>> =
        rows.iter().map(|row| row.iter().map(|cell| on_one_line(cell)).collect()).collect();
    let widest = |(at, head): (usize, &Cow<str>)| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).fold(head.width(), usize::max)
    };
    let mut widths: Vec<usize> = heads.iter().enumerate().map(widest).collect();
    let line = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(1);
    let excess = most.map_or(0, |most| (line(&widths) + 1 - GAP.min(line(&widths))).saturating_sub(most));
    if let (Some(last), Some(Column { numeric: false, .. })) = (widths.last_mut(), columns.last())
        && excess > 0
    {
        *last = (*last).min(last.saturating_sub(excess).max(LEAST));
        let at = columns.len() - 1;
        rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(|cell| shorten(cell, *last));
    }

    let line = line(&widths);
    let mut text = String::with_capacity((line + 1) * (rows.len() + 2));
    push_row(&mut text, columns, &widths, &heads);
    text.extend((0..most.unwrap_or(line).min(line)).map(|_| '─'));
    text.push('\n');
    for row in &rows {
        push_row(&mut text, columns, &widths, row);
    }
    text
}

/// A cell as it is shown.
fn on_one_line(cell: &str) -> Cow<'_, str> {
    match visible(cell) {
        shown if shown.contains(['\n', '\t']) => Cow::Owned(shown.replace(['\n', '\t'], " ")),
        shown => shown,
    }
}

/// Cuts a cell to a width.
fn shorten(cell: &mut Cow<str>, width: usize) {
    if cell.width() > width {
        let mut kept = String::new();
        for letter in cell.chars() {
            kept.push(letter);
            if kept.width() >= width {
                kept.pop();
                break;
            }
        }
        *cell = Cow::Owned(kept.trim_end().to_owned() + "…");
    }
}

fn push_row(text: &mut String, columns: &[Column], widths: &[usize], cells: &[Cow<str>]) {
    let begin = text.len();
    for ((column, width), cell) in columns.iter().zip(widths).zip(cells) {
        let space = width.saturating_sub(cell.width());
        let (before, after) = if column.numeric { (space, 0) } else { (0, space) };
        push_spaces(text, before);
        text.push_str(cell);
        push_spaces(text, after + GAP);
    }
    text.truncate(begin + text[begin..].trim_end().len());
    text.push('\n');
}

fn push_spaces(text: &mut String, count: usize) {
    text.extend(std::iter::repeat_n(' ', count));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_have_no_trailing_space() {
        let rows = vec![vec!["a".to_owned(), "1.5".into()], vec!["longer".into(), "12.5".into()]];
        let text = render(&[words("run"), numbers("loss")], &rows);
        assert_eq!(text, "run      loss\n───────────────\na         1.5\nlonger   12.5\n");
    }

    #[test]
    fn words_at_the_end_are_cut_where_a_terminal_has_no_room() {
        let why = "failed: the loss of step 16 is nan, 春春 and more of the same";
        let rows = vec![vec!["a".to_owned(), why.into()], vec!["longer".into(), "done".into()]];
        let columns = [words("run"), words("state")];
        let text = within(&columns, &rows, Some(40));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("a        failed: the loss of step 16 is…\nlonger   done\n"), "{text}");
        let narrow = within(&columns, &rows, Some(5));
        assert!(narrow.contains("a        failed: the los…\nlonger   done\n"), "{narrow}");
        for roomy in [None, Some(1000)] {
            assert!(within(&columns, &rows, roomy).contains(&format!("a        {why}\n")));
        }
        assert!(within(&[words("run"), numbers("n")], &rows, Some(5)).contains(why), "numbers are never cut");
    }

    #[test]
    fn a_cell_takes_the_width_that_a_terminal_gives_it_and_one_line() {
        let rows = vec![vec!["春".to_owned(), "x".into()], vec!["a\nb\tc".into(), "\u{1b}[31m".into()]];
        let text = render(&[words("run"), words("")], &rows);
        assert_eq!(text, "run\n────────────────────\n春      x\na b c   \\u{1b}[31m\n");
    }
}
