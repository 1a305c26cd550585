//! The report of a group's master: its members and how far each is, what the group waits for, and
//! whether its replicas hold the same. The node that an operator asks gets it from the masters by
//! the network of peers, so that the operator speaks to one node only.
//!
//! ```text
//! question = 3 | 4
//! answer   = how many u32 | report ...      of each group that the node is master of
//! report   = group u32 | members u32 | (node u64, part u8, saved u64 + 1 or 0) ...
//!          | voters that save u32, that elect u32 | steps | what the next waits for | comparison
//! texts    = how many u32 | string ...
//! ```
//! A comparison is 0, or 1 and its fields in the order of [`ComparisonStatus`].
//!
//! Never: changes anything; waits longer for a silent master than [`TIMEOUT`].

use super::view::{ClusterStatus, ClusterView, PlaceStatus};
use crate::member_request::MemberRequest;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{GROUP_MEMBERS_MAX, GROUPS_MAX};
use base::{GroupId, LogIndex, NodeId, Part};
use replica_state::comparison::{ComparisonStatus, DifferenceStatus};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use transport::{IncomingCall, Peers};

/// Timeout of other nodes' reports.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a text, in bytes, and maximum number of texts of a kind in one report.
const TEXT_BYTES_MAX: usize = 1 << 20;
const TEXTS_MAX: usize = 4_096;

type ReportResult<T> = std::result::Result<T, Malformed>;

/// A member, its part, and the last index that it has on disk.
type MemberLog = (NodeId, Part, Option<LogIndex>);

/// Report of a group's master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupReport {
    group: GroupId,
    members: Vec<MemberLog>,
    quorums: (usize, usize),
    plan: Vec<String>,
    waits_for: Vec<String>,
    comparison: Option<ComparisonStatus>,
}

impl ClusterView {
    /// See [`crate::Node::overview`].
    pub(crate) async fn overview(&self) -> ClusterStatus {
        let mut reports = JoinSet::new();
        let cluster = self.catalog.cluster();
        let others = cluster.members.iter().map(|member| member.node);
        let others = others.filter(|node| *node != self.links.node && self.links.is_linked(*node));
        if let Some(peers) = self.links.peers.get() {
            for node in others {
                let peers = peers.clone();
                reports.spawn(async move {
                    let request = MemberRequest::Report.encode(&[]);
                    let answer = peers.call(node, GroupId::DIRECTORY, request, TIMEOUT).await;
                    (node, answer.ok().and_then(|answer| read(&answer).ok()))
                });
            }
        }
        let mut by_group = BTreeMap::new();
        while let Some(Ok((node, answer))) = reports.join_next().await {
            for report in answer.into_iter().flatten() {
                by_group.insert(report.group, (node, report));
            }
        }
        let mut status = self.status();
        for place in &mut status.groups {
            let group = self.groups.get(place.group);
            if group.is_some_and(|group| group.leadership.is_master()) {
                continue;
            }
            if let Some((node, report)) = by_group.remove(&place.group) {
                self.apply_report(node, report, place);
            }
            place.note_unknown_master();
        }
        status
    }

    fn apply_report(&self, master: NodeId, report: GroupReport, place: &mut PlaceStatus) {
        let parts = report.members.iter().map(|(node, part, _)| (*node, *part)).collect();
        let saved = report.members.iter().filter_map(|(node, _, saved)| Some((*node, (*saved)?)));
        place.master = Some(self.links.name_of(master));
        place.members = self.part_status(&parts, &saved.collect());
        place.quorums = report.quorums;
        place.plan = report.plan;
        place.waits_for = report.waits_for;
        place.comparison = report.comparison;
    }

    /// Reports the groups that this node is master of.
    fn reports(&self) -> Vec<GroupReport> {
        let status = self.status();
        let is_led_here = |place: &PlaceStatus| {
            let group = self.groups.get(place.group);
            group.is_some_and(|group| group.leadership.is_master())
        };
        let report = |place: PlaceStatus| GroupReport {
            group: place.group,
            members: place
                .members
                .iter()
                .map(|member| (member.node, member.part, member.match_index))
                .collect(),
            quorums: place.quorums,
            plan: place.plan,
            waits_for: place.waits_for,
            comparison: place.comparison,
        };
        status.groups.into_iter().filter(is_led_here).map(report).collect()
    }
}

/// Handles a request for this node's reports.
pub(super) fn on_report(view: &ClusterView, peers: &Peers, call: &IncomingCall) {
    // Without a connection the caller's timeout reports the failure.
    let _ = peers.answer(call, write(&view.reports()).into());
}

fn write(reports: &[GroupReport]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(reports.len() as u32);
    for report in reports {
        out.put_u32(report.group.0);
        out.put_u32(report.members.len() as u32);
        for (node, part, saved) in &report.members {
            out.put_u64(node.0);
            let part = Part::ALL.iter().position(|known| known == part);
            out.put_u8(part.expect("all parts are listed") as u8);
            out.put_u64(saved.map_or(0, |saved| saved.0.saturating_add(1)));
        }
        out.put_u32(report.quorums.0 as u32);
        out.put_u32(report.quorums.1 as u32);
        put_texts(&report.plan, &mut out);
        put_texts(&report.waits_for, &mut out);
        out.put_u8(report.comparison.is_some().into());
        if let Some(comparison) = &report.comparison {
            put_comparison(comparison, &mut out);
        }
    }
    out
}

fn put_texts(texts: &[String], out: &mut Vec<u8>) {
    out.put_u32(texts.len() as u32);
    texts.iter().for_each(|text| out.put_string(text.as_bytes()));
}

fn put_optional(text: Option<&String>, out: &mut Vec<u8>) {
    out.put_u8(text.is_some().into());
    text.iter().for_each(|text| out.put_string(text.as_bytes()));
}

fn put_comparison(found: &ComparisonStatus, out: &mut Vec<u8>) {
    out.put_u8(found.running.into());
    out.put_u64(found.passes);
    put_optional(found.error.as_ref(), out);
    out.put_u64(found.ended_ms_ago.map_or(0, |ago| ago.saturating_add(1)));
    out.put_u64(found.rows);
    out.put_u64(found.bytes);
    out.put_u32(found.replicas.len() as u32);
    for (name, rows) in &found.replicas {
        out.put_string(name.as_bytes());
        out.put_u64(*rows);
    }
    out.put_u32(found.differences.len() as u32);
    for difference in &found.differences {
        put_optional(difference.bucket.as_ref(), out);
        for text in [&difference.from, &difference.upto, &difference.text] {
            out.put_string(text.as_bytes());
        }
        out.put_u32(difference.agreeing.len() as u32);
        difference.agreeing.iter().for_each(|names| put_texts(names, out));
    }
}

pub(super) fn read(answer: &[u8]) -> ReportResult<Vec<GroupReport>> {
    let mut reader = Reader::new(answer);
    let reports = many(&mut reader, GROUPS_MAX, "number of groups", report)?;
    reader.end("reports").map(|()| reports)
}

/// Decodes a list of at most `count_max` elements, each by `read_one`.
fn many<T>(
    reader: &mut Reader,
    count_max: usize,
    field: &'static str,
    read_one: impl Fn(&mut Reader) -> ReportResult<T>,
) -> ReportResult<Vec<T>> {
    let count = reader.u32(field)? as usize;
    if count > count_max {
        return Err(Malformed(field));
    }
    (0..count).map(|_| read_one(reader)).collect()
}

fn report(reader: &mut Reader) -> ReportResult<GroupReport> {
    let group = GroupId(reader.u32("group")?);
    let members = many(reader, GROUP_MEMBERS_MAX, "number of members", member)?;
    let quorums = (reader.u32("quorum")? as usize, reader.u32("quorum")? as usize);
    let (plan, waits_for) = (texts(reader)?, texts(reader)?);
    let comparison = flag(reader)?.then(|| comparison(reader)).transpose()?;
    Ok(GroupReport { group, members, quorums, plan, waits_for, comparison })
}

fn member(reader: &mut Reader) -> ReportResult<MemberLog> {
    let node = NodeId(reader.u64("member")?);
    let part = Part::ALL.get(usize::from(reader.u8("part")?)).ok_or(Malformed("part"))?;
    Ok((node, *part, reader.u64("saved")?.checked_sub(1).map(LogIndex)))
}

fn comparison(reader: &mut Reader) -> ReportResult<ComparisonStatus> {
    Ok(ComparisonStatus {
        running: flag(reader)?,
        passes: reader.u64("passes")?,
        error: optional(reader)?,
        ended_ms_ago: reader.u64("ended")?.checked_sub(1),
        rows: reader.u64("rows")?,
        bytes: reader.u64("bytes")?,
        replicas: many(reader, GROUP_MEMBERS_MAX, "compared", |reader| {
            Ok((text(reader)?, reader.u64("rows")?))
        })?,
        differences: many(reader, TEXTS_MAX, "differences", difference)?,
    })
}

fn difference(reader: &mut Reader) -> ReportResult<DifferenceStatus> {
    let bucket = optional(reader)?;
    let (start, upto, sentence) = (text(reader)?, text(reader)?, text(reader)?);
    let agreeing = many(reader, GROUP_MEMBERS_MAX, "camps", texts)?;
    Ok(DifferenceStatus { bucket, from: start, upto, agreeing, text: sentence })
}

fn flag(reader: &mut Reader) -> ReportResult<bool> {
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("flag")),
    }
}

fn optional(reader: &mut Reader) -> ReportResult<Option<String>> {
    flag(reader)?.then(|| text(reader)).transpose()
}

fn texts(reader: &mut Reader) -> ReportResult<Vec<String>> {
    many(reader, TEXTS_MAX, "number of texts", text)
}

fn text(reader: &mut Reader) -> ReportResult<String> {
    let bytes = reader.string(TEXT_BYTES_MAX, "text")?;
    std::str::from_utf8(bytes).map(String::from).map_err(|_| Malformed("text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Vec<GroupReport> {
        let strings =
            |strings: &[&str]| strings.iter().map(|string| string.to_string()).collect::<Vec<_>>();
        let difference = DifferenceStatus {
            bucket: Some("b".into()),
            from: "a".into(),
            upto: String::new(),
            agreeing: vec![strings(&["n1", "n2"]), strings(&["n3"])],
            text: "they differ".into(),
        };
        let comparison = ComparisonStatus {
            running: true,
            passes: 3,
            error: Some("away".into()),
            ended_ms_ago: Some(0),
            rows: 7,
            bytes: u64::MAX,
            replicas: vec![("n2".into(), 7)],
            differences: vec![difference],
        };
        let members = vec![
            (NodeId(7), Part::Voter, Some(LogIndex(0))),
            (NodeId(u64::MAX), Part::Learner, None),
        ];
        let full = GroupReport {
            group: GroupId(2),
            members,
            quorums: (2, 4),
            plan: strings(&["add n4 as voter"]),
            waits_for: strings(&["wait until n4 is near"]),
            comparison: Some(comparison),
        };
        vec![full, GroupReport { group: GroupId(9), ..GroupReport::default() }]
    }

    #[test]
    fn master_report_round_trips() {
        assert_eq!(read(&write(&full())), Ok(full()));
        assert_eq!(read(&write(&[])), Ok(Vec::new()));
    }

    #[test]
    fn master_report_decoder_never_panics_and_rejects_wrong_length() {
        let bytes = write(&full());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xFF;
            let _ = read(&other);
        }
        assert!(read(&[bytes, vec![0]].concat()).is_err());
    }
}
