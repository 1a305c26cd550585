//! Feature level in the directory: the level in force, and the highest level that each member's
//! program knows.
//!
//! Group 0's master records the members' levels as it meets them. Programs before levels skip the
//! row; a cluster without it is of the first level.
//!
//! Promises: the level in force never falls; it rises only to a level that every member knows, by a
//! change that asserts the members; a node of a lower level does not join.
//! Never: asks a node; marks a data directory (`node` does, before the level rises).

use super::draft::Draft;
use super::rows::{LEVEL, ROW_VERSION, bad_row, check_version, set};
use super::{CallPlan, Directory};
use base::codec::{Malformed, Reader, Writer};
use base::limits::PEERS_MAX;
use base::{
    Body, ClusterDescription, Error, FeatureLevel, MemberDescription, NodeId, Reason, Result,
    Update, Value,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The row `n/level`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelRow {
    /// Level in force.
    pub level: FeatureLevel,
    /// Highest level that each member's program knows, as far as it was met.
    pub members: BTreeMap<NodeId, FeatureLevel>,
}

impl LevelRow {
    /// Returns the names of the members whose programs are not known to know a level.
    pub fn lower_members(
        &self,
        cluster: &ClusterDescription,
        level: FeatureLevel,
    ) -> Vec<(String, Option<FeatureLevel>)> {
        let known = |member: &MemberDescription| self.members.get(&member.node).copied();
        let lower = cluster.members.iter().filter(|member| known(member) < Some(level));
        lower.map(|member| (member.name.clone(), known(member))).collect()
    }
}

impl Directory {
    /// Returns the level in force and those of the members.
    pub fn level_row(&self) -> Result<LevelRow> {
        let row = self.get(&Bytes::from_static(LEVEL))?;
        row.map_or_else(|| Ok(LevelRow::default()), |value| read(&value))
    }

    /// Records the highest levels of members' programs, of those that were met.
    pub async fn record_levels(&self, met: &[(NodeId, FeatureLevel)]) -> Result<()> {
        self.change(|| self.plan_levels(met)).await.map(|_| ())
    }

    fn plan_levels(&self, met: &[(NodeId, FeatureLevel)]) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        let before = self.level_row()?;
        let after = before.after_meeting(&draft.cluster, met);
        if after != before {
            draft.put_levels(&after);
        }
        draft.into_plan()
    }

    /// Plans a rise of the level in force. The caller has made sure that every member's data
    /// directory is marked with it.
    pub(super) fn plan_raise(&self, level: FeatureLevel) -> Result<CallPlan> {
        let (mut draft, row) = (self.draft()?, self.level_row()?);
        if level <= row.level {
            return Ok(CallPlan::Answer(Body::Done));
        }
        check_raise(&row, &draft.cluster, level)?;
        draft.put_levels(&LevelRow { level, ..row });
        draft.into_plan()
    }
}

impl LevelRow {
    /// Returns the row once these levels are known. Nodes that are no members any more are left
    /// out.
    pub fn after_meeting(
        &self,
        cluster: &ClusterDescription,
        met: &[(NodeId, FeatureLevel)],
    ) -> LevelRow {
        let mut members = self.members.clone();
        members.extend(met.iter().copied());
        members.retain(|node, _| cluster.member(*node).is_some());
        LevelRow { level: self.level, members }
    }
}

/// Returns an error if a member's program is not known to know a level.
pub fn check_raise(
    row: &LevelRow,
    cluster: &ClusterDescription,
    level: FeatureLevel,
) -> Result<()> {
    let lower = row.lower_members(cluster, level);
    if lower.is_empty() {
        return Ok(());
    }
    let describe = |(name, known): &(String, Option<FeatureLevel>)| match known {
        Some(known) => format!("`{name}` (its program knows level {known})"),
        None => format!("`{name}` (its program was not met yet)"),
    };
    let names: Vec<_> = lower.iter().map(describe).collect();
    Err(Error::new(
        Reason::NotSupported,
        format!(
            "nothing was changed: these members hold feature level {level} back: {}; run {} on \
             them, or remove them",
            names.join(", "),
            level.program_text()
        ),
    ))
}

impl Draft {
    /// Refuses a joining node whose program does not know the level in force.
    pub(super) fn check_joiner(&self, name: &str, level: FeatureLevel) -> Result<()> {
        let required = self.cluster.level;
        if level >= required {
            return Ok(());
        }
        Err(Error::new(
            Reason::NotSupported,
            format!(
                "the cluster is at feature level {required}, and the program of the joining node \
                 `{name}` knows level {level}: run {} there",
                required.program_text()
            ),
        ))
    }

    fn put_levels(&mut self, row: &LevelRow) {
        self.steps.push(set_row(row));
    }
}

/// Returns the step that gives a new cluster its level: the highest, because its founder alone must
/// know it.
pub(super) fn founding_level(founder: NodeId) -> Update {
    let members = BTreeMap::from([(founder, FeatureLevel::HIGHEST)]);
    set_row(&LevelRow { level: FeatureLevel::HIGHEST, members })
}

fn set_row(row: &LevelRow) -> Update {
    set(Bytes::from_static(LEVEL), write(row))
}

/// Returns the bytes of the row.
pub fn write(row: &LevelRow) -> Value {
    let mut bytes = vec![ROW_VERSION];
    bytes.put_u32(row.level.0.into());
    bytes.put_u32(row.members.len() as u32);
    for (node, level) in &row.members {
        bytes.put_u64(node.0);
        bytes.put_u32(level.0.into());
    }
    Bytes::from(bytes)
}

/// Decodes the row.
pub fn read(value: &[u8]) -> Result<LevelRow> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "feature level")?;
        let level = take_level(&mut reader)?;
        let count = reader.u32("feature levels")? as usize;
        if count > PEERS_MAX {
            return Err(Malformed("feature levels"));
        }
        let mut members = BTreeMap::new();
        for _ in 0..count {
            members.insert(NodeId(reader.u64("member")?), take_level(&mut reader)?);
        }
        reader.end("feature levels").map(|()| LevelRow { level, members })
    };
    read().map_err(bad_row)
}

fn take_level(reader: &mut Reader) -> std::result::Result<FeatureLevel, Malformed> {
    let level = reader.u32("feature level")?;
    u16::try_from(level).map(FeatureLevel).map_err(|_| Malformed("feature level"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Membership;

    fn cluster(names: &[&str]) -> ClusterDescription {
        let member = |(node, name): (u64, &&str)| MemberDescription {
            node: NodeId(node),
            name: name.to_string(),
            peer: String::new(),
            client: String::new(),
            incarnation: 0,
            membership: Membership::Member,
        };
        let members = (1..).zip(names).map(member).collect();
        ClusterDescription { members, ..ClusterDescription::default() }
    }

    #[test]
    fn level_row_round_trips_in_fixed_bytes() {
        let members = BTreeMap::from([(NodeId(7), FeatureLevel(3))]);
        let row = LevelRow { level: FeatureLevel(2), members };
        let bytes = write(&row);
        assert_eq!(bytes, [&[1, 2, 0, 0, 0, 1, 0, 0, 0, 7][..], &[0; 7], &[3, 0, 0, 0]].concat());
        assert_eq!(read(&bytes), Ok(row));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        for bad in [&[2, 1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 1, 0, 1, 0, 0, 0, 0, 0]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let many = [&[1, 1, 0, 0, 0][..], &[0xFF; 4]].concat();
        assert!(read(&many).is_err(), "a count is checked before anything is read");
    }

    #[test]
    fn raise_names_every_member_that_holds_the_level_back() {
        let cluster = cluster(&["n1", "n2", "n3"]);
        let row = LevelRow::default();
        let met = [(NodeId(1), FeatureLevel(2)), (NodeId(2), FeatureLevel(1))];
        let row = row.after_meeting(&cluster, &met);
        let refused = check_raise(&row, &cluster, FeatureLevel(2)).expect_err("two hold it back");
        assert_eq!(refused.reason, Reason::NotSupported);
        let text = refused.text();
        assert!(text.contains("`n2` (its program knows level 1)"), "{text}");
        assert!(text.contains("`n3` (its program was not met yet)"), "{text}");
        assert!(text.contains("credenza 0.1.0") && !text.contains("n1"), "{text}");
        let met = [(NodeId(2), FeatureLevel(2)), (NodeId(3), FeatureLevel(9))];
        let row = row.after_meeting(&cluster, &met);
        assert_eq!(check_raise(&row, &cluster, FeatureLevel(2)), Ok(()));
        assert!(check_raise(&row, &cluster, FeatureLevel(3)).is_err());
    }

    #[test]
    fn levels_of_nodes_that_left_are_dropped_and_the_newest_meeting_counts() {
        let cluster = cluster(&["n1"]);
        let met = [(NodeId(1), FeatureLevel(2)), (NodeId(5), FeatureLevel(2))];
        let row = LevelRow::default().after_meeting(&cluster, &met);
        assert_eq!(row.members, BTreeMap::from([(NodeId(1), FeatureLevel(2))]));
        let row = row.after_meeting(&cluster, &[(NodeId(1), FeatureLevel(1))]);
        assert_eq!(row.members[&NodeId(1)], FeatureLevel(1), "it was downgraded");
    }
}
