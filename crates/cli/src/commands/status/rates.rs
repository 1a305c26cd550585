//! Rates between two statuses of a node: requests, log syncs and decided entries a second.

use crate::settings::units::show_count;
use serde_json::Value;

/// Rates a second between two statuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    requests: f64,
    syncs: f64,
    decided: f64,
}

impl Rates {
    /// Returns the rates between an earlier status and a later one. `None`: the node has restarted
    /// in between, or no time has passed on its clock.
    pub fn between(earlier: &Value, later: &Value) -> Option<Rates> {
        let same = |name: &str| earlier[name] == later[name];
        if !same("node") || !same("incarnation") {
            return None;
        }
        let up = |status: &Value| status["uptime_ms"].as_u64();
        let elapsed = up(later)?.checked_sub(up(earlier)?).filter(|ms| *ms > 0)?;
        let rate = |total: fn(&Value) -> u64| {
            let grown = total(later).saturating_sub(total(earlier));
            grown as f64 * 1e3 / elapsed as f64
        };
        Some(Rates { requests: rate(requests), syncs: rate(syncs), decided: rate(decided) })
    }

    /// Formats the rates as one phrase.
    pub fn text(&self) -> String {
        let shown = |rate: f64| show_count(rate.round() as u64);
        format!(
            "now {} requests/s, {} syncs/s, {} log entries/s",
            shown(self.requests),
            shown(self.syncs),
            shown(self.decided)
        )
    }
}

fn requests(status: &Value) -> u64 {
    status["requests"].as_object().into_iter().flatten().filter_map(|it| it.1.as_u64()).sum()
}

fn syncs(status: &Value) -> u64 {
    status["log"]["syncs"].as_u64().unwrap_or_default()
}

fn decided(status: &Value) -> u64 {
    let groups = status["groups"].as_array().into_iter().flatten();
    groups.filter_map(|group| group["decided"].as_u64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;
    use serde_json::json;

    #[test]
    fn rates_are_counted_by_the_node_s_own_clock() {
        let earlier = examples::three();
        let mut later = examples::three();
        later["uptime_ms"] = json!(7_502_000);
        later["requests"]["http"] = json!(3_234);
        later["requests"]["riak"] = json!(500);
        later["log"]["syncs"] = json!(12_445);
        later["groups"][1]["decided"] = json!(1_233);
        let rates = Rates::between(&earlier, &later).expect("two seconds have passed");
        assert_eq!(rates, Rates { requests: 1_250.0, syncs: 50.0, decided: 10.0 });
        assert_eq!(rates.text(), "now 1,250 requests/s, 50 syncs/s, 10 log entries/s");
    }

    #[test]
    fn a_node_that_has_started_anew_has_no_rates() {
        let earlier = examples::three();
        assert_eq!(Rates::between(&earlier, &earlier), None, "no time has passed");
        let mut later = examples::three();
        (later["incarnation"], later["uptime_ms"]) = (json!(2), json!(7_600_000));
        assert_eq!(Rates::between(&earlier, &later), None);
    }
}
