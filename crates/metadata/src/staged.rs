//! Planned changes of the ring that have not begun: a row of text.
//!
//! ```text
//! 1
//! join|n5|rack        a tab where | stands; the fields in the order of `RingChange`
//! ```

use super::rows::{RING_PLAN, bad_row};
use base::cluster::check_member_name;
use base::codec::{Malformed, printable};
use base::limits::RING_CHANGES_MAX;
use base::{Error, Reason, Result, RingChange};
use bytes::Bytes;

const FORM: &str = "1";

/// Returns the key of the row.
pub(super) fn key() -> Bytes {
    Bytes::from_static(RING_PLAN)
}

/// Encodes changes as a row.
pub(super) fn write(changes: &[RingChange]) -> Bytes {
    let mut text = format!("{FORM}\n");
    for change in changes {
        let fields: &[&String] = match change {
            RingChange::Join { node, rack } | RingChange::Rack { node, rack } => &[node, rack],
            RingChange::Leave { node } => &[node],
            RingChange::Replace { node, by, rack } => &[node, by, rack],
            RingChange::Double | RingChange::Halve => &[],
        };
        text.push_str(change.name());
        for field in fields {
            text.push('\t');
            text.push_str(field);
        }
        text.push('\n');
    }
    text.into()
}

/// Decodes the changes of a row.
pub(super) fn read(row: &[u8]) -> Result<Vec<RingChange>> {
    let bad = || bad_row(Malformed("changes of the ring"));
    let mut lines = std::str::from_utf8(row).map_err(|_| bad())?.lines();
    if lines.next() != Some(FORM) {
        return Err(bad());
    }
    lines.map(|line| read_line(line).ok_or_else(bad)).collect()
}

fn read_line(line: &str) -> Option<RingChange> {
    let fields: Vec<String> = line.split('\t').map(String::from).collect();
    let mut fields = fields.into_iter();
    let kind = fields.next()?;
    let mut next = || fields.next();
    let change = match kind.as_str() {
        "join" => RingChange::Join { node: next()?, rack: next()? },
        "leave" => RingChange::Leave { node: next()? },
        "replace" => RingChange::Replace { node: next()?, by: next()?, rack: next()? },
        "rack" => RingChange::Rack { node: next()?, rack: next()? },
        "double" => RingChange::Double,
        "halve" => RingChange::Halve,
        _ => return None,
    };
    fields.next().is_none().then_some(change)
}

/// Checks that a change can be planned in addition to `staged_count` others.
pub(super) fn check(change: &RingChange, staged_count: usize) -> Result<()> {
    let (names, rack): (&[&String], Option<&String>) = match change {
        RingChange::Join { node, rack } | RingChange::Rack { node, rack } => (&[node], Some(rack)),
        RingChange::Leave { node } => (&[node], None),
        RingChange::Replace { node, by, rack } => (&[node, by], Some(rack)),
        RingChange::Double | RingChange::Halve => (&[], None),
    };
    names.iter().try_for_each(|name| check_member_name(name))?;
    if let Some(rack) = rack.filter(|rack| !rack.is_empty() && check_member_name(rack).is_err()) {
        let text = format!(
            "invalid rack name {}: a rack name must have the form of a member's name, or be empty",
            printable(rack.as_bytes())
        );
        return Err(Error::new(Reason::Malformed, text));
    }
    if staged_count >= RING_CHANGES_MAX {
        let text = format!("a plan may have at most {RING_CHANGES_MAX} changes (ring_changes_max)");
        return Err(Error::new(Reason::TooMany, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_ring_changes_round_trip_in_fixed_bytes() {
        let text = |text: &str| text.to_string();
        let changes = [
            RingChange::Join { node: text("n5"), rack: text("r 1") },
            RingChange::Leave { node: text("n1") },
            RingChange::Replace { node: text("n2"), by: text("n6"), rack: text("") },
            RingChange::Rack { node: text("n3"), rack: text("") },
            RingChange::Double,
            RingChange::Halve,
        ];
        let row = write(&changes);
        let kept = "1\njoin\tn5\tr 1\nleave\tn1\nreplace\tn2\tn6\t\nrack\tn3\t\ndouble\nhalve\n";
        assert_eq!(row, kept);
        assert_eq!(read(&row).expect("it reads"), changes);
        for bad in ["", "2\n", "1\njoin\n", "1\njoin\ta\tb\tc\n", "1\nleave\n", "1\nx\n"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn staged_ring_change_with_tab_or_beyond_limit_is_refused() {
        let join = |node: &str| RingChange::Join { node: node.into(), rack: String::new() };
        assert!(check(&join("n5"), 0).is_ok());
        assert!(check(&join("n5\tx"), 0).is_err());
        let rack = RingChange::Rack { node: "n5".into(), rack: "r\t".into() };
        assert!(check(&rack, 0).is_err());
        assert!(check(&join("n5"), RING_CHANGES_MAX).is_err());
    }
}
