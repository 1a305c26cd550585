//! Available buckets and the ring, as the directory knows them.
//!
//! A bucket of an available type exists by being named, so that a write never waits for a
//! majority of the directory. It has a row only if its properties are not its type's.
//!
//! The ring is one row. It begins with all partitions at the founder. `Claim` gives every member
//! that stays its even part; nothing is moved by it, so it is decided only when its caller has made
//! sure that there is nothing to be moved (`available/claim.rs`).

use super::buckets::{fixed_values, supported};
use super::rows::{RING, assert, bad_row, custom_key, properties_of, set, write_properties};
use super::{Directory, Plan};
use base::bucket::BucketName;
use base::codec::Malformed;
use base::properties::Changes;
use base::request::Missing;
use base::{
    Body, BucketDescription, BucketId, DirectoryCall, Error, GroupId, NodeId, Promise, Properties,
    Reason, Result, RingCall, RingDescription, Stay, Update, Value,
};
use bytes::Bytes;
use logic::ring::{Change, PARTITIONS_DEFAULT, Rack, Ring, plan};
use std::collections::BTreeSet;

/// For so many copies the ring is laid out.
const COPIES: usize = 3;

impl Directory {
    /// What a call means for an available bucket; none: it does not speak of one.
    pub(super) fn plan_available(
        &self,
        name: &BucketName,
        call: &DirectoryCall,
    ) -> Result<Option<Plan>> {
        let speaks = matches!(
            call,
            DirectoryCall::CreateBucket(_)
                | DirectoryCall::AlterBucket(_)
                | DirectoryCall::DropBucket
                | DirectoryCall::ClearBucket
                | DirectoryCall::ResetBucket
                | DirectoryCall::DescribeBucket
                | DirectoryCall::PlaceBucket { .. }
                | DirectoryCall::MoveBucket { .. }
        );
        let template = if speaks { self.template(name.kind()).ok() } else { None };
        let Some((_, template)) = template.filter(|(_, it)| it.promise == Promise::Available)
        else {
            return Ok(None);
        };
        let refused = |text: &str| Err(Error::new(Reason::NotSupported, text));
        match call {
            DirectoryCall::DescribeBucket => {
                let (_, properties) = self.custom(name, template)?;
                let (name, id, group) = (name.clone(), BucketId(0), GroupId(0));
                let bucket = BucketDescription { name, id, group, properties, moving: None };
                Ok(Some(Plan::Answer(Body::Buckets(vec![bucket]))))
            }
            DirectoryCall::CreateBucket(changes) | DirectoryCall::AlterBucket(changes) => {
                self.customize(name, template, changes).map(Some)
            }
            DirectoryCall::ResetBucket => {
                let (Some(value), _) = self.custom(name, template)? else {
                    return Ok(Some(Plan::Answer(Body::Done)));
                };
                let key = custom_key(name);
                let reset = Update::Delete { key: key.clone(), missing: Missing::Fails };
                Ok(Some(Plan::Change(vec![assert(&key, Some(value)), reset])))
            }
            DirectoryCall::DropBucket | DirectoryCall::ClearBucket => refused(
                "an available bucket exists by being named: delete its keys, and it holds nothing",
            ),
            _ => refused("an available bucket lives on the ring, not in a group"),
        }
    }

    /// A bucket's properties, and the row that holds them if they are not its type's.
    fn custom(
        &self,
        name: &BucketName,
        template: Properties,
    ) -> Result<(Option<Value>, Properties)> {
        match self.get(&custom_key(name))? {
            Some(value) => {
                let properties = properties_of(&value)?;
                Ok((Some(value), properties))
            }
            None => Ok((None, template)),
        }
    }

    fn customize(
        &self,
        name: &BucketName,
        template: Properties,
        changes: &Changes,
    ) -> Result<Plan> {
        if changes.is_empty() {
            return Ok(Plan::Answer(Body::Done));
        }
        let (value, before) = self.custom(name, template)?;
        let after = supported(before.with(changes)?)?;
        fixed_values(&before, &after)?;
        let key = custom_key(name);
        let row = set(key.clone(), write_properties(&after));
        Ok(Plan::Change(vec![assert(&key, value), row]))
    }

    /// The ring, and its row.
    fn ring(&self) -> Result<Option<(Value, Ring)>> {
        let Some(value) = self.get(&Bytes::from_static(RING))? else { return Ok(None) };
        let ring = read_ring(&value)?;
        Ok(Some((value, ring)))
    }

    pub(super) fn plan_ring(&self, call: RingCall) -> Result<Plan> {
        let known = self.ring()?;
        match call {
            RingCall::Describe => {
                let described = known.map(|(_, ring)| described(&ring)).unwrap_or_default();
                Ok(Plan::Answer(Body::Ring(described)))
            }
            RingCall::Claim => self.claim(known),
        }
    }

    /// Whether giving out the ring would change it.
    pub(crate) fn claim_changes(&self) -> Result<bool> {
        Ok(!matches!(self.plan_ring(RingCall::Claim)?, Plan::Answer(_)))
    }

    /// Every member that stays takes its part at once.
    fn claim(&self, before: Option<(Value, Ring)>) -> Result<Plan> {
        let known = self.described()?;
        // A witness keeps no data.
        let keeps = |node| !known.is_witness(node);
        let stays = known.members.iter().filter(|member| member.stay == Stay::Member);
        let stays = stays.filter(|member| keeps(member.node));
        let stays: Vec<NodeId> = stays.map(|member| member.node).collect();
        let (value, ring) = match before {
            Some((value, ring)) => (Some(value), ring),
            None => {
                let first = stays.first().copied().ok_or_else(|| {
                    Error::new(Reason::Changed, "the cluster has no member that stays")
                })?;
                (None, founded(first))
            }
        };
        let has = |node: &NodeId| ring.layout().nodes().contains_key(node);
        let come = stays.iter().filter(|node| !has(node));
        let go = ring.layout().nodes().keys().filter(|node| !stays.contains(node));
        let rack = || Rack(String::new());
        let mut changes: Vec<_> =
            come.map(|node| Change::Join { node: *node, rack: rack() }).collect();
        changes.extend(go.map(|node| Change::Leave { node: *node }));
        if changes.is_empty() {
            return match value {
                Some(_) => Ok(Plan::Answer(Body::Ring(described(&ring)))),
                None => Ok(changed(None, &ring)),
            };
        }
        let refused = |error: logic::ring::Unsafe| {
            Error::new(Reason::Changed, format!("the ring can't be changed so: {error}"))
        };
        let plan = plan(&ring, &changes, COPIES, &BTreeSet::new()).map_err(refused)?;
        let mut next = ring.commit(&plan).map_err(refused)?;
        // There is nothing to be moved, so every partition has arrived.
        for copying in next.copying(COPIES) {
            next = next.arrive(copying.partition).unwrap_or(next);
        }
        Ok(changed(value, &next))
    }

    /// The first ring of a cluster; none if it has one.
    pub(super) fn plan_first_ring(&self, founder: NodeId) -> Result<Plan> {
        match self.ring()? {
            Some(_) => Ok(Plan::Answer(Body::Done)),
            None => Ok(Plan::Change(vec![
                assert(&Bytes::from_static(RING), None),
                put_ring(&founded(founder)),
            ])),
        }
    }
}

fn founded(node: NodeId) -> Ring {
    Ring::founded(node, Rack(String::new()), PARTITIONS_DEFAULT, COPIES)
}

fn changed(value: Option<Value>, ring: &Ring) -> Plan {
    let steps = vec![assert(&Bytes::from_static(RING), value), put_ring(ring)];
    Plan::Made(steps, Body::Ring(described(ring)))
}

fn put_ring(ring: &Ring) -> Update {
    set(Bytes::from_static(RING), Bytes::from(ring.encode()))
}

/// The ring of a row.
pub(crate) fn read_ring(value: &[u8]) -> Result<Ring> {
    Ring::decode(value).map_err(|Malformed(field)| bad_row(Malformed(field)))
}

/// The ring in words that every room knows.
pub(crate) fn described(ring: &Ring) -> RingDescription {
    let owner = |partition| ring.owners(base::Partition(partition), 1).first().copied();
    let owners = (0..ring.partitions()).map(|partition| owner(partition).unwrap_or_default());
    RingDescription { epoch: ring.epoch(), owners: owners.collect() }
}
