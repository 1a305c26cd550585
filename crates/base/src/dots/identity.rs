//! Encoding of actor ids, which name the creators of dots.

use crate::codec::{Malformed, Reader, Writer};
use crate::{Actor, NodeId, varint};

/// Identity that mints dots, as bytes. In a sorted list each is encoded relative to the previous
/// one.
pub trait Identity: Ord + Clone {
    /// Fewest bytes of one identity.
    const BYTES_MIN: usize;
    /// Most bytes of one identity.
    const BYTES_MAX: usize;
    /// Appends the identity.
    fn put(&self, previous: Option<&Self>, out: &mut Vec<u8>);
    /// Reads an identity; refuses any form but the one that [`Identity::put`] chooses.
    fn take(previous: Option<&Self>, from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Highest incarnation that fits next to the two marks below.
pub const INCARNATION_MAX: u64 = (1 << 62) - 1;
/// Mark: the node equals the previous actor's and is omitted.
const SAME_NODE: u64 = 2;
/// Mark: the vnode differs from the previous actor's and follows.
const OTHER_VNODE: u64 = 1;

/// Encodes an actor as its incarnation with two marks, then its node (8 bytes) and its vnode, each
/// only where it differs from the previous actor's. All replicas of a key are vnodes of one
/// partition, so the vnode is written once.
impl Identity for Actor {
    const BYTES_MIN: usize = 1;
    const BYTES_MAX: usize = 10 + 8 + 5;

    fn put(&self, previous: Option<&Actor>, out: &mut Vec<u8>) {
        assert!(self.incarnation <= INCARNATION_MAX, "incarnations go up by far less");
        let same_node = previous.is_some_and(|previous| previous.node == self.node);
        let other_vnode = previous.map_or(0, |previous| previous.vnode) != self.vnode;
        let marks = u64::from(same_node) * SAME_NODE + u64::from(other_vnode) * OTHER_VNODE;
        varint::put(self.incarnation << 2 | marks, out);
        if !same_node {
            out.put_u64(self.node.0);
        }
        if other_vnode {
            varint::put(self.vnode.into(), out);
        }
    }

    fn take(previous: Option<&Actor>, from: &mut Reader<'_>) -> Result<Actor, Malformed> {
        let head = varint::take(from, "an actor's incarnation")?;
        let node = match (head & SAME_NODE != 0, previous) {
            (true, Some(previous)) => previous.node,
            (true, None) => return Err(Malformed("the first actor names no node")),
            (false, _) => {
                let node = NodeId(from.u64("an actor's node")?);
                if previous.is_some_and(|previous| previous.node == node) {
                    return Err(Malformed("an actor's node stands there twice"));
                }
                node
            }
        };
        let previous_vnode = previous.map_or(0, |previous| previous.vnode);
        let vnode = if head & OTHER_VNODE != 0 {
            let vnode = varint::take(from, "an actor's vnode")?;
            match u32::try_from(vnode) {
                Ok(vnode) if vnode != previous_vnode => vnode,
                _ => return Err(Malformed("an actor's vnode")),
            }
        } else {
            previous_vnode
        };
        Ok(Actor { node, vnode, incarnation: head >> 2 })
    }
}
