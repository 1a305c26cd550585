//! Judge of answers to queries of an index: which rows a complete answer must have.

use super::document::{living_values, term, write_number};
use super::record::{DocumentRecord, Expectations};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Content of the rows that a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowDetail {
    /// Keys and terms.
    Terms,
    /// Keys, terms and records.
    Records,
}

/// Query of the index: a span of terms.
#[derive(Clone, Debug)]
pub struct TermQuery {
    /// Lowest term. `None`: no bound.
    pub from: Option<i64>,
    /// Term up to which it asks, without this one. `None`: no bound.
    pub to: Option<i64>,
    /// True if the highest term comes first.
    pub is_reverse: bool,
    /// Content of the rows.
    pub detail: RowDetail,
}

impl TermQuery {
    /// Returns the parameters of HTTP.
    pub fn parameters(&self) -> String {
        let detail = match self.detail {
            RowDetail::Terms => "terms",
            RowDetail::Records => "records",
        };
        let mut text = format!("want={detail}&reverse={}", self.is_reverse);
        for (name, term) in [("from", self.from), ("to", self.to)] {
            text.extend(term.map(|term| format!("&{name}={term}")));
        }
        text
    }

    fn covers(&self, term: i64) -> bool {
        self.from.is_none_or(|from| from <= term) && self.to.is_none_or(|to| term < to)
    }
}

/// Row of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRow {
    key: String,
    term: i64,
    /// Living values of the record. `None`: the query did not ask for it.
    values: Option<BTreeSet<String>>,
}

impl AnswerRow {
    /// Reads a row from JSON. `None`: it is none.
    pub fn read(row: &Value) -> Option<AnswerRow> {
        let term = row["term"].as_str()?.parse().ok()?;
        Some(AnswerRow { key: row["key"].as_str()?.into(), term, values: living_values(row) })
    }
}

/// Number of moments that an answer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMoments {
    /// One: a page of a consistent bucket.
    One,
    /// Several: pages, or an available bucket.
    Several,
}

/// Judges the rows of a complete answer; returns what is missing, doubled or wrong. `certain`:
/// states of the keys that did not change from before the query until after the answer. Of
/// other keys every row may be missing, but must be one that was written.
pub fn judge_answer(
    (query, moments): (&TermQuery, AnswerMoments),
    rows: &[AnswerRow],
    certain: &Expectations,
    record: &DocumentRecord,
) -> Vec<String> {
    let mut findings = judge_order(query, rows);
    let mut by_key: BTreeMap<&str, Vec<&AnswerRow>> = BTreeMap::new();
    for row in rows {
        by_key.entry(&row.key).or_default().push(row);
    }
    for (key, expected) in certain {
        let found = by_key.remove(key.as_str()).unwrap_or_default();
        let number = expected.value.as_ref().and_then(|value| write_number(key, value));
        let expected_term = number.map(|number| term(key, number));
        match (expected_term.filter(|term| query.covers(*term)), &found[..]) {
            (None, []) => {}
            (None, _) => findings.push(format!("{key}: not expected: {found:?}")),
            (Some(_), []) => findings.push(format!("{key}: missing: {:?}", expected.value)),
            (Some(term), [row]) => {
                let values = expected.value.iter().cloned().collect();
                if row.term != term || row.values.as_ref().is_some_and(|it| *it != values) {
                    findings.push(format!("{key}: {row:?}, not {:?}", expected.value));
                }
            }
            (Some(_), _) => findings.push(format!("{key}: more than once: {found:?}")),
        }
    }
    for (key, found) in by_key {
        if moments == AnswerMoments::One && found.len() > 1 {
            findings.push(format!("{key}: more than once in one moment: {found:?}"));
        }
        for row in found {
            findings.extend(judge_changing(row, moments, record));
        }
    }
    findings
}

/// Judges the order of the rows, and that each is within the query.
fn judge_order(query: &TermQuery, rows: &[AnswerRow]) -> Vec<String> {
    let outside = rows.iter().find(|row| !query.covers(row.term));
    let is_ordered = |one: &AnswerRow, next: &AnswerRow| match query.is_reverse {
        true => one.term >= next.term,
        false => one.term <= next.term,
    };
    let disordered = rows.windows(2).find(|pair| !is_ordered(&pair[0], &pair[1]));
    let outside = outside.map(|row| format!("outside of {query:?}: {row:?}"));
    outside.into_iter().chain(disordered.map(|pair| format!("out of order: {pair:?}"))).collect()
}

/// Judges a row whose key is being changed, or is in doubt.
fn judge_changing(
    row: &AnswerRow,
    moments: AnswerMoments,
    record: &DocumentRecord,
) -> Option<String> {
    let AnswerRow { key, term: found, values } = row;
    if !record.has_term(key, *found) {
        return Some(format!("a term that nobody wrote: {row:?}"));
    }
    let values = values.as_ref()?;
    if let Some(value) = values.iter().find(|value| !record.has_value(key, value)) {
        return Some(format!("{key}: a value that nobody wrote: {value}"));
    }
    let has_term =
        |value: &String| write_number(key, value).map(|at| term(key, at)) == Some(*found);
    // The records of several moments may be newer than their terms.
    let fits = moments == AnswerMoments::Several || values.iter().all(has_term);
    (!fits).then(|| format!("{key}: the record has another term: {row:?}"))
}

#[cfg(test)]
mod tests {
    use super::super::document::{TERMS, document};
    use super::super::record::value_of;
    use super::*;
    use crate::client::CallOutcome;
    use serde_json::json;
    use std::time::Duration;

    const ALL: TermQuery =
        TermQuery { from: None, to: None, is_reverse: false, detail: RowDetail::Records };

    fn row(key: &str, number: u64) -> AnswerRow {
        let value = document(key, number);
        let term = term(key, number).to_string();
        AnswerRow::read(&json!({ "key": key, "term": term, "value": value })).expect("a row")
    }

    /// Returns the record of `a` to `e`, each put once; `e` was deleted, and `d` is being changed.
    fn record() -> DocumentRecord {
        let record = DocumentRecord::default();
        let acknowledged = CallOutcome::Acknowledged(());
        for key in ["a", "b", "c", "d", "e"] {
            let number = record.begin(key, false);
            record.end(key, value_of(key, number, false), acknowledged);
        }
        record.begin("e", false);
        record.end("e", None, acknowledged);
        record.begin("d", false);
        record
    }

    fn in_order(mut rows: Vec<AnswerRow>) -> Vec<AnswerRow> {
        rows.sort_by_key(|row| row.term);
        rows
    }

    fn judge(query: &TermQuery, rows: &[AnswerRow]) -> usize {
        let record = record();
        let certain = record.still_certain(record.expectations(Duration::ZERO));
        judge_answer((query, AnswerMoments::One), rows, &certain, &record).len()
    }

    #[test]
    fn complete_answer_is_clean_with_either_state_of_a_changing_key() {
        let stable = [row("a", 1), row("b", 1), row("c", 1)];
        for changing in [vec![], vec![row("d", 1)], vec![row("d", 2)]] {
            let rows = in_order([&stable[..], &changing].concat());
            assert_eq!(judge(&ALL, &rows), 0, "{changing:?}");
            let backwards: Vec<_> = rows.into_iter().rev().collect();
            assert_eq!(judge(&TermQuery { is_reverse: true, ..ALL }, &backwards), 0);
        }
    }

    #[test]
    fn tampered_answers_are_noticed() {
        let rows =
            |of: &[(&str, u64)]| in_order(of.iter().map(|(key, at)| row(key, *at)).collect());
        for (tampered, of) in [
            ("a row is missing", rows(&[("a", 1), ("c", 1)])),
            ("a row comes twice", rows(&[("a", 1), ("a", 1), ("b", 1), ("c", 1)])),
            ("a deleted row", rows(&[("a", 1), ("b", 1), ("c", 1), ("e", 1)])),
            ("a key of nobody", rows(&[("a", 1), ("b", 1), ("c", 1), ("x", 1)])),
            ("a write that never was", rows(&[("a", 1), ("b", 1), ("c", 1), ("d", 3)])),
        ] {
            assert_eq!(judge(&ALL, &of), 1, "{tampered}");
        }
        let wrong = AnswerRow { values: row("b", 2).values, ..row("b", 1) };
        assert_eq!(judge(&ALL, &in_order(vec![row("a", 1), wrong, row("c", 1)])), 1, "a record");
        let both = in_order(vec![row("a", 1), row("b", 1), row("c", 1), row("d", 1), row("d", 2)]);
        assert_eq!(judge(&ALL, &both), 1, "a changing key twice in one moment");
    }

    #[test]
    fn rows_outside_the_query_and_out_of_order_are_noticed() {
        let rows = in_order(vec![row("a", 1), row("b", 1), row("c", 1)]);
        let lowest = rows[0].term;
        let above = TermQuery { from: Some(lowest + 1), ..ALL };
        let within = |query: &TermQuery| -> Vec<AnswerRow> {
            rows.iter().filter(|row| query.covers(row.term)).cloned().collect()
        };
        assert_eq!(judge(&above, &within(&above)), 0);
        assert!(judge(&above, &rows) > 0, "a row below the bound");
        let backwards: Vec<_> = rows.iter().rev().cloned().collect();
        let has_two_terms = rows[0].term != rows[2].term;
        assert_eq!(judge(&ALL, &backwards) > 0, has_two_terms, "the wrong order");
        let none = TermQuery { from: Some(TERMS), ..ALL };
        assert_eq!(judge(&none, &[]), 0);
    }

    #[test]
    fn row_without_a_term_is_none() {
        assert_eq!(AnswerRow::read(&json!({ "key": "a" })), None);
        assert_eq!(row("a", 1).values, Some(BTreeSet::from([document("a", 1)])));
    }
}
