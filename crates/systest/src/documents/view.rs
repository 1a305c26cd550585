//! View of a reader of a feed, as the page about feeds says that a reader keeps it, and the judge
//! of what it was told.

use super::document::{DocumentRows, living_values};
use super::record::Expectations;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most findings that a view keeps: the first ones say what went wrong.
const FINDINGS_MAX: usize = 20;

/// Knowledge that a reader has of a bucket: what it was told, and no more.
#[derive(Clone, Debug, Default)]
pub struct FollowerView {
    /// True in a consistent bucket: no put comes twice, and the versions of a key rise.
    judges_versions: bool,
    rows: DocumentRows,
    /// Version of the last put of each key since the reader began at the start.
    puts: BTreeMap<String, u64>,
    /// Keys that came since a restart. `None`: there was none since the last level.
    again: Option<BTreeSet<String>>,
    is_level: bool,
    /// Number of events.
    pub events: u64,
    /// Number of restarts.
    pub restarts: u64,
    findings: Vec<String>,
}

impl FollowerView {
    /// Returns the view of a reader that begins at the start.
    pub fn new(judges_versions: bool) -> FollowerView {
        FollowerView { judges_versions, ..FollowerView::default() }
    }

    /// Begins at the start again: keys that do not come before the next level are gone.
    pub fn restart(&mut self) {
        self.again = Some(BTreeSet::new());
        self.puts.clear();
        (self.is_level, self.restarts) = (false, self.restarts + 1);
    }

    /// Takes an event, as JSON.
    pub fn take(&mut self, event: &Value) {
        self.events += 1;
        self.is_level = false;
        let Some(key) = event["key"].as_str() else {
            return self.note(format!("an event without a key of ours: {event}"));
        };
        if let Some(again) = &mut self.again {
            again.insert(key.into());
        }
        if self.judges_versions {
            self.judge_version(key, event);
        }
        match event["event"].as_str() {
            Some("delete") => drop(self.rows.remove(key)),
            Some("put") => match living_values(event) {
                Some(values) if values.is_empty() => drop(self.rows.remove(key)),
                Some(values) => drop(self.rows.insert(key.into(), values)),
                // The record is gone already, and its delete follows.
                None => {}
            },
            _ => self.note(format!("neither put nor delete: {event}")),
        }
    }

    fn judge_version(&mut self, key: &str, event: &Value) {
        let is_put = event["event"] == "put";
        let Some(version) = event["version"].as_u64() else {
            // A delete during a move has none.
            if is_put {
                self.note(format!("a put without a version: {event}"));
            }
            return;
        };
        let former = self.puts.get(key).copied();
        // A delete's version is at or above that of every earlier record.
        let rises =
            former.is_none_or(|former| if is_put { former < version } else { former <= version });
        if !rises {
            self.note(format!("{key}: version {version} after {former:?}: {event}"));
        }
        if is_put {
            self.puts.insert(key.into(), version);
        }
    }

    /// Takes the mark `level`: keys that did not come since a restart are gone.
    pub fn reach_level(&mut self) {
        self.is_level = true;
        if let Some(again) = self.again.take() {
            self.rows.retain(|key, _| again.contains(key));
        }
    }

    /// Takes the mark that more follows.
    pub fn leave_level(&mut self) {
        self.is_level = false;
    }

    /// Judges a page of a consistent bucket that is level: a reader then knows whatever was
    /// acknowledged before it asked, and is not being changed.
    pub fn judge_level(&mut self, certain: &Expectations) {
        let is_known = |key: &String, value: &Option<String>| match (self.rows.get(key), value) {
            (None, None) => true,
            (Some(values), Some(value)) => values.len() == 1 && values.contains(value),
            _ => false,
        };
        let wrong = certain.iter().filter(|(key, expected)| !is_known(key, &expected.value));
        let wrong = wrong.map(|(key, expected)| {
            format!("level, but {key} is {:?}, not {:?}", self.rows.get(key), expected.value)
        });
        let wrong: Vec<_> = wrong.take(FINDINGS_MAX).collect();
        wrong.into_iter().for_each(|finding| self.note(finding));
    }

    /// Returns true if nothing more was decided when it was told last.
    pub fn is_level(&self) -> bool {
        self.is_level
    }

    /// Returns the keys of which the view differs from the rows, but those in `except`; or says
    /// that a restart has not come to its level.
    pub fn differences(&self, rows: &DocumentRows, except: &BTreeSet<String>) -> Vec<String> {
        if self.again.is_some() {
            return vec!["it is restarting".into()];
        }
        let keys: BTreeSet<_> = rows.keys().chain(self.rows.keys()).collect();
        let keys = keys.into_iter().filter(|key| !except.contains(*key));
        let differs = |key: &&String| rows.get(*key) != self.rows.get(*key);
        let text = |key: &String| {
            format!("{key}: told {:?}, the bucket has {:?}", self.rows.get(key), rows.get(key))
        };
        keys.filter(differs).map(text).collect()
    }

    /// Returns the keys that the reader knows to have a record.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.rows.keys()
    }

    /// Records something that no reader may be told.
    pub fn note(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Returns what the reader was told wrongly.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::document;
    use super::super::record::{DocumentRecord, value_of};
    use super::*;
    use crate::client::CallOutcome;
    use serde_json::json;
    use std::time::Duration;

    fn put(key: &str, version: u64) -> Value {
        json!({ "event": "put", "key": key, "version": version, "value": document(key, version) })
    }

    fn delete(key: &str, version: u64) -> Value {
        json!({ "event": "delete", "key": key, "version": version })
    }

    /// Returns the view of a reader that was told this, and is level.
    fn told(events: &[Value]) -> FollowerView {
        let mut view = FollowerView::new(true);
        events.iter().for_each(|event| view.take(event));
        view.reach_level();
        view
    }

    fn rows(of: &[(&str, u64)]) -> DocumentRows {
        let row = |(key, number): &(&str, u64)| {
            (key.to_string(), BTreeSet::from([document(key, *number)]))
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn missed_event_is_a_difference_and_a_repeated_one_a_finding() {
        let events = [put("a", 1), put("b", 2), put("a", 3), delete("b", 4), put("c", 5)];
        let none = BTreeSet::new();
        let bucket = rows(&[("a", 3), ("c", 5)]);
        let true_view = told(&events);
        assert_eq!(true_view.differences(&bucket, &none), Vec::<String>::new());
        assert_eq!(true_view.findings(), Vec::<String>::new());
        // The third to the fifth event are the last ones of their keys.
        for missed in 2..events.len() {
            let mut tampered = events.to_vec();
            tampered.remove(missed);
            let differences = told(&tampered).differences(&bucket, &none);
            assert_eq!(differences.len(), 1, "without event {missed}: {differences:?}");
        }
        for repeated in [0, 1, 2, 4] {
            let tampered = [&events[..], &events[repeated..=repeated]].concat();
            assert_eq!(told(&tampered).findings().len(), 1, "event {repeated} comes twice");
        }
        let mut swapped = events.to_vec();
        swapped.swap(0, 2);
        assert_eq!(told(&swapped).findings().len(), 1, "versions of a key do not rise");
    }

    #[test]
    fn reader_is_level_until_the_next_event_and_restarting_until_the_next_level() {
        let mut view = told(&[put("a", 1)]);
        assert!(view.is_level());
        view.take(&put("a", 2));
        assert!(!view.is_level());
        let none = BTreeSet::new();
        assert!(view.differences(&rows(&[("a", 2)]), &none).is_empty());
        view.restart();
        view.take(&put("a", 2));
        assert_eq!(view.differences(&rows(&[("a", 2)]), &none).len(), 1);
        view.reach_level();
        assert!(view.differences(&rows(&[("a", 2)]), &none).is_empty());
        assert!(view.differences(&rows(&[]), &BTreeSet::from(["a".into()])).is_empty());
    }

    #[test]
    fn keys_that_do_not_come_between_restart_and_level_are_gone() {
        let mut view = told(&[put("a", 1), put("b", 2)]);
        view.restart();
        view.take(&put("b", 2));
        view.reach_level();
        assert!(view.differences(&rows(&[("b", 2)]), &BTreeSet::new()).is_empty());
        assert_eq!((view.findings().len(), view.restarts), (0, 1), "it may come again");
    }

    #[test]
    fn level_page_must_have_what_was_acknowledged_before() {
        let record = DocumentRecord::default();
        for (key, is_delete) in [("a", false), ("b", false), ("b", true)] {
            let number = record.begin(key, false);
            let acknowledged = CallOutcome::Acknowledged(());
            record.end(key, value_of(key, number, is_delete), acknowledged);
        }
        let certain = record.still_certain(record.expectations(Duration::ZERO));
        let findings = |events: &[Value]| {
            let mut view = told(events);
            view.judge_level(&certain);
            view.findings().len()
        };
        assert_eq!(findings(&[put("a", 1), put("b", 1), delete("b", 2)]), 0);
        assert_eq!(findings(&[put("b", 1), delete("b", 2)]), 1, "a put is missing");
        assert_eq!(findings(&[put("a", 1), put("b", 1)]), 1, "a delete is missing");
    }

    #[test]
    fn siblings_are_the_values_of_a_key() {
        let mut view = FollowerView::new(false);
        let of = |values: &[Option<&str>]| {
            let siblings: Vec<_> = values.iter().map(|value| json!({ "value": value })).collect();
            json!({ "event": "put", "key": "a", "siblings": siblings })
        };
        view.take(&of(&[Some("v"), Some("w"), None]));
        view.reach_level();
        let both = BTreeSet::from(["v".to_string(), "w".to_string()]);
        let bucket = DocumentRows::from([("a".into(), both)]);
        assert!(view.differences(&bucket, &BTreeSet::new()).is_empty());
        view.take(&of(&[None]));
        view.take(&of(&[None]));
        view.reach_level();
        assert!(view.differences(&DocumentRows::new(), &BTreeSet::new()).is_empty());
        assert_eq!(view.findings(), Vec::<String>::new(), "events may come again here");
    }
}
