//! Report of a soak that fails: what each node says of its groups, and the end of its log. Both are
//! gone once the cluster has ended.

use super::faulty::{FaultInjector, SECOND_GROUP};
use systest::report::print_line;

/// Number of lines of each node's log.
const LOG_LINES: usize = 150;

impl Drop for FaultInjector {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for group in 0..=SECOND_GROUP {
            for node in self.cluster.nodes() {
                let status = self.cluster.group_status(node, group);
                print_line(&format!("    group {group} at node {node}: {status:?}"));
            }
        }
        print_line(&self.cluster.last_log_lines(LOG_LINES));
    }
}
