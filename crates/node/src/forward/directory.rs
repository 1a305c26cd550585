//! Directory calls, and the effect of a directory change on requests that other nodes evaluate.
//!
//! Buckets are rows of group 0; their content is decided by other groups, whose masters may be
//! other nodes. A client that was told that a bucket is cleared must find it empty at every node,
//! and its later writes must not go into the cleared one. Three rules ensure that: a change is
//! answered only when the master of the bucket's group knows it; a node that has become master of a
//! group first learns what the directory's master knows; a forwarded request names its sender's
//! directory index, and waits until the master has applied it.

use crate::flow::{Elsewhere, Flow};
use crate::group_ref::GroupRef;
use crate::ring;
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{
    BucketName, Call, ClusterCall, DirectoryCall, Error, LogIndex, Read, ReadLevel, Reason, Reply,
    Request, Result,
};
use replication::group::Group;
use replication::read::still_master;
use runtime::submit::{Submitted, Ticket};
use runtime::world::timeout;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Router {
    /// Carries out a call to the directory; `not_master` if another node must.
    pub(crate) fn directory(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        call: &DirectoryCall,
    ) -> Result<Submitted> {
        if !self.directory.group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        let (router, name, call) = (self.clone(), name.clone(), call.clone());
        let (before, elsewhere) = (flow.last, flow.elsewhere);
        Ok(Submitted::Later(Box::pin(async move {
            // The outcomes of earlier requests were sent already; here only the order counts.
            let _ = router.settled(before).await;
            let here = router.directory_here(&name, call.clone()).await;
            let request = Request { bucket: name, call: Call::Directory(call), retry: None };
            router.unless_moved(here, elsewhere, request).await
        })))
    }

    async fn directory_here(
        self: &Arc<Router>,
        name: &BucketName,
        call: DirectoryCall,
    ) -> Result<Reply> {
        if !self.directory.group.leadership.readable() {
            still_master(&self.directory.group).await?;
        }
        let changes = matches!(
            call,
            DirectoryCall::AlterBucket(_) | DirectoryCall::DropBucket | DirectoryCall::ClearBucket
        );
        if let DirectoryCall::Ring(call) = call {
            return ring::execute(&self.directory, &self.available, call).await;
        }
        if let DirectoryCall::Cluster(ClusterCall::RemoveMember { name }) = &call {
            self.available.holds_nothing(name).await?;
        }
        // Before the change: a dropped bucket names no group any more.
        let group_ref = self.locator.group_ref(name).ok().filter(|_| changes);
        let reply = self.directory.execute(name, call).await?;
        match group_ref {
            Some(group_ref) if !group_ref.is_led_here() => {
                self.known_by_master(&group_ref, name, reply).await
            }
            _ => Ok(reply),
        }
    }

    /// Waits until the master of a bucket's group knows the change of the bucket: it answers an
    /// empty read that was sent with a directory as new as this one.
    async fn known_by_master(
        self: &Arc<Router>,
        group_ref: &GroupRef,
        name: &BucketName,
        reply: Reply,
    ) -> Result<Reply> {
        let nothing = Call::Read(Read::Exists(Vec::new()), ReadLevel::Consistent);
        let request = Request { bucket: name.clone(), call: nothing, retry: None };
        match self.carry(group_ref, None, request).await {
            // `NoSuchBucket` is the news itself: its master knows that the bucket was dropped.
            Err(error) if error.reason != Reason::NoSuchBucket => Err(Error::new(
                Reason::DeadlinePassed,
                format!(
                    "the bucket is changed, but the master of its group was not reached and may \
                     not know it yet: look at the bucket before you write to it ({})",
                    error.text()
                ),
            )),
            _ => Ok(reply),
        }
    }

    /// Returns true if this master of the group has a directory as its clients left it.
    #[inline]
    pub(crate) fn is_informed(&self, group: &Group) -> bool {
        let epoch = group.leadership.epoch();
        if group.leadership.is_informed(epoch) {
            return true;
        }
        let informed = self.directory.group.leadership.readable();
        if informed {
            group.leadership.inform(epoch);
        }
        informed
    }

    /// Evaluates a request once this node's directory is as the directory's master knows it.
    pub(crate) fn after_information(
        self: &Arc<Router>,
        flow: &mut Flow,
        group: Arc<Group>,
        request: Request,
    ) -> Submitted {
        let (router, before, elsewhere) = (self.clone(), flow.last.take(), flow.elsewhere);
        Submitted::Later(Box::pin(async move {
            // Read first: if this node loses and regains the group meanwhile, the new epoch is not
            // informed.
            let epoch = group.leadership.epoch();
            router.directory_is_current(before).await?;
            group.leadership.inform(epoch);
            let submitted = router.submit(&mut Flow::passing(elsewhere), request);
            router.answered(submitted).await
        }))
    }

    /// Makes sure that this master of the group has a directory as its clients left it.
    pub(crate) async fn inform(self: &Arc<Router>, group: &Group) -> Result<()> {
        if self.is_informed(group) {
            return Ok(());
        }
        let epoch = group.leadership.epoch();
        self.directory_is_current(None).await?;
        group.leadership.inform(epoch);
        Ok(())
    }

    /// Waits until this node has applied what the directory's master knows now.
    pub(crate) async fn directory_is_current(
        self: &Arc<Router>,
        before: Option<Ticket>,
    ) -> Result<()> {
        let call = Call::Directory(DirectoryCall::ListTypes);
        let look = Request { bucket: BucketName::default(), call, retry: None };
        let directory = GroupRef::Local(self.directory.group.clone());
        let index = self.carry(&directory, before, look).await?.index;
        let within = Duration::from_millis(FORWARD_MS_MAX);
        timeout(within, self.directory_reaches(index)).await.unwrap_or_else(|| {
            let text = "this node's directory is behind: nothing was done; try again";
            Err(Error::new(Reason::NoQuorum, text))
        })
    }

    /// Waits until this node has applied the directory up to an index.
    pub(super) async fn directory_reaches(&self, index: LogIndex) -> Result<()> {
        self.directory.group.applied.reached(index).await
    }

    /// Returns true if a bucket that is unknown here may have been created a moment ago. False for
    /// reads that accept this node's state.
    pub(crate) fn may_be_new(&self, request: &Request) -> bool {
        let asks = match &request.call {
            Call::Read(_, level) => *level == ReadLevel::Consistent,
            Call::Update(_) | Call::Session(_) => true,
            Call::Directory(_) | Call::Available(_) => false,
        };
        asks && !self.directory.group.leadership.is_master()
    }

    /// Returns true if this node has had, since it started, the directory as its master knew it.
    /// Before that an unknown bucket may be one that all others know.
    fn has_heard_directory(&self) -> bool {
        if self.heard_directory.load(Ordering::Acquire) {
            return true;
        }
        let directory = &self.directory.group;
        let (applied, standing) =
            (directory.applied.index(), *directory.leadership.standing().borrow());
        // A joining node gets its part in the directory behind everything that the directory held
        // when the node was added.
        let heard = directory.leadership.has_part()
            && standing.master.is_some()
            && applied >= directory.state().replica.heard();
        self.heard_directory.fetch_or(heard, Ordering::AcqRel);
        heard
    }

    /// Returns the error, unless it says that an item does not exist and this node can't know that
    /// yet.
    pub(crate) fn unless_unheard(&self, error: Error) -> Error {
        if error.reason != Reason::NoSuchBucket || self.has_heard_directory() {
            return error;
        }
        let text = format!(
            "{}, as far as this node knows, which has not all of the directory yet: try again in \
             a moment, or ask another node",
            error.text()
        );
        Error::new(Reason::StaleReplica, text)
    }

    /// Asks the directory's master for an unknown bucket, waits until it is known, and begins
    /// again.
    pub(crate) fn look_again(
        self: &Arc<Router>,
        before: Option<Ticket>,
        request: Request,
        unknown: Error,
    ) -> Submitted {
        let router = self.clone();
        Submitted::Later(Box::pin(async move {
            let call = Call::Directory(DirectoryCall::DescribeBucket);
            let describe = Request { bucket: request.bucket.clone(), call, retry: None };
            let directory = GroupRef::Local(router.directory.group.clone());
            let found = router.carry(&directory, before, describe).await?;
            if router.directory.group.applied.index() < found.index {
                let text = "the bucket exists, and this node's directory is behind: try again";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            match router.group_of(&request) {
                Ok(group_ref) => {
                    let there = router.carry(&group_ref, None, request.clone()).await;
                    router.unless_away(there, Elsewhere::default(), request).await
                }
                Err(_) => Err(unknown),
            }
        }))
    }
}
