//! Answers on standard output, as a table or as JSON.
//!
//! A closed reader (`| head`) is no error: the command ends quietly.

use base::Kind;
use program::{Failure, Outcome};
use serde::Serialize;
use std::io::{self, Write};

/// Column at which sentences are broken.
const COLUMNS: usize = 100;

/// Prints text as it is.
pub fn text(text: &str) -> Outcome {
    bytes(text.as_bytes())
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(write_failure)
}

/// Prints an indented JSON document with a newline.
pub fn json(value: &impl Serialize) -> Outcome {
    let json = serde_json::to_string_pretty(value);
    text(&json.expect("an answer of texts and numbers has a JSON form"))?;
    text("\n")
}

/// Returns a text from elsewhere so that nothing in it moves the cursor.
pub fn printable_text(text: &str) -> String {
    base::codec::printable(text.as_bytes())
}

/// Prints a table with a head and aligned columns; the last column is not padded.
pub fn table(head: &[&str], rows: Vec<Vec<String>>) -> Outcome {
    text(&as_table(head, &rows))
}

/// Converts the error of a failed write to standard output. Exits at once if the reader is gone.
pub fn write_failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Failure::new(Kind::Unavailable, format!("can't write to standard output: {error}"))
}

/// Returns a table as text.
pub fn as_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| {
            let gap = width.saturating_sub(cell.chars().count());
            format!("{cell}{}", " ".repeat(gap))
        });
        let joined = padded.collect::<Vec<_>>().join("  ");
        text.push_str(joined.trim_end());
        text.push('\n');
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Breaks a sentence into lines of at most 100 columns, behind a label of `indent` columns.
pub fn wrap(sentence: &str, indent: usize) -> String {
    let (mut text, mut column) = (String::new(), indent - 1);
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column + 1 + length > COLUMNS && column >= indent {
            text.push('\n');
            text.push_str(&" ".repeat(indent - 1));
            column = indent - 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_wraps_with_a_hanging_indent() {
        let words = "word ".repeat(30);
        let text = format!("warning:{}", wrap(words.trim_end(), 9));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with("         word") && lines[0].len() <= 100, "{text}");
        let whole = "x".repeat(200);
        assert_eq!(wrap(&whole, 9), format!(" {whole}\n"), "a word is not broken");
    }

    #[test]
    fn table_columns_are_aligned_without_trailing_blanks() {
        let rows = vec![vec!["a".into(), "é".into()], vec!["long".into(), String::new()]];
        assert_eq!(as_table(&["x", "name"], &rows), "x     name\na     é\nlong\n");
    }
}
