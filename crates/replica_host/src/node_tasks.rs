//! Parents of a node's tasks, in the order in which a stop ends them.
//!
//! First the loops, the groups and the available path: they take nothing new and finish what they
//! have. Then the requests under way, when the connections are closed that they may wait for. The
//! loops of front-ends are the concern of those who began them: a stop does not wait for them.

use runtime::TaskScope;

/// Scopes of a node's tasks.
pub struct NodeTasks {
    /// Parent of all others.
    pub all: TaskScope,
    /// Loops and threads of the node itself.
    pub loops: TaskScope,
    /// Drivers of the groups.
    pub groups: TaskScope,
    /// Loops of the available path, and its requests' tasks.
    pub available: TaskScope,
    /// Requests of other nodes, and work of all requests that blocks.
    pub requests: TaskScope,
    /// Records of the audit log that wait for an outcome.
    pub records: TaskScope,
    /// Connections with other nodes.
    pub peers: TaskScope,
    /// Loops of the program around the node.
    pub front_ends: TaskScope,
}

impl Default for NodeTasks {
    fn default() -> NodeTasks {
        NodeTasks::new()
    }
}

impl NodeTasks {
    /// Creates the scopes, without tasks.
    pub fn new() -> NodeTasks {
        let all = TaskScope::new("node");
        NodeTasks {
            loops: all.child("loops"),
            groups: all.child("groups"),
            available: all.child("available"),
            requests: all.child("requests"),
            records: all.child("records"),
            peers: all.child("peers"),
            all,
            front_ends: TaskScope::new("front-ends"),
        }
    }

    /// Returns the scopes whose loops and threads a watchdog watches.
    pub fn watched(&self) -> Vec<TaskScope> {
        vec![self.all.clone(), self.front_ends.clone()]
    }

    /// Ends the background loops; requests and connections continue.
    pub fn end_loops(&self) {
        [&self.loops, &self.groups, &self.available].into_iter().for_each(TaskScope::cancel);
    }
}
