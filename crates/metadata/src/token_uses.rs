//! Uses of a join token: the number of nodes that it may still let in, and those that it has let
//! in. It is the value of the token's row.
//!
//! ```text
//! 1                       any number of nodes
//! 2, left u32, uses       a number of nodes; a use is a member's name and its node, 0 if it has
//!                         only been replaced so far
//! ```
//!
//! A use belongs to one member. Until that member's node has connected to the others, the same node
//! may ask again: its first answer may be lost, and it has not stored the cluster's secret then.
//! From then on whoever presents the token for the same node is refused, because the answer has
//! the secret.
//!
//! Promises: a token with a number of uses lets in that many nodes at most, whichever members they
//! ask.

use super::rows::bad_row;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{JOIN_TOKEN_USES_MAX, NAME_BYTES_MAX};
use base::{ClusterCall, Error, NodeId, Reason, Result, Value};
use bytes::Bytes;

/// Form of a token for any number of nodes. Later versions may append fields.
const UNLIMITED: u8 = 1;
/// Form of a token for a number of nodes.
const LIMITED: u8 = 2;

/// Uses of a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenUses {
    /// Lets in any number of nodes.
    Unlimited,
    /// Lets in a number of nodes.
    Limited {
        /// Number of nodes that it may still let in.
        left: u32,
        /// Uses so far.
        uses: Vec<TokenUse>,
    },
}

/// Use of a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenUse {
    /// Name of the member.
    pub name: String,
    /// Node that came in. `None`: the member gave its place up, and its successor has yet to join.
    pub node: Option<NodeId>,
}

impl TokenUses {
    /// Returns the uses of a new token. `None`: any number.
    pub fn new(uses: Option<u32>) -> TokenUses {
        match uses {
            Some(left) => TokenUses::Limited { left, uses: Vec::new() },
            None => TokenUses::Unlimited,
        }
    }

    /// Decodes a row.
    pub fn read(row: &[u8]) -> Result<TokenUses> {
        read(row).map_err(bad_row)
    }

    /// Returns the bytes of the row.
    pub fn write(&self) -> Value {
        let TokenUses::Limited { left, uses } = self else {
            return Bytes::from_static(&[UNLIMITED]);
        };
        let mut bytes = vec![LIMITED];
        bytes.put_u32(*left);
        bytes.put_u32(uses.len() as u32);
        for TokenUse { name, node } in uses {
            bytes.put_string(name.as_bytes());
            bytes.put_u64(node.unwrap_or_default().0);
        }
        Bytes::from(bytes)
    }

    /// Returns the uses after a call of a node that presents the token. `None`: the call changes
    /// none. `has_connected`: returns true for nodes that need no further answer, since they have
    /// connected to the other members or are none any more.
    ///
    /// Errors: `Forbidden`, if the token has let in as many nodes as it may.
    pub fn after(
        &self,
        call: &ClusterCall,
        has_connected: &dyn Fn(NodeId) -> bool,
    ) -> Result<Option<TokenUses>> {
        let TokenUses::Limited { left, uses } = self else { return Ok(None) };
        let waits = |used: &TokenUse| used.node.is_none_or(|node| !has_connected(node));
        let (name, node) = match call {
            ClusterCall::AddMember { member, .. } => (&member.name, Some(member.node)),
            ClusterCall::ReplaceMember { name, .. } => (name, None),
            // A node asks who the members are, before it joins or has its place taken.
            _ if *left > 0 || uses.iter().any(waits) => return Ok(None),
            _ => return Err(spent()),
        };
        if uses.iter().any(|used| used.node == node && node.is_some_and(has_connected)) {
            return Err(spent());
        }
        let is_same = |used: &TokenUse| match (node, used.node) {
            (Some(node), Some(known)) => node == known,
            (None, None) => used.name == *name,
            _ => false,
        };
        if uses.iter().any(is_same) {
            return Ok(None);
        }
        let mut uses = uses.clone();
        let successor = uses.iter_mut().find(|used| used.node.is_none() && used.name == *name);
        match successor.filter(|_| node.is_some()) {
            Some(used) => {
                used.node = node;
                Ok(Some(TokenUses::Limited { left: *left, uses }))
            }
            None => {
                let left = left.checked_sub(1).ok_or_else(spent)?;
                uses.push(TokenUse { name: name.clone(), node });
                Ok(Some(TokenUses::Limited { left, uses }))
            }
        }
    }

    /// Returns true if the token may let in a node that has not asked yet, or the successor of a
    /// member that gave its place up.
    pub fn admits_more(&self) -> bool {
        match self {
            TokenUses::Unlimited => true,
            TokenUses::Limited { left, uses } => {
                *left > 0 || uses.iter().any(|used| used.node.is_none())
            }
        }
    }

    /// Returns true if nobody can use the token any more, not even to ask again.
    pub fn is_over(&self, has_connected: &dyn Fn(NodeId) -> bool) -> bool {
        match self {
            TokenUses::Unlimited => false,
            TokenUses::Limited { left, uses } => {
                *left == 0 && uses.iter().all(|used| used.node.is_some_and(has_connected))
            }
        }
    }
}

fn read(row: &[u8]) -> std::result::Result<TokenUses, Malformed> {
    const FIELD: &str = "join token";
    let mut reader = Reader::new(row);
    match reader.u8(FIELD)? {
        UNLIMITED => return Ok(TokenUses::Unlimited),
        LIMITED => {}
        _ => return Err(Malformed(FIELD)),
    }
    let (left, count) = (reader.u32(FIELD)?, reader.u32(FIELD)?);
    if left.saturating_add(count) > JOIN_TOKEN_USES_MAX {
        return Err(Malformed(FIELD));
    }
    let mut uses = Vec::new();
    for _ in 0..count {
        let name = std::str::from_utf8(reader.string(NAME_BYTES_MAX, FIELD)?);
        let name = name.map_err(|_| Malformed(FIELD))?.to_string();
        let node = Some(NodeId(reader.u64(FIELD)?)).filter(|node| node.0 != 0);
        uses.push(TokenUse { name, node });
    }
    reader.end(FIELD).map(|()| TokenUses::Limited { left, uses })
}

/// Returns the error of a token that has let in as many nodes as it may.
pub(super) fn spent() -> Error {
    let text = "this join token was used already: create another with `credenza cluster token` on \
                a member's machine (`--uses N` for several nodes, `--standing` for nodes that keep \
                it)";
    Error::new(Reason::Forbidden, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FeatureLevel, MemberDescription, Membership, Part};

    fn join(node: u64, name: &str) -> ClusterCall {
        let member = MemberDescription {
            node: NodeId(node),
            name: name.into(),
            peer: "a:1".into(),
            client: "a:2".into(),
            incarnation: 0,
            membership: Membership::Member,
        };
        let (part, level) = (Part::Voter, FeatureLevel::HIGHEST);
        ClusterCall::AddMember { member, part, lease_ms: 600, level }
    }

    fn replace(name: &str) -> ClusterCall {
        ClusterCall::ReplaceMember { name: name.into(), by: None }
    }

    /// Applies a call while none of the nodes above 100 has connected.
    fn apply(uses: &mut TokenUses, call: &ClusterCall) -> Result<()> {
        let changed = uses.after(call, &|node| node.0 <= 100)?;
        *uses = changed.unwrap_or(uses.clone());
        assert_eq!(TokenUses::read(&uses.write()), Ok(uses.clone()));
        Ok(())
    }

    fn must_be_spent(uses: &TokenUses, call: &ClusterCall) {
        let refused = uses.after(call, &|node| node.0 <= 100).expect_err("it was used");
        assert_eq!(refused.reason, Reason::Forbidden);
        assert!(refused.text().contains("was used already"), "{refused}");
        assert!(refused.text().contains("credenza cluster token"), "{refused}");
    }

    #[test]
    fn single_use_token_admits_one_node_which_may_ask_again_until_it_has_connected() {
        let mut uses = TokenUses::new(Some(1));
        apply(&mut uses, &ClusterCall::Describe).expect("unused");
        apply(&mut uses, &join(101, "n2")).expect("the first");
        assert!(!uses.admits_more() && !uses.is_over(&|node| node.0 <= 100));
        for _ in 0..3 {
            apply(&mut uses, &ClusterCall::Describe).expect("it asks again");
            apply(&mut uses, &join(101, "n2")).expect("it asks again");
            must_be_spent(&uses, &join(102, "n3"));
            must_be_spent(&uses, &join(102, "n2"));
            must_be_spent(&uses, &replace("n2"));
        }
        let has_connected = |_: NodeId| true;
        for call in [ClusterCall::Describe, join(101, "n2"), join(102, "n3"), replace("n2")] {
            let refused = uses.after(&call, &has_connected).map_err(|error| error.reason);
            assert_eq!(refused, Err(Reason::Forbidden), "{call:?}");
        }
        assert!(uses.is_over(&has_connected));
    }

    #[test]
    fn one_use_covers_the_replacement_of_a_member_and_the_join_of_its_successor() {
        let mut uses = TokenUses::new(Some(1));
        apply(&mut uses, &replace("n2")).expect("unused");
        apply(&mut uses, &replace("n2")).expect("it asks again");
        must_be_spent(&uses, &replace("n3"));
        must_be_spent(&uses, &join(103, "n3"));
        apply(&mut uses, &ClusterCall::Describe).expect("it asks before it joins");
        apply(&mut uses, &join(102, "n2")).expect("the successor");
        apply(&mut uses, &join(102, "n2")).expect("it asks again");
        must_be_spent(&uses, &join(103, "n2"));
        assert!(!uses.admits_more());
    }

    #[test]
    fn token_admits_as_many_nodes_as_its_uses_say_and_a_standing_one_any_number() {
        let mut uses = TokenUses::new(Some(3));
        for node in 101..=103 {
            assert!(uses.admits_more());
            apply(&mut uses, &join(node, &format!("n{node}"))).expect("there are uses left");
        }
        must_be_spent(&uses, &join(104, "n104"));
        apply(&mut uses, &join(102, "n102")).expect("it asks again");
        let mut standing = TokenUses::new(None);
        for node in 1..=200 {
            apply(&mut standing, &join(node, "n")).expect("any number");
        }
        assert!(standing.admits_more() && !standing.is_over(&|_| true));
    }

    #[test]
    fn row_of_a_token_without_a_number_is_that_of_earlier_versions() {
        assert_eq!(TokenUses::Unlimited.write(), &[1][..]);
        assert_eq!(TokenUses::read(&[1, 9, 9]), Ok(TokenUses::Unlimited), "fields of later ones");
        let one = TokenUses::new(Some(1)).write();
        assert_eq!(one, &[2, 1, 0, 0, 0, 0, 0, 0, 0][..]);
        let too_many = [2, 0, 1, 0, 0, 0, 0, 0, 0];
        for bad in [&[][..], &[3], &one[..8], &[one.as_ref(), &[0]].concat(), &too_many] {
            assert!(TokenUses::read(bad).is_err(), "{bad:?}");
        }
    }
}
