//! Rate limit of a warning that strangers can provoke: logged once in a while, with the number
//! suppressed.

use crate::world;
use std::sync::Mutex;

/// Shortest pause between two logged warnings, milliseconds.
const PAUSE_MS: u64 = 5_000;
/// Time for which the status shows it after it was last logged, milliseconds.
const RECENT_MS: u64 = 60_000;

/// Rate limit of one warning; see the head of this file.
#[derive(Default)]
pub struct Complaint(Mutex<Option<LastComplaint>>);

struct LastComplaint {
    at_ms: u64,
    left_out: u64,
}

impl Complaint {
    /// Returns the number of warnings suppressed since the last one, if this one may be logged now.
    /// `None`: this one is suppressed, and counted.
    pub fn due(&self) -> Option<u64> {
        let now = world::milliseconds();
        let mut said = self.0.lock().expect("no one panics while holding it");
        match said.as_mut() {
            Some(said) if now.saturating_sub(said.at_ms) < PAUSE_MS => {
                said.left_out += 1;
                None
            }
            _ => Some(
                said.replace(LastComplaint { at_ms: now, left_out: 0 })
                    .map_or(0, |last| last.left_out),
            ),
        }
    }

    /// Returns true if one was logged within the last minute, so that an operator who looks now
    /// sees it.
    pub fn is_recent(&self) -> bool {
        let said = self.0.lock().expect("no one panics while holding it");
        let now = world::milliseconds();
        said.as_ref().is_some_and(|said| now.saturating_sub(said.at_ms) < RECENT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_and_again_is_counted_and_said_once_in_a_while() {
        let complaint = Complaint::default();
        let at = |ms: u64| world::set_time(Some(ms * 1_000_000));
        at(1);
        assert_eq!(complaint.due(), Some(0));
        assert_eq!((complaint.due(), complaint.due()), (None, None));
        at(PAUSE_MS);
        assert_eq!(complaint.due(), None);
        at(PAUSE_MS + 1);
        assert_eq!((complaint.due(), complaint.due()), (Some(3), None));
        assert!(complaint.is_recent() && !Complaint::default().is_recent());
        at(PAUSE_MS + 1 + RECENT_MS);
        assert!(!complaint.is_recent());
        world::set_time(None);
    }
}
