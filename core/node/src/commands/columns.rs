//! Tables of commands.

use comfy_table::{Table, presets};

/// Rows with their cells under each other, two spaces apart. Lines have no spaces at their end.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
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
}
