//! `credenza user quota`: bounds on what a user's clients may use of each node, and on their
//! sessions.

use crate::output;
use api::{Integer, UserQuota, UserReply};
use client::Client;
use program::{Failure, Outcome, units};

/// Bounds of a quota. Without any, the present one is shown.
#[derive(clap::Args)]
pub struct QuotaArguments {
    /// Name of the user
    name: String,
    /// Connections at a time
    #[arg(long, value_name = "COUNT")]
    connections: Option<u64>,
    /// Requests under way at a time
    #[arg(long, value_name = "COUNT")]
    requests: Option<u64>,
    /// Operations a second
    #[arg(long, value_name = "COUNT")]
    operations: Option<u64>,
    /// Bytes of requests and answers a second
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    bytes: Option<u64>,
    /// Time whose operations and bytes may be used at once after a pause (1s)
    #[arg(long, value_name = "TIME", value_parser = units::time_with_unit_ms)]
    burst: Option<u64>,
    /// Open sessions in a group
    #[arg(long, value_name = "COUNT")]
    sessions: Option<u64>,
    /// Remove the quota
    #[arg(
        long,
        conflicts_with_all = ["connections", "requests", "operations", "bytes", "burst", "sessions"]
    )]
    none: bool,
}

impl QuotaArguments {
    /// Shows the quota, or sets it in place of the former one. Returns the text for people;
    /// `json`: `None`, since it was written.
    pub async fn run(self, client: &mut Client, json: bool) -> Outcome<Option<String>> {
        let name = self.name.clone();
        let Some(quota) = self.quota()? else {
            let users = client.access_state().await?.users;
            let user = users.into_iter().find(|user| user.name == name);
            let user = user.ok_or_else(|| {
                Failure::invalid(format!("no user `{name}`: `credenza user list` lists them"))
            })?;
            if json {
                return output::json(&user).map(|()| None);
            }
            return Ok(Some(format!("{name}  {}\n", describe(&user))));
        };
        client.set_quota(&name, &quota).await?;
        let done = if quota == UserQuota::default() { "removed" } else { "set" };
        Ok(Some(format!("the quota of user {name} is {done}\n")))
    }

    /// Returns the quota to set. `None`: nothing is named.
    fn quota(&self) -> Outcome<Option<UserQuota>> {
        let QuotaArguments { connections, requests, operations, bytes, sessions, .. } = self;
        let (burst, none) = (self.burst, self.none);
        let bounds = [connections, requests, operations, bytes, sessions];
        let has_bound = bounds.iter().any(|bound| bound.is_some());
        if burst.is_some() && !has_bound {
            let text = "nothing was done: --burst needs a bound (--operations, --bytes); name all \
                        of the quota's bounds, they replace the present ones";
            return Err(Failure::invalid(text));
        }
        let [connections, requests, operations, bytes, sessions] =
            bounds.map(|bound| bound.map(Integer));
        let burst_ms = burst.map(Integer);
        let quota = UserQuota { connections, requests, operations, bytes, burst_ms, sessions };
        Ok((has_bound || none).then_some(quota))
    }
}

/// Describes the quota of a user, with its use if the node has counted any.
pub fn describe(user: &UserReply) -> String {
    let Some(quota) = &user.quota else { return "no quota".into() };
    let used = user.used.clone().unwrap_or_default();
    let number = |number: Integer| units::show_count(number.0);
    let bounds = [
        quota.connections.map(|max| format!("connections {}/{}", used.connections.0, number(max))),
        quota.requests.map(|max| format!("requests {}/{}", used.requests.0, number(max))),
        quota.operations.map(|max| format!("operations {}/s", number(max))),
        quota.bytes.map(|max| format!("bytes {}/s", units::show_size(max.0))),
        quota.sessions.map(|max| format!("sessions {} in a group", number(max))),
    ];
    let mut text = bounds.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if user.used.is_none() {
        return text;
    }
    let (operations, bytes) = (number(used.operations), units::show_size(used.bytes.0));
    text.push_str(&format!(" (used {operations} operations, {bytes}"));
    if used.refused.0 > 0 {
        text.push_str(&format!("; {} refused", number(used.refused)));
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::UserUse;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        quota: QuotaArguments,
    }

    fn quota(line: &str) -> Option<Option<UserQuota>> {
        let words = ["quota"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words).ok()?.quota.quota().ok()
    }

    #[test]
    fn named_bounds_make_the_quota_and_others_are_removed() {
        let bounds = "--connections 5 --requests 6 --operations 7 --bytes 1MiB --sessions 8";
        let all = quota(&format!("ada {bounds} --burst 2s"));
        let integer = |number| Some(Integer(number));
        let named = UserQuota {
            connections: integer(5),
            requests: integer(6),
            operations: integer(7),
            bytes: integer(1 << 20),
            burst_ms: integer(2_000),
            sessions: integer(8),
        };
        assert_eq!(all, Some(Some(named)));
        let one = UserQuota { operations: integer(7), ..UserQuota::default() };
        assert_eq!(quota("ada --operations 7"), Some(Some(one)));
        assert_eq!(quota("ada --none"), Some(Some(UserQuota::default())));
        assert_eq!(quota("ada"), Some(None), "it is shown");
        for bad in [
            "ada --burst 2s",
            "ada --none --bytes 1MiB",
            "ada --bytes much",
            "ada --burst 2",
            "ada --none --sessions 1",
        ] {
            assert_eq!(quota(bad), None, "{bad}");
        }
    }

    #[test]
    fn quota_is_described_with_its_use() {
        let integer = |number| Some(Integer(number));
        let mut user = UserReply::default();
        assert_eq!(describe(&user), "no quota");
        let bytes = integer(1 << 20);
        let connections = integer(10);
        user.quota = Some(UserQuota { connections, bytes, ..UserQuota::default() });
        assert_eq!(describe(&user), "connections 0/10, bytes 1 MiB/s", "nothing was counted");
        user.used = Some(UserUse::default());
        assert_eq!(describe(&user), "connections 0/10, bytes 1 MiB/s (used 0 operations, 0 B)");
        user.used = None;
        user.quota = Some(UserQuota { sessions: integer(7_000), ..UserQuota::default() });
        assert_eq!(describe(&user), "sessions 7,000 in a group");
        user.quota = Some(UserQuota { operations: integer(1_000), ..UserQuota::default() });
        let used =
            UserUse { operations: Integer(5_000), refused: Integer(12), ..UserUse::default() };
        user.used = Some(used);
        assert_eq!(describe(&user), "operations 1,000/s (used 5,000 operations, 0 B; 12 refused)");
    }
}
