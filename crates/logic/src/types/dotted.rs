//! Values stored under the dots of the changes that created them.

use base::dots::DotContext;
use std::collections::BTreeMap;

/// Actor of a change, and its counter.
pub(super) type Dot<I> = (I, u64);

/// Values by dot.
pub(super) type Dotted<I, P> = BTreeMap<Dot<I>, P>;

/// Merges: keeps values of both sides, and values of one side whose dots the other has not seen.
pub(super) fn merge<I: Ord + Clone, P: Ord>(
    ours: Dotted<I, P>,
    known_ours: &DotContext<I>,
    mut theirs: Dotted<I, P>,
    known_theirs: &DotContext<I>,
) -> Dotted<I, P> {
    let mut merged = Dotted::new();
    for (dot, own) in ours {
        match theirs.remove(&dot) {
            // One dot has one value; if two had the same dot, all replicas would keep the same
            // value.
            Some(other) => drop(merged.insert(dot, own.max(other))),
            None if known_theirs.contains(&dot.0, dot.1) => {}
            None => drop(merged.insert(dot, own)),
        }
    }
    theirs.retain(|(id, count), _| !known_ours.contains(id, *count));
    merged.append(&mut theirs);
    merged
}

/// Drops the values whose dots a context covers.
pub(super) fn forget<I: Ord + Clone, P>(dots: &mut Dotted<I, P>, seen: &DotContext<I>) {
    dots.retain(|(id, count), _| !seen.contains(id, *count));
}
