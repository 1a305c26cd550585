//! Feature levels on a node: the data directory is marked with a level before the level is in
//! force, and what needs a level is refused below it.
//!
//! Group 0's master raises the level in force when an operator says so: it has every member mark
//! its data directory, and then changes the row `n/level`. So a program that does not know the
//! level refuses the directory before it meets anything of that level.
//!
//! `cluster/level_state.rs` answers the request of group 0's master, and follows the level in
//! force.

use crate::locator::GroupLocator;
use crate::member_request::MemberRequest;
use base::codec::Writer;
use base::error::shutting_down;
use base::properties::{AUDIT, BucketAudit, COUNTED, Changes, FEED};
use base::{
    Call, DirectoryCall, Error, FeatureLevel, FeedMode, GroupId, NodeId, Read, Reason, Result,
};
use metadata::catalog::Catalog;
use metadata::levels::check_raise;
use replica_host::{OpenDataDir, PeerLinks};
use std::sync::Arc;
use std::time::Duration;
use store::Trees;

/// Timeout of a member that marks its directory: more than a slow disk takes for two syncs.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);
/// Answer of a member whose directory is marked.
pub(crate) const MARKED: u8 = 1;

/// Keeper of the mark of this node's data directory.
pub(crate) struct LevelKeeper {
    data: Arc<OpenDataDir>,
    trees: Arc<dyn Trees>,
    links: Arc<PeerLinks>,
    catalog: Arc<Catalog>,
}

impl LevelKeeper {
    pub(crate) fn new(
        data: &Arc<OpenDataDir>,
        trees: &Arc<dyn Trees>,
        links: &Arc<PeerLinks>,
        catalog: &Arc<Catalog>,
    ) -> LevelKeeper {
        let (data, trees) = (data.clone(), trees.clone());
        LevelKeeper { data, trees, links: links.clone(), catalog: catalog.clone() }
    }

    /// Marks this node's data directory with a level, durably; only then uses it for files.
    pub(crate) async fn mark(&self, level: FeatureLevel) -> Result<()> {
        self.data.write(move |data| data.raise_level(level)).await?;
        if self.data.is_closed() {
            return Err(shutting_down());
        }
        if level >= FeatureLevel::WITH_COUNTS {
            self.trees.allow_packing();
        }
        Ok(())
    }

    /// Asks every member to mark its data directory, before the level in force is raised to this
    /// one. Fails without a mark anywhere if a program does not know it, or is not there.
    pub(crate) async fn mark_all(&self, level: FeatureLevel) -> Result<()> {
        let cluster = self.catalog.cluster();
        if level <= cluster.level {
            return Ok(());
        }
        if level > FeatureLevel::HIGHEST {
            let text = format!(
                "nothing was changed: this program knows feature levels up to {}; run {} on every \
                 member first",
                FeatureLevel::HIGHEST,
                level.program_text()
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        check_raise(&self.catalog.levels(), &cluster, level)?;
        let others = cluster.members.iter().filter(|member| member.node != self.links.node);
        let others: Vec<_> = others.map(|member| (member.node, member.name.as_str())).collect();
        for (node, name) in &others {
            let version = self.links.peers.get().and_then(|peers| peers.version(*node));
            if version.is_none_or(|version| version < level.0) {
                return Err(not_reached(name, level));
            }
        }
        self.mark(level).await?;
        for (node, name) in &others {
            if !self.ask_to_mark(*node, level).await {
                return Err(not_reached(name, level));
            }
        }
        Ok(())
    }

    async fn ask_to_mark(&self, node: NodeId, level: FeatureLevel) -> bool {
        let Some(peers) = self.links.peers.get() else { return false };
        let mut payload = Vec::new();
        payload.put_u32(level.0.into());
        let request = MemberRequest::Level.encode(&payload);
        let answer = peers.call(node, GroupId::DIRECTORY, request, MARK_TIMEOUT).await;
        answer.is_ok_and(|answer| answer[..] == [MARKED])
    }
}

fn not_reached(name: &str, level: FeatureLevel) -> Error {
    let text = format!(
        "the feature level was not raised: member `{name}` is not connected, or could not mark its \
         data directory with level {level}: start it with {} or remove it, and try again",
        level.program_text()
    );
    Error::new(Reason::NoQuorum, text)
}

impl GroupLocator {
    /// Returns the lowest protocol version that other nodes may speak: the level in force.
    pub(crate) fn version_min(&self) -> u16 {
        self.catalog.cluster().level.0
    }

    /// Refuses a call that needs a feature level above the one in force. A node of an earlier
    /// program that became master of a group with counted buckets would change their rows without
    /// their counts, one that is asked for keys of audited buckets would record nothing, one that
    /// knows no users would serve everybody, and one that knows no indexes or feeds would write
    /// rows without their entries or events.
    pub(crate) fn check_level(&self, call: &DirectoryCall) -> Result<()> {
        let in_force = self.catalog.cluster().level;
        let changes = match call {
            DirectoryCall::Access(_) => {
                return require(in_force, FeatureLevel::WITH_USERS, "access");
            }
            DirectoryCall::Index(_) => {
                return require(in_force, FeatureLevel::WITH_INDEXES, "index");
            }
            DirectoryCall::CreateBucket(changes)
            | DirectoryCall::AlterBucket(changes)
            | DirectoryCall::PlaceBucket { changes, .. }
            | DirectoryCall::CreateType(changes)
            | DirectoryCall::AlterType(changes) => changes,
            _ => return Ok(()),
        };
        if sets(changes, COUNTED, |text| text == "true") {
            require(in_force, FeatureLevel::WITH_COUNTS, COUNTED)?;
        }
        if sets(changes, FEED, |text| text != FeedMode::Off.name()) {
            require(in_force, FeatureLevel::WITH_FEEDS, FEED)?;
        }
        match sets(changes, AUDIT, |text| text != BucketAudit::Off.name()) {
            true => require(in_force, FeatureLevel::WITH_BUCKET_AUDIT, AUDIT),
            false => Ok(()),
        }
    }

    /// Refuses a row with tags below their level: a node of an earlier program could not read it.
    pub(crate) fn check_tags(&self) -> Result<()> {
        require(self.catalog.cluster().level, FeatureLevel::WITH_TAGS, "tags")
    }

    /// Refuses to forward a call that a node of an earlier program could not read. The sender says
    /// why, as that node would only find it malformed.
    pub(crate) fn check_forwardable(&self, call: &Call) -> Result<()> {
        check_forwardable(self.catalog.cluster().level, call)
    }
}

fn check_forwardable(in_force: FeatureLevel, call: &Call) -> Result<()> {
    match call {
        Call::Directory(DirectoryCall::Index(_)) | Call::Read(Read::Index(_), _) => {
            require(in_force, FeatureLevel::WITH_INDEXES, "index")
        }
        Call::Read(Read::Feed(_), _) => require(in_force, FeatureLevel::WITH_FEEDS, FEED),
        // An assertion about an absent key needs no check: its version comes from such a read, and
        // the level never falls.
        Call::Read(Read::KeyVersions(_), _) => {
            require(in_force, FeatureLevel::WITH_KEY_VERSIONS, "key_versions")
        }
        _ => Ok(()),
    }
}

/// Returns true if the changes set a property to a value of this kind.
fn sets(changes: &Changes, property: &str, is_of_kind: impl Fn(&str) -> bool) -> bool {
    changes.iter().any(|(name, text)| name == property && is_of_kind(text))
}

/// Refuses a feature that needs a level above the one in force.
fn require(in_force: FeatureLevel, needed: FeatureLevel, feature: &str) -> Result<()> {
    if in_force >= needed {
        return Ok(());
    }
    let text = format!(
        "nothing was changed: `{feature}` needs feature level {needed}, and the cluster is at \
         {in_force}: run {} on every node, then `credenza cluster upgrade --auto`",
        needed.program_text()
    );
    Err(Error::new(Reason::NotSupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{IndexCall, ReadLevel};

    #[test]
    fn counts_are_refused_below_their_level_with_the_remedy() {
        let level = FeatureLevel::WITH_COUNTS;
        assert_eq!(require(level, level, COUNTED), Ok(()));
        let refused = require(FeatureLevel::FIRST, level, COUNTED).expect_err("too low");
        assert_eq!(refused.reason, Reason::NotSupported);
        let text = refused.text();
        assert!(text.contains("counted") && text.contains("cluster upgrade"), "{text}");
        let sets = |name: &str, text: &str| {
            let changes = vec![(name.to_string(), text.to_string())];
            sets(&changes, "counted", |text| text == "true")
        };
        assert!(sets("counted", "true"));
        assert!(!sets("counted", "false") && !sets("sync", "true"));
    }

    #[test]
    fn calls_with_a_level_are_forwarded_from_it_on() {
        let index = Call::Directory(DirectoryCall::Index(IndexCall::List));
        let query = Call::Read(Read::Index(Box::default()), ReadLevel::Consistent);
        let feed = Call::Read(Read::Feed(Box::default()), ReadLevel::Consistent);
        let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
        let versions = Call::Read(Read::KeyVersions(Vec::new()), ReadLevel::Consistent);
        for (call, refused) in [
            (&index, Some("`index`")),
            (&query, Some("`index`")),
            (&feed, Some("`feed`")),
            (&versions, Some("`key_versions`")),
            (&count, None),
        ] {
            let answer = check_forwardable(FeatureLevel::FIRST, call);
            match refused {
                Some(name) => {
                    let error = answer.expect_err("too low");
                    assert!(error.text().contains(name), "{}", error.text());
                }
                None => assert_eq!(answer, Ok(())),
            }
            assert_eq!(check_forwardable(FeatureLevel::WITH_INDEXES, call), Ok(()));
        }
    }
}
