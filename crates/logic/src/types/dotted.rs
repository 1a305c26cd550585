//! Things under the dots that put them there.

use base::dots::DotContext;
use std::collections::BTreeMap;

/// Who, and which of its changes.
pub(super) type Dot<I> = (I, u64);

/// Things by dot.
pub(super) type Dotted<I, P> = BTreeMap<Dot<I>, P>;

/// What both sides hold, and what one holds that the other has never heard of.
pub(super) fn merge<I: Ord + Clone, P: Ord>(
    ours: Dotted<I, P>,
    heard_ours: &DotContext<I>,
    mut theirs: Dotted<I, P>,
    heard_theirs: &DotContext<I>,
) -> Dotted<I, P> {
    let mut kept = Dotted::new();
    for (dot, own) in ours {
        match theirs.remove(&dot) {
            // One dot, one thing; should two bear one name, all replicas keep the same.
            Some(other) => drop(kept.insert(dot, own.max(other))),
            None if heard_theirs.contains(&dot.0, dot.1) => {}
            None => drop(kept.insert(dot, own)),
        }
    }
    theirs.retain(|(id, count), _| !heard_ours.contains(id, *count));
    kept.append(&mut theirs);
    kept
}

/// Drops what a context has seen.
pub(super) fn forget<I: Ord + Clone, P>(dots: &mut Dotted<I, P>, seen: &DotContext<I>) {
    dots.retain(|(id, count), _| !seen.contains(id, *count));
}
