//! Tables of commands.
//!
//! Ours, in place of comfy-table: nothing here needs borders, colours or wrapping at the terminal's width.

/// Rows with their cells under each other, two spaces apart. Lines have no spaces at their end.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut lines = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        lines.push_str(cells.join("  ").trim_end());
        lines.push('\n');
    }
    lines
}
