//! Text form of a plan, for the operator who approves it.

use super::plan::Plan;
use base::NodeId;
use std::fmt::Write;

impl Plan {
    /// Returns the plan as a table and its warnings; `name` returns the names of nodes.
    pub fn text(&self, name: impl Fn(NodeId) -> String) -> String {
        let mut text = String::new();
        let names: Vec<_> = self.loads.iter().map(|load| name(load.node)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
        // A write into a String does not fail.
        let _ = writeln!(text, "{:width$}  partitions    copies", "node");
        for (load, name) in self.loads.iter().zip(names) {
            let share = |count: Option<usize>| count.map_or("-".into(), |count| count.to_string());
            let (before, after) = (share(load.before), share(load.after));
            let (kept, keeps) = (load.copies_before, load.copies_after);
            let _ =
                writeln!(text, "{name:width$}  {before:>4} -> {after:<4}  {kept:>4} -> {keeps}");
        }
        let _ = match (self.doubles, self.halves) {
            (true, _) => writeln!(text, "each partition becomes two; no copy moves"),
            (_, true) => writeln!(
                text,
                "each two partitions become one, after {} of {} copies have moved",
                self.copies_sent, self.copies
            ),
            _ => writeln!(
                text,
                "{} of {} partitions change their owner, {} of {} copies move",
                self.moves.len(),
                self.next.partitions(),
                self.copies_sent,
                self.copies
            ),
        };
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}
