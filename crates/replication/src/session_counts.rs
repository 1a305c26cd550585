//! Counts of a group's open sessions: all, and those of each user.
//!
//! They are kept by the group's master, which counts the rows when it becomes one. Sessions that
//! were opened without a user count among all alone.

use base::limits::SESSIONS_MAX;
use base::{Error, Reason, Result, UserDigest};
use std::collections::BTreeMap;

/// User who opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    /// The user.
    pub user: UserDigest,
    /// Maximum number of the user's sessions in the group.
    pub sessions_max: u32,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct SessionCounts {
    total: u64,
    by_user: BTreeMap<UserDigest, u64>,
}

impl SessionCounts {
    /// Returns the number of all sessions.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Counts a session.
    pub(super) fn add(&mut self, user: Option<UserDigest>) {
        self.total += 1;
        if let Some(user) = user {
            *self.by_user.entry(user).or_default() += 1;
        }
    }

    /// Counts sessions, each by its user.
    pub fn add_all(&mut self, users: impl IntoIterator<Item = Option<UserDigest>>) {
        users.into_iter().for_each(|user| self.add(user));
    }

    /// Counts a session no more.
    pub(super) fn remove(&mut self, user: Option<UserDigest>) {
        self.total = self.total.saturating_sub(1);
        let Some(user) = user else { return };
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// Refuses a further session if there are too many. Errors: `TooMany`; `Quota`, those of its
    /// owner.
    pub(super) fn check_room(&self, owner: Option<SessionOwner>) -> Result<()> {
        if self.total >= SESSIONS_MAX as u64 {
            return Err(Error::new(
                Reason::TooMany,
                format!("{SESSIONS_MAX} sessions are open, the maximum (sessions_max): close some"),
            ));
        }
        let Some(SessionOwner { user, sessions_max }) = owner else { return Ok(()) };
        if self.by_user.get(&user).is_some_and(|count| *count >= u64::from(sessions_max)) {
            return Err(Error::new(
                Reason::Quota,
                format!(
                    "the user has {sessions_max} open sessions in this group, its quota; nothing \
                     was done: close one, or wait until one expires"
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::limits::SESSIONS_PER_USER_MAX;

    #[test]
    fn user_has_at_most_its_share_of_the_sessions_and_leaves_the_others_theirs() {
        let (ada, bob) = (UserDigest(1), UserDigest(2));
        let owner = |user| Some(SessionOwner { user, sessions_max: SESSIONS_PER_USER_MAX });
        let mut counts = SessionCounts::default();
        for _ in 0..SESSIONS_PER_USER_MAX {
            counts.check_room(owner(ada)).expect("within its share");
            counts.add(Some(ada));
        }
        let refused = counts.check_room(owner(ada)).map_err(|error| error.reason);
        assert_eq!(refused, Err(Reason::Quota));
        counts.check_room(owner(bob)).expect("the share is ada's");
        counts.check_room(None).expect("without a user");
        counts.remove(Some(ada));
        counts.check_room(owner(ada)).expect("one was closed");
        counts.add(None);
        counts.remove(None);
        assert_eq!(counts.total(), u64::from(SESSIONS_PER_USER_MAX) - 1);
        // More users than that share what all have.
        counts.add_all((counts.total()..SESSIONS_MAX as u64).map(|_| Some(bob)));
        for owner in [owner(ada), None] {
            let refused = counts.check_room(owner).map_err(|error| error.reason);
            assert_eq!(refused, Err(Reason::TooMany));
        }
        (0..SESSIONS_MAX).for_each(|_| counts.remove(Some(bob)));
        counts.remove(Some(bob));
        assert_eq!(counts.total(), 0, "also where what a later version counted is not known");
    }
}
