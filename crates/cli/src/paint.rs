//! Colours, where people read: on a terminal, unless `NO_COLOR` is set.

use std::io::IsTerminal;

/// Colours a text, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output as it is: no colours in files and pipes, none with `NO_COLOR`
    /// (<https://no-color.org>), none on a terminal that has none.
    pub fn of_stdout() -> Paint {
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        let wanted = variable("NO_COLOR").is_empty() && variable("TERM") != "dumb";
        Paint { on: wanted && std::io::stdout().is_terminal() }
    }

    /// No colours.
    #[cfg(test)]
    pub const OFF: Paint = Paint { on: false };

    /// All is well.
    pub fn good(self, text: &str) -> String {
        self.code("1;32", text)
    }

    /// Something should be looked at.
    pub fn warning(self, text: &str) -> String {
        self.code("1;33", text)
    }

    /// Something must be done.
    pub fn bad(self, text: &str) -> String {
        self.code("1;31", text)
    }

    /// The head of a table, a field's name.
    pub fn head(self, text: &str) -> String {
        self.code("1", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        match self.on {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_colours_is_the_text() {
        assert_eq!(Paint::OFF.bad("NOT READY"), "NOT READY");
        assert_eq!(Paint { on: true }.bad("NOT READY"), "\x1b[1;31mNOT READY\x1b[0m");
    }
}
