//! Rates between two statuses of a node: requests, log syncs and decided entries a second.

use api::{NodeStatus, RequestCounts};
use program::units::show_count;

/// Rates a second between two statuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    requests: f64,
    syncs: f64,
    decided: f64,
}

impl Rates {
    /// Returns the rates between two statuses. `None`: the node restarted in between, or no time
    /// has passed on its clock.
    pub fn between(earlier: &NodeStatus, later: &NodeStatus) -> Option<Rates> {
        if (earlier.node, earlier.incarnation) != (later.node, later.incarnation) {
            return None;
        }
        let elapsed = later.uptime_ms.checked_sub(earlier.uptime_ms).filter(|ms| *ms > 0)?;
        let rate = |total: fn(&NodeStatus) -> u64| {
            let increase = total(later).saturating_sub(total(earlier));
            increase as f64 * 1e3 / elapsed as f64
        };
        Some(Rates {
            requests: rate(requests),
            syncs: rate(|status| status.log.syncs),
            decided: rate(|status| status.groups.iter().map(|group| group.decided).sum()),
        })
    }

    /// Formats the rates as one phrase.
    pub fn text(&self) -> String {
        let count = |rate: f64| show_count(rate.round() as u64);
        format!(
            "now {} requests/s, {} syncs/s, {} log entries/s",
            count(self.requests),
            count(self.syncs),
            count(self.decided)
        )
    }
}

fn requests(status: &NodeStatus) -> u64 {
    let RequestCounts { http, resp, arakoon, riak } = status.requests;
    http + resp + arakoon + riak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;

    #[test]
    fn rates_are_computed_from_node_uptime() {
        let earlier = examples::three_nodes();
        let mut later = examples::three_nodes();
        later.uptime_ms = 7_502_000;
        later.requests.http = 3_234;
        later.requests.riak = 500;
        later.log.syncs = 12_445;
        later.groups[1].decided = 1_233;
        let rates = Rates::between(&earlier, &later).expect("two seconds have passed");
        assert_eq!(rates, Rates { requests: 1_250.0, syncs: 50.0, decided: 10.0 });
        assert_eq!(rates.text(), "now 1,250 requests/s, 50 syncs/s, 10 log entries/s");
    }

    #[test]
    fn rates_are_absent_after_restart_or_without_elapsed_time() {
        let earlier = examples::three_nodes();
        assert_eq!(Rates::between(&earlier, &earlier), None, "no time has passed");
        let mut later = examples::three_nodes();
        (later.incarnation, later.uptime_ms) = (2, 7_600_000);
        assert_eq!(Rates::between(&earlier, &later), None);
    }
}
