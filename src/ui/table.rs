//! Tables in a terminal: columns aligned by spaces, numbers to the right, a rule under the head.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

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

/// The table as text, one line a row, ending in a newline. Lines are never wrapped: they are for `grep` and `cut` too.
pub fn render(columns: &[Column], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.iter().map(|c| visible(&c.heading).replace(['\n', '\t'], " ")))
        .add_rows(rows.iter().map(|row| row.iter().map(|cell| visible(cell).replace(['\n', '\t'], " "))));
    for (column, shown) in columns.iter().zip(table.column_iter_mut()) {
        shown.set_padding((0, 2));
        if column.numeric {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
}
