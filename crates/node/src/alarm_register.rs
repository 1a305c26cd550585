//! Register of alarms: the time since which each has held.
//!
//! Promises: an alarm is shown once its cause has lasted as long as it must, and until it ends; the
//! gravest first; a bounded number of each code.

use base::{Alarm, AlarmCode};
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Maximum number of alarms of one code: one for each of a hundred members or groups tells enough.
const ALARMS_PER_CODE_MAX: usize = 100;

/// Cause of an alarm that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub code: AlarmCode,
    pub subject: String,
    pub detail: String,
    /// Time for which the cause must have lasted, in milliseconds.
    pub duration_min_ms: u64,
}

impl Finding {
    /// Builds a finding that is an alarm at once.
    pub(crate) fn new(code: AlarmCode, subject: &str, detail: impl Into<String>) -> Finding {
        let (subject, detail) = (subject.to_string(), detail.into());
        Finding { code, subject, detail, duration_min_ms: 0 }
    }

    /// Returns the finding as one that is an alarm only after this time.
    pub(crate) fn lasting(self, duration_min_ms: u64) -> Finding {
        Finding { duration_min_ms, ..self }
    }
}

/// Beginning of a cause, by the monotonic clock and by the wall clock, in milliseconds.
#[derive(Clone, Copy)]
struct CauseBegin {
    monotonic_ms: u64,
    unix_ms: u64,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct AlarmRegister(Mutex<BTreeMap<(AlarmCode, String), CauseBegin>>);

impl AlarmRegister {
    /// Replaces the causes by those that hold now. Returns the alarms.
    pub(crate) fn update(&self, findings: Vec<Finding>) -> Vec<Alarm> {
        let begin = CauseBegin { monotonic_ms: world::milliseconds(), unix_ms: world::unix_ms() };
        let mut found = BTreeMap::new();
        for finding in findings {
            found.entry((finding.code, finding.subject.clone())).or_insert(finding);
        }
        let mut known = self.0.lock().expect("no one panics while holding it");
        known.retain(|key, _| found.contains_key(key));
        let mut alarms: Vec<Alarm> = Vec::new();
        let (mut last_code, mut count) = (None, 0);
        // In the order of codes, so that the alarms of one code follow each other.
        for (key, finding) in found {
            count = if last_code == Some(finding.code) { count + 1 } else { 1 };
            last_code = Some(finding.code);
            if count > ALARMS_PER_CODE_MAX {
                continue;
            }
            let since = *known.entry(key).or_insert(begin);
            let lasted_ms = begin.monotonic_ms.saturating_sub(since.monotonic_ms);
            if lasted_ms >= finding.duration_min_ms {
                let Finding { code, subject, detail, .. } = &finding;
                alarms.push(Alarm::new(*code, subject, detail, since.unix_ms));
            }
        }
        alarms.sort_by_key(|alarm| (alarm.code.severity(), alarm.code));
        alarms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(register: &AlarmRegister, ms: u64, findings: &[Finding]) -> Vec<(AlarmCode, u64)> {
        world::set_time(Some(ms * 1_000_000));
        let alarms = register.update(findings.to_vec());
        world::set_time(None);
        alarms.into_iter().map(|alarm| (alarm.code, alarm.since_ms)).collect()
    }

    #[test]
    fn alarm_keeps_its_beginning_until_its_cause_ends() {
        let register = AlarmRegister::default();
        let down = Finding::new(AlarmCode::MemberDown, "n2", "no connection");
        let full = Finding::new(AlarmCode::DiskFull, "disk", "full");
        assert_eq!(at(&register, 10, std::slice::from_ref(&down)), [(AlarmCode::MemberDown, 10)]);
        let both = [(AlarmCode::DiskFull, 20), (AlarmCode::MemberDown, 10)];
        assert_eq!(at(&register, 20, &[down.clone(), full]), both, "the gravest first");
        assert_eq!(at(&register, 30, &[]), []);
        assert_eq!(at(&register, 40, &[down]), [(AlarmCode::MemberDown, 40)]);
    }

    #[test]
    fn alarm_that_must_last_is_shown_after_its_time() {
        let register = AlarmRegister::default();
        let held = [Finding::new(AlarmCode::LogHeld, "log", "").lasting(1_000)];
        assert_eq!(at(&register, 100, &held), []);
        assert_eq!(at(&register, 1_099, &held), []);
        assert_eq!(at(&register, 1_100, &held), [(AlarmCode::LogHeld, 100)]);
        assert_eq!(at(&register, 1_200, &[]), []);
        assert_eq!(at(&register, 1_300, &held), [], "it begins again");
    }

    #[test]
    fn alarms_of_one_code_are_bounded_and_repeated_subjects_merge() {
        let register = AlarmRegister::default();
        let found = |number: usize| {
            Finding::new(AlarmCode::TwoVoters, &format!("group {}", number / 2), "")
        };
        let many: Vec<_> = (0..1_000).map(found).collect();
        assert_eq!(at(&register, 1, &many).len(), ALARMS_PER_CODE_MAX);
        assert_eq!(at(&register, 1, &many[..10]).len(), 5);
    }
}
