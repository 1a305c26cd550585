//! Colours of output on a terminal, unless `NO_COLOR` is set.

use std::io::IsTerminal;

/// Painter that colours text, or returns it unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_enabled: bool,
}

impl Paint {
    /// Returns a painter for standard output. It uses no colours in files and pipes, with
    /// `NO_COLOR` (<https://no-color.org>), or on a terminal without colours.
    pub fn of_stdout() -> Paint {
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        let is_wanted = variable("NO_COLOR").is_empty() && variable("TERM") != "dumb";
        Paint { is_enabled: is_wanted && std::io::stdout().is_terminal() }
    }

    /// Painter without colours.
    #[cfg(test)]
    pub const OFF: Paint = Paint { is_enabled: false };

    /// Colours a good state.
    pub fn good(self, text: &str) -> String {
        self.code("1;32", text)
    }

    /// Colours a state that needs attention.
    pub fn warning(self, text: &str) -> String {
        self.code("1;33", text)
    }

    /// Colours a state that needs action.
    pub fn bad(self, text: &str) -> String {
        self.code("1;31", text)
    }

    /// Highlights the head of a table or the name of a field.
    pub fn head(self, text: &str) -> String {
        self.code("1", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        match self.is_enabled {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_adds_escape_sequences_only_when_on() {
        assert_eq!(Paint::OFF.bad("NOT READY"), "NOT READY");
        assert_eq!(Paint { is_enabled: true }.bad("NOT READY"), "\x1b[1;31mNOT READY\x1b[0m");
    }
}
