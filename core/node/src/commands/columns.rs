//! Tables of commands.

use comfy_table::{CellAlignment, Table, presets};

/// Formats rows as columns, two spaces apart, without trailing spaces.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    shown(table(rows))
}

/// Formats rows of a name and its numbers as columns: all columns but the first are right-aligned.
pub(super) fn numbers_of_names<const N: usize>(rows: &[[String; N]]) -> String {
    let mut table = table(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    shown(table)
}

fn table<const N: usize>(rows: &[[String; N]]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn shown(table: Table) -> String {
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_by_their_width_on_the_terminal() {
        let rows = [["名前", "x"], ["abcd", "y"], ["a", ""]].map(|row| row.map(str::to_owned));

        assert_eq!(aligned(&rows), "名前  x\nabcd  y\na\n");
    }

    #[test]
    fn numbers_are_right_aligned() {
        let rows = [["name", "bytes"], ["trie", "7"]].map(|row| row.map(str::to_owned));

        assert_eq!(numbers_of_names(&rows), "name  bytes\ntrie      7\n");
    }
}
