//! Quota of a user: bounds on what its clients may use of each node, and on the sessions that they
//! hold in each group.

use crate::limits::{QUOTA_BURST_MS_MAX, QUOTA_BYTES_MAX};
use crate::{Error, Reason, Result};

/// Quota of a user. Each node counts by itself what its own clients use. `None` in a field: no
/// bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserQuota {
    /// Maximum number of connections.
    pub connections: Option<u32>,
    /// Maximum number of requests under way, those of all connections together.
    pub requests: Option<u32>,
    /// Maximum number of operations a second.
    pub operations: Option<u32>,
    /// Maximum bytes of requests and answers a second.
    pub bytes: Option<u64>,
    /// Time whose operations and bytes may be used at once after a pause, in milliseconds.
    pub burst_ms: u32,
    /// Maximum number of sessions in a group, counted by the group's master. `None`: the bound of
    /// users without a quota.
    pub sessions: Option<u32>,
}

impl Default for UserQuota {
    fn default() -> UserQuota {
        UserQuota {
            connections: None,
            requests: None,
            operations: None,
            bytes: None,
            burst_ms: UserQuota::BURST_MS_DEFAULT,
            sessions: None,
        }
    }
}

impl UserQuota {
    /// Burst unless the quota says otherwise.
    pub const BURST_MS_DEFAULT: u32 = 1_000;

    /// Returns true if the quota bounds nothing.
    pub fn is_unlimited(&self) -> bool {
        !self.bounds_requests() && self.sessions.is_none()
    }

    /// Returns true if requests count against the quota. Without it they need no meter.
    pub fn bounds_requests(&self) -> bool {
        let UserQuota { connections, requests, operations, bytes, burst_ms: _, sessions: _ } = self;
        [connections, requests, operations].iter().any(|bound| bound.is_some()) || bytes.is_some()
    }

    /// Checks the numbers. Errors: `Malformed`.
    pub fn check(&self) -> Result<()> {
        let UserQuota { connections, requests, operations, bytes, burst_ms, sessions } = *self;
        let malformed = |text: String| Err(Error::new(Reason::Malformed, text));
        if [connections, requests, operations, sessions].contains(&Some(0)) || bytes == Some(0) {
            let text = "a quota must be at least 1; leave out what shall have no bound, or disable \
                        the user";
            return malformed(text.into());
        }
        if bytes.is_some_and(|bytes| bytes > QUOTA_BYTES_MAX) {
            let text = format!("a quota may have at most {QUOTA_BYTES_MAX} bytes a second");
            return malformed(text);
        }
        if !(1..=QUOTA_BURST_MS_MAX).contains(&burst_ms) {
            return malformed(format!("the burst of a quota must be 1 to {QUOTA_BURST_MS_MAX} ms"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_but_that_of_sessions_is_of_requests() {
        let none = UserQuota::default();
        assert!(!none.bounds_requests());
        for quota in [
            UserQuota { connections: Some(1), ..none },
            UserQuota { requests: Some(1), ..none },
            UserQuota { operations: Some(1), ..none },
            UserQuota { bytes: Some(1), ..none },
        ] {
            assert!(quota.bounds_requests() && !quota.is_unlimited(), "{quota:?}");
        }
        let sessions = UserQuota { sessions: Some(1), ..none };
        assert!(!sessions.bounds_requests() && !sessions.is_unlimited());
    }

    #[test]
    fn quota_of_zero_or_beyond_its_limits_is_refused() {
        let none = UserQuota::default();
        let largest = UserQuota {
            connections: Some(u32::MAX),
            requests: Some(1),
            operations: Some(u32::MAX),
            bytes: Some(QUOTA_BYTES_MAX),
            burst_ms: QUOTA_BURST_MS_MAX,
            sessions: Some(1),
        };
        assert!(none.is_unlimited() && none.check().is_ok());
        assert!(!largest.is_unlimited() && largest.check().is_ok());
        for bad in [
            UserQuota { connections: Some(0), ..none },
            UserQuota { requests: Some(0), ..none },
            UserQuota { operations: Some(0), ..none },
            UserQuota { bytes: Some(0), ..none },
            UserQuota { sessions: Some(0), ..none },
            UserQuota { bytes: Some(QUOTA_BYTES_MAX + 1), ..none },
            UserQuota { burst_ms: 0, ..none },
            UserQuota { burst_ms: QUOTA_BURST_MS_MAX + 1, ..none },
        ] {
            let refused = bad.check().map_err(|error| error.reason);
            assert_eq!(refused, Err(Reason::Malformed), "{bad:?}");
        }
    }
}
