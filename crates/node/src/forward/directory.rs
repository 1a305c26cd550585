//! Directory calls, and the effect of a directory change on requests that other nodes evaluate.
//!
//! Buckets are rows of group 0; their content is decided by other groups, whose masters may be
//! other nodes. A client that was told that a bucket is cleared must find it empty at every node,
//! and its later writes must not go into the cleared one. Three rules ensure that: a change is
//! answered only when the master of the bucket's group knows it; a node that has become master of a
//! group first learns what the directory's master knows; a forwarded request names its sender's
//! directory index, and waits until the master has applied it.

use crate::flow::{Caller, Elsewhere, Flow};
use crate::ring;
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{
    BucketName, Call, ClusterCall, DirectoryCall, Error, LogIndex, Principal, Read, ReadLevel,
    Reason, Reply, Request, Result,
};
use replica_host::GroupRef;
use replication::group::Group;
use replication::read::confirm_master;
use runtime::round;
use runtime::submit::{SubmitResult, Ticket};
use runtime::world::timeout;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Router {
    /// Executes a call on the directory. `NotMaster` if another node must.
    pub(crate) fn execute_directory_call(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        call: &DirectoryCall,
    ) -> Result<SubmitResult> {
        if !self.directory.group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        let (router, name, call) = (self.clone(), name.clone(), call.clone());
        let (previous, caller) = (flow.last, flow.caller());
        Ok(SubmitResult::Later(Box::pin(async move {
            // Only the order matters: the outcomes of earlier requests were sent already.
            let _ = router.wait_applied(previous).await;
            let local = router.execute_directory_locally(&name, call.clone()).await;
            let request = Request { bucket: name, call: Call::Directory(call), retry: None };
            router.unless_mastership_lost(local, caller, request).await
        })))
    }

    async fn execute_directory_locally(
        self: &Arc<Router>,
        name: &BucketName,
        call: DirectoryCall,
    ) -> Result<Reply> {
        if !self.directory.group.leadership.can_read() {
            confirm_master(&self.directory.group).await?;
        }
        let changes = matches!(
            call,
            DirectoryCall::AlterBucket(_) | DirectoryCall::DropBucket | DirectoryCall::ClearBucket
        );
        if let DirectoryCall::Ring(call) = call {
            return ring::execute(&self.directory, &self.available, call).await;
        }
        if let DirectoryCall::Cluster(ClusterCall::RemoveMember { name }) = &call {
            self.available.refuse_removal_with_rows(name).await?;
        }
        if let DirectoryCall::Cluster(ClusterCall::RaiseLevel { level }) = &call {
            self.levels.mark_all(*level).await?;
        }
        self.locator.check_level(&call).map_err(|error| self.unless_caught_up(error))?;
        // Before the change: a dropped bucket has no group any more.
        let group_ref = self.locator.group_ref(name).ok().filter(|_| changes);
        let is_of_access = matches!(call, DirectoryCall::Access(_));
        let reply = self.directory.execute(name, call).await?;
        if is_of_access {
            self.wait_access_applied(reply.index).await;
        }
        match group_ref {
            Some(group_ref) if !group_ref.is_led_here() => {
                self.wait_until_master_current(&group_ref, name, reply).await
            }
            _ => Ok(reply),
        }
    }

    /// Waits until the master of a bucket's group has applied the change of the bucket: until it
    /// answers an empty read that requires a directory as new as this one.
    async fn wait_until_master_current(
        self: &Arc<Router>,
        group_ref: &GroupRef,
        name: &BucketName,
        reply: Reply,
    ) -> Result<Reply> {
        let empty_read = Call::Read(Read::Exists(Vec::new()), ReadLevel::Consistent);
        let request = Request { bucket: name.clone(), call: empty_read, retry: None };
        match self.forward(group_ref, None, &Principal::Node, request).await {
            // `NoSuchBucket` proves it: that master has applied the drop of the bucket.
            Err(error) if error.reason != Reason::NoSuchBucket => Err(Error::new(
                Reason::DeadlinePassed,
                format!(
                    "the bucket is changed, but the master of its group was not reached and may \
                     not know the change yet: read the bucket's properties before you write to it \
                     ({})",
                    error.text()
                ),
            )),
            _ => Ok(reply),
        }
    }

    /// Returns true if this master of the group has applied every directory change that clients may
    /// have seen.
    #[inline]
    pub(crate) fn is_directory_current(&self, group: &Group) -> bool {
        let epoch = group.leadership.epoch();
        if group.leadership.is_directory_current(epoch) {
            return true;
        }
        let is_current = self.directory.group.leadership.can_read();
        if is_current {
            group.leadership.mark_directory_current(epoch);
        }
        is_current
    }

    /// Evaluates a request once this node has applied the directory of the directory's master.
    pub(crate) fn after_directory_update(
        self: &Arc<Router>,
        flow: &mut Flow,
        group: Arc<Group>,
        request: Request,
    ) -> SubmitResult {
        let (router, previous, caller) = (self.clone(), flow.last.take(), flow.caller());
        SubmitResult::Later(Box::pin(async move {
            // Read first: if this node loses and regains the group meanwhile, the new epoch is not
            // marked current.
            let epoch = group.leadership.epoch();
            router.wait_directory_current(previous).await?;
            group.leadership.mark_directory_current(epoch);
            let submitted = router.submit(&mut Flow::internal(caller), request);
            router.wait_reply(submitted).await
        }))
    }

    /// Executes a call of the node itself at the directory's master.
    pub(crate) async fn call_directory(
        self: &Arc<Router>,
        bucket: BucketName,
        call: DirectoryCall,
    ) -> Result<()> {
        let request = Request { bucket, call: Call::Directory(call), retry: None };
        self.handle(&Principal::Node, request).await.map(|_| ())
    }

    /// Makes sure that this master of the group has applied every directory change that clients may
    /// have seen.
    pub(crate) async fn make_directory_current(self: &Arc<Router>, group: &Group) -> Result<()> {
        if self.is_directory_current(group) {
            return Ok(());
        }
        let epoch = group.leadership.epoch();
        self.wait_directory_current(None).await?;
        group.leadership.mark_directory_current(epoch);
        Ok(())
    }

    /// Waits until this node has applied the present directory of the directory's master.
    pub(crate) async fn wait_directory_current(
        self: &Arc<Router>,
        previous: Option<Ticket>,
    ) -> Result<()> {
        let call = Call::Directory(DirectoryCall::ListTypes);
        let request = Request { bucket: BucketName::default(), call, retry: None };
        let directory = GroupRef::Local(self.directory.group.clone());
        let index = self.forward(&directory, previous, &Principal::Node, request).await?.index;
        let applied = self.wait_directory_applied(index, FORWARD_MS_MAX);
        round::wait("the directory's last change", applied).await
    }

    /// Waits until this node has applied the directory up to an index, for this time at most.
    ///
    /// Errors: `NoQuorum` after that time; nothing was done.
    pub(super) async fn wait_directory_applied(
        &self,
        index: LogIndex,
        wait_ms_max: u64,
    ) -> Result<()> {
        let applied = self.directory.group.applied.wait_reached(index);
        timeout(Duration::from_millis(wait_ms_max), applied).await.unwrap_or_else(|| {
            let text = "this node's copy of the directory is out of date: nothing was done; try \
                        again";
            Err(Error::new(Reason::NoQuorum, text))
        })
    }

    /// Returns true if a bucket that is unknown here may have been created a moment ago. False for
    /// reads that accept stale state.
    pub(crate) fn may_be_new(&self, request: &Request) -> bool {
        let requires_current = match &request.call {
            Call::Read(_, level) => *level == ReadLevel::Consistent,
            Call::Update(_) | Call::Session(_) => true,
            Call::Directory(_) | Call::Available(_) => false,
        };
        requires_current && !self.directory.group.leadership.is_master()
    }

    /// Returns true if this node has been level with the directory's master since it started. Until
    /// then an unknown bucket may exist.
    fn is_directory_caught_up(&self) -> bool {
        if self.directory_caught_up.load(Ordering::Acquire) {
            return true;
        }
        let directory = &self.directory.group;
        let (applied, leadership) =
            (directory.applied.index(), *directory.leadership.subscribe().borrow());
        // A joining node gets its part in the directory after all entries that existed when it was
        // added.
        let is_caught_up = directory.leadership.is_member()
            && leadership.master.is_some()
            && applied >= directory.state().replica.known_decided();
        self.directory_caught_up.fetch_or(is_caught_up, Ordering::AcqRel);
        is_caught_up
    }

    /// Returns the error, or `StaleReplica` if it reports an unknown bucket, index or feed and this
    /// node's directory is not complete yet.
    pub(crate) fn or_stale_directory(&self, error: Error) -> Error {
        let is_unknown =
            matches!(error.reason, Reason::NoSuchBucket | Reason::NoSuchIndex | Reason::FeedOff);
        if is_unknown { self.unless_caught_up(error) } else { error }
    }

    /// Returns `StaleReplica` instead of an error that rests on this node's directory, unless the
    /// directory is complete.
    pub(crate) fn unless_caught_up(&self, error: Error) -> Error {
        if self.is_directory_caught_up() {
            return error;
        }
        let text = format!(
            "{}, but this node's copy of the directory is not complete yet: try again in a moment, \
             or ask another node",
            error.text()
        );
        Error::new(Reason::StaleReplica, text)
    }

    /// Asks the directory's master for an unknown bucket, waits until it is applied here, and
    /// retries the request.
    pub(crate) fn retry_unknown_bucket(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        unknown: Error,
    ) -> SubmitResult {
        let (router, previous) = (self.clone(), flow.last.take());
        let caller = Caller { elsewhere: Elsewhere::default(), ..flow.caller() };
        SubmitResult::Later(Box::pin(async move {
            let call = Call::Directory(DirectoryCall::DescribeBucket);
            let describe = Request { bucket: request.bucket.clone(), call, retry: None };
            let directory = GroupRef::Local(router.directory.group.clone());
            let reply = router.forward(&directory, previous, &Principal::Node, describe).await?;
            if router.directory.group.applied.index() < reply.index {
                let text = "the bucket exists, but this node's copy of the directory is out of \
                            date: try again";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            match router.group_of(&request) {
                Ok(group_ref) => {
                    let forwarded = request.clone();
                    let answer =
                        router.forward(&group_ref, None, &caller.principal, forwarded).await;
                    router.unless_moving(answer, caller, request).await
                }
                Err(_) => Err(unknown),
            }
        }))
    }
}
