//! Assembly of a node from its parts.
//!
//! Each part gets handles of the parts below that it uses. Upwards leads one handle only, a weak
//! one: that of the vnodes to the directory's master, by the router.
//!
//! Never: begins anything; that is `startup.rs`.

use crate::access::Authorizer;
use crate::act_recorder::{ActRecorder, PendingRecords};
use crate::answers::Answers;
use crate::cluster::{ClusterAgent, ClusterView, MemberCalls, OwnIncarnations};
use crate::diagnostics::Diagnostics;
use crate::levels::LevelKeeper;
use crate::locator::GroupLocator;
use crate::moves::{RoutedDirectory, move_settings};
use crate::readiness::Readiness;
use crate::route::Router;
use crate::settings::NodeSettings;
use crate::status_reader::StatusReader;
use crate::{Node, ring};
use base::{BucketName, ClusterDescription, ClusterId, GroupId, NodeId, Result};
use bucket_moves::{BucketMoves, Transfers};
use dynamo::failure_detector::PeerHealth;
use dynamo::handoff::HandoffTracker;
use dynamo::multi_key::KeyPermits;
use dynamo::operation_timers::OperationTimers;
use dynamo::snitch::Snitch;
use dynamo::vnode_store::VnodeStore;
use dynamo::warmup::Warmup;
use dynamo::{Available, Members};
use metadata::Directory;
use metadata::catalog::Catalog;
use replica_host::{
    Checkpointer, DiskHealth, GroupHost, Groups, HostSettings, Housekeeper, Lifecycle, NodeTasks,
    OpenDataDir, PeerLinks, ReplicaAudit, StoreFlusher,
};
use replica_state::comparison::Comparisons;
use replica_state::snapshot::{Snapshots, TransferTimeouts};
use replication::group::{Group, GroupLimits, Shared};
use replication::recovered::RecoveredGroup;
use runtime::log_writer::LogWriterHandle;
use runtime::{DiskSpace, MaintenanceSignal, Metrics, WritePacer, file_tasks::FileTasks};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use store::{DataDir, LogReader, Trees};
use transport::incoming::CallAdmission;
use vnode_rows::batch::Mark;

/// Recovered state of which a node is assembled.
pub(crate) struct RecoveredParts {
    pub started_ms: u64,
    pub node: NodeId,
    /// `None`: the node has no data directory.
    pub data: Option<DataDir>,
    pub incarnations: OwnIncarnations,
    pub description: ClusterDescription,
    pub trees: Arc<dyn Trees>,
    pub reader: LogReader,
    pub groups: Vec<RecoveredGroup>,
    pub is_witness: bool,
    pub vnodes: Mark,
}

/// Returns a node whose tasks have not started.
pub(crate) fn assemble(settings: NodeSettings, parts: RecoveredParts) -> Result<Node> {
    let RecoveredParts { started_ms, node, data, incarnations, description, trees, reader, .. } =
        parts;
    let RecoveredParts { groups, is_witness, vnodes, .. } = parts;
    let settings = Arc::new(settings);
    let (file_tasks, tasks) = (Arc::<FileTasks>::default(), NodeTasks::new());
    let space = Arc::<DiskSpace>::default();
    let forced_master = settings.forced_master_id(&description).0;
    let shared = shared(
        &settings,
        (node, is_witness),
        (trees, reader),
        forced_master,
        (&file_tasks, &space, &tasks),
    );
    let cluster = description.cluster;
    let catalog = Arc::new(Catalog::new(description));
    let group = |recovered| Arc::new(Group::new(recovered, shared.clone()));
    let groups = Arc::new(Groups::new(groups.into_iter().map(group).collect()));
    let directory = Directory::new(groups.find(GroupId::DIRECTORY)?, catalog.clone())?;
    let available = available(
        &settings,
        &shared,
        &catalog,
        (incarnations.incarnation, vnodes),
        (space, &tasks),
    );
    let own = (node, settings.name.clone());
    let data = Arc::new(OpenDataDir::new(data, shared.tasks.clone()));
    let links = Arc::new(PeerLinks::new(own, Arc::clone(&shared.peers), &catalog));
    let handles = Handles {
        diagnostics: Arc::new(Diagnostics::new(&settings, &tasks, &shared.log_writer)),
        levels: Arc::new(LevelKeeper::new(&data, &shared.trees, &links, &catalog)),
        links,
        lifecycle: Arc::new(Lifecycle::new(groups.clone(), available.vnode_store.clone(), tasks)),
        disk: Arc::new(DiskHealth::new(&shared, &available.space, settings.lease_ms)),
        flusher: Arc::new(StoreFlusher::new(
            (shared.trees.clone(), shared.log_writer.clone()),
            groups.clone(),
            available.vnode_store.clone(),
            settings.log_bytes_max,
            data.clone(),
        )),
        data,
        directory: Arc::new(directory),
        host_settings: Arc::new(settings.host()),
        settings,
        groups,
        catalog,
        available,
        file_tasks,
    };
    let router = handles.router(started_ms);
    ring::connect(&router);
    let audit = handles.audit(&shared.comparisons);
    let view = handles.view(cluster, &audit);
    let status = handles.status(&shared, incarnations.incarnation, (&view, &router));
    Ok(Node {
        cluster: handles.agent(incarnations, handles.calls(&audit, &view), &router),
        moves: handles.moves(&router),
        housekeeper: handles.housekeeper(&shared),
        checkpointer: handles.checkpointer(),
        status,
        lifecycle: handles.lifecycle,
        router,
        drop_guard: None,
    })
}

/// Creates the state that all replicas on this node share.
fn shared(
    settings: &NodeSettings,
    (node, is_witness): (NodeId, bool),
    (trees, reader): (Arc<dyn Trees>, LogReader),
    forced_master: u64,
    (file_tasks, space, tasks): (&Arc<FileTasks>, &Arc<DiskSpace>, &NodeTasks),
) -> Shared {
    let (log_writer, metrics) = (LogWriterHandle::new(), Arc::new(Metrics::default()));
    let handles = (metrics.clone(), file_tasks.clone(), space.clone());
    let (tasks, timeouts) = (tasks.requests.clone(), TransferTimeouts::default());
    Shared {
        node,
        snapshots: Snapshots::new(trees.clone(), handles, timeouts, tasks.clone()),
        comparisons: Comparisons::new(trees.clone(), tasks.clone()),
        pacer: Arc::new(WritePacer::new(trees.clone())),
        build_pacer: Arc::default(),
        trees,
        log_writer,
        reader,
        metrics,
        peers: Arc::default(),
        limits: GroupLimits {
            memory_bytes_max: settings.memory_bytes_max,
            lease_ms: settings.lease_ms,
            catch_up_bytes_per_second: settings.catch_up_bytes_per_second,
            kept_bytes_max: settings.log_bytes_max,
        },
        tasks,
        is_witness,
        forced_master: Arc::new(AtomicU64::new(forced_master)),
    }
}

/// Creates the available path from the recovered state of its vnodes.
fn available(
    settings: &NodeSettings,
    shared: &Shared,
    catalog: &Arc<Catalog>,
    recovered: (u64, Mark),
    (space, tasks): (Arc<DiskSpace>, &NodeTasks),
) -> Arc<Available> {
    Arc::new(Available {
        node: shared.node,
        cluster: catalog.cluster().cluster,
        settings: settings.available(),
        schema: catalog.available.clone(),
        members: Members::new((shared.node, settings.name.clone()), catalog.watch_cluster()),
        peers: Arc::clone(&shared.peers),
        incoming: Arc::new(CallAdmission::new(tasks.requests.clone())),
        directory: OnceLock::new(),
        vnode_store: vnode_store(shared, catalog.clone(), recovered),
        failure_detector: PeerHealth::new(shared.metrics.clone()),
        warmup: Warmup::begin(),
        snitch: Snitch::default(),
        key_permits: KeyPermits::new(tasks.available.clone()),
        operation_timers: OperationTimers::default(),
        space,
        handoff_tracker: HandoffTracker::default(),
        feed_signals: Arc::default(),
        trees: shared.trees.clone(),
        metrics: shared.metrics.clone(),
        tasks: tasks.available.clone(),
    })
}

/// Creates the vnodes from their recovered state.
fn vnode_store(shared: &Shared, catalog: Arc<Catalog>, recovered: (u64, Mark)) -> Arc<VnodeStore> {
    let Shared { node, trees, log_writer, pacer, .. } = shared;
    let cluster_catalog = catalog.clone();
    let is_sole_member = Box::new(move || cluster_catalog.cluster().members.len() < 2);
    let n_val_of =
        move |bucket: &BucketName| Some(catalog.available.find(bucket)?.replication.n_val);
    let callbacks = (Box::new(n_val_of) as _, is_sole_member as _);
    Arc::new(VnodeStore::new(
        *node,
        recovered,
        trees.clone(),
        log_writer.clone(),
        pacer.clone(),
        callbacks,
    ))
}

/// Shared handles; each component takes clones of those that it uses.
struct Handles {
    settings: Arc<NodeSettings>,
    host_settings: Arc<HostSettings>,
    groups: Arc<Groups>,
    catalog: Arc<Catalog>,
    directory: Arc<Directory>,
    links: Arc<PeerLinks>,
    levels: Arc<LevelKeeper>,
    available: Arc<Available>,
    disk: Arc<DiskHealth>,
    flusher: Arc<StoreFlusher>,
    data: Arc<OpenDataDir>,
    file_tasks: Arc<FileTasks>,
    lifecycle: Arc<Lifecycle>,
    diagnostics: Arc<Diagnostics>,
}

impl Handles {
    fn router(&self, started_ms: u64) -> Arc<Router> {
        let readiness = Readiness {
            settings: self.settings.clone(),
            groups: self.groups.clone(),
            directory: self.directory.clone(),
            links: self.links.clone(),
            started_ms,
        };
        let (groups, catalog) = (self.groups.clone(), self.catalog.clone());
        let locator = GroupLocator { groups, catalog, links: self.links.clone() };
        Arc::new(Router {
            access: Authorizer::new(self.catalog.clone(), self.groups.clone(), started_ms),
            recorder: ActRecorder::new(&self.settings, &self.catalog, &self.data),
            pending_records: PendingRecords::default(),
            locator,
            directory: self.directory.clone(),
            directory_caught_up: AtomicBool::new(false),
            #[cfg(test)]
            is_index_keeper_paused: AtomicBool::default(),
            available: self.available.clone(),
            readiness: Arc::new(readiness),
            answers: Answers::new(self.settings.memory_bytes_max),
            feed_watchers: Default::default(),
            incoming: self.available.incoming.clone(),
            metrics: self.disk.metrics.clone(),
            space: self.disk.space.clone(),
            levels: self.levels.clone(),
            diagnostics: self.diagnostics.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn moves(&self, router: &Arc<Router>) -> Arc<BucketMoves> {
        Arc::new(BucketMoves {
            settings: move_settings(),
            transfers: Transfers::default(),
            directory_master: Box::new(RoutedDirectory(router.clone())),
            groups: self.groups.clone(),
            directory: self.directory.clone(),
            links: self.links.clone(),
            incoming: router.incoming.clone(),
            space: self.disk.space.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn audit(&self, comparisons: &Arc<Comparisons>) -> Arc<ReplicaAudit> {
        Arc::new(ReplicaAudit {
            settings: self.host_settings.clone(),
            groups: self.groups.clone(),
            catalog: self.catalog.clone(),
            links: self.links.clone(),
            comparisons: comparisons.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn view(&self, cluster: ClusterId, audit: &Arc<ReplicaAudit>) -> Arc<ClusterView> {
        Arc::new(ClusterView {
            cluster,
            groups: self.groups.clone(),
            catalog: self.catalog.clone(),
            links: self.links.clone(),
            available: self.available.clone(),
            audit: audit.clone(),
        })
    }

    fn status(
        &self,
        shared: &Shared,
        incarnation: u64,
        (view, router): (&Arc<ClusterView>, &Arc<Router>),
    ) -> Arc<StatusReader> {
        Arc::new(StatusReader {
            settings: self.settings.clone(),
            incarnation,
            view: view.clone(),
            readiness: router.readiness.clone(),
            recorder: router.recorder.clone(),
            snapshots: shared.snapshots.clone(),
            trees: shared.trees.clone(),
            pacer: shared.pacer.clone(),
            disk: self.disk.clone(),
            lifecycle: self.lifecycle.clone(),
            diagnostics: self.diagnostics.clone(),
        })
    }

    fn calls(&self, audit: &Arc<ReplicaAudit>, view: &Arc<ClusterView>) -> Arc<MemberCalls> {
        Arc::new(MemberCalls {
            settings: self.settings.clone(),
            groups: self.groups.clone(),
            catalog: self.catalog.clone(),
            links: self.links.clone(),
            disk: self.disk.clone(),
            audit: audit.clone(),
            view: view.clone(),
            levels: self.levels.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn agent(
        &self,
        incarnations: OwnIncarnations,
        calls: Arc<MemberCalls>,
        router: &Arc<Router>,
    ) -> Arc<ClusterAgent> {
        let host = GroupHost {
            settings: self.host_settings.clone(),
            groups: self.groups.clone(),
            directory: self.directory.clone(),
            flusher: self.flusher.clone(),
            file_tasks: self.file_tasks.clone(),
            lifecycle: self.lifecycle.clone(),
        };
        Arc::new(ClusterAgent {
            settings: self.settings.clone(),
            incarnations,
            groups: self.groups.clone(),
            directory: self.directory.clone(),
            links: self.links.clone(),
            data: self.data.clone(),
            disk: self.disk.clone(),
            calls,
            host: Arc::new(host),
            router: router.clone(),
            levels: self.levels.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn housekeeper(&self, shared: &Shared) -> Arc<Housekeeper> {
        Arc::new(Housekeeper {
            settings: self.host_settings.clone(),
            flusher: self.flusher.clone(),
            groups: self.groups.clone(),
            vnode_store: self.available.vnode_store.clone(),
            directory: self.directory.clone(),
            disk: self.disk.clone(),
            pacer: shared.pacer.clone(),
            merging: MaintenanceSignal::default(),
            small_merging: MaintenanceSignal::default(),
            file_tasks: self.file_tasks.clone(),
            lifecycle: self.lifecycle.clone(),
        })
    }

    fn checkpointer(&self) -> Arc<Checkpointer> {
        Arc::new(Checkpointer {
            node: self.links.node,
            segment_bytes: self.settings.segment_bytes,
            groups: self.groups.clone(),
            catalog: self.catalog.clone(),
            flusher: self.flusher.clone(),
            data: self.data.clone(),
            file_tasks: self.file_tasks.clone(),
        })
    }
}
