//! Filter of a query: a regular expression that is to be found in the text of a term.
//!
//! The time to match a term grows with its length alone, whatever the expression: the crate `regex`
//! tracks all matches at once and has neither look-around nor references back. Compiled expressions
//! have a maximum size.

use crate::term::{Term, TermKind};
use base::{Error, Reason, Result};
use regex::bytes::{Regex, RegexBuilder};

/// Maximum number of bytes of a compiled expression, and of its cache.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Regular expression on the text of terms, not anchored.
#[derive(Clone, Debug)]
pub struct TermFilter(Regex);

impl TermFilter {
    /// Compiles an expression. Errors: `malformed`, also if it is too large; `not_supported` for
    /// terms that are no text.
    pub fn new(kind: TermKind, expression: &str) -> Result<TermFilter> {
        if !matches!(kind, TermKind::TagBytes | TermKind::String | TermKind::Bytes) {
            let text = "a regular expression is of strings and bytes: ask for a range of terms";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let mut builder = RegexBuilder::new(expression);
        builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
        let compiled = builder.build().map_err(|error| {
            // The library's text shows the place in several lines; the last one names the fault.
            let text = error.to_string();
            let fault = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::new(Reason::Malformed, format!("the regular expression is malformed: {fault}"))
        })?;
        Ok(TermFilter(compiled))
    }

    /// Returns true if the expression is found in the text of a term.
    pub fn matches(&self, term: &Term) -> bool {
        self.0.is_match(&term.text())
    }
}

impl PartialEq for TermFilter {
    fn eq(&self, other: &TermFilter) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for TermFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_is_found_anywhere_in_the_text_of_a_term() {
        let terms = ["val1", "val2", "xl2", "\u{fc}l2"].map(|text| text.as_bytes());
        for (expression, expected) in [
            (".*l2", &terms[1..]),
            ("^val", &terms[..2]),
            ("[0-9]$", &terms[..]),
            ("", &terms[..]),
            ("\u{fc}", &terms[3..]),
            ("L2", &[]),
        ] {
            let filter = TermFilter::new(TermKind::TagBytes, expression).expect("it is sound");
            let is_found = |text: &&[u8]| filter.matches(&Term::tag_bytes(text).expect("short"));
            let found: Vec<_> = terms.iter().copied().filter(is_found).collect();
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn expressions_that_are_malformed_or_too_large_are_refused() {
        let error =
            |expression| TermFilter::new(TermKind::String, expression).expect_err("it is refused");
        for expression in ["a(", "[", "(?=a)", r"(a)\1", "((a{900}){900}){900}"] {
            let error = error(expression);
            assert_eq!(error.reason, Reason::Malformed, "{expression}");
            assert!(!error.text().contains('\n'), "{error}");
        }
        assert!(error("a(").text().contains("unclosed group"), "{}", error("a("));
        let of_integers = TermFilter::new(TermKind::TagInteger, "7").expect_err("no text");
        assert_eq!(of_integers.reason, Reason::NotSupported);
    }
}
