//! Actions of nodes: the handling of each message, its cost, and the messages it sends.

use super::clients::DvvRequest;
use super::messages::{DvvAction, DvvMessage, Put};
use super::{DvvNode, ReplicaState, World, nanoseconds};
use crate::kinds::ClockKind;
use crate::study::{READ, REPLICAS, WRITTEN, partition, replicas};
use crate::truth::Truth;
use std::rc::Rc;
use std::time::Instant;

/// Index of the clocks' work in reads.
const READ_WORK: usize = 0;
/// Index of the clocks' work in writes.
const WRITE_WORK: usize = 1;

impl<K: ClockKind> World<'_, K> {
    /// Returns the nanoseconds that a node is busy with a message.
    pub(super) fn busy_ns(&self, message: &DvvMessage<K>) -> u64 {
        let (handle, read) = (nanoseconds(self.cost.handle), nanoseconds(self.cost.read));
        let store = read + nanoseconds(self.cost.write);
        match message {
            DvvMessage::Fetch { .. } => read,
            DvvMessage::Write { .. } | DvvMessage::Store { .. } => store,
            // A forwarded put is stored at this node.
            DvvMessage::Put { forwarded_by: Some(_), .. } => handle + store,
            _ => handle,
        }
    }

    pub(super) fn handle(&mut self, node: usize, message: DvvMessage<K>) {
        match message {
            DvvMessage::Get { client, key } => {
                let request = self.add_request(DvvRequest::read(client, key));
                for replica in replicas(key) {
                    let fetch = DvvMessage::Fetch { request, key, from: node };
                    self.send(Some(node), replica, fetch);
                }
            }
            DvvMessage::Fetch { request, key, from } => {
                let state = self.nodes[node].rows[key as usize].clone();
                let fetched = DvvMessage::Fetched { request, from: node, state };
                self.send(Some(node), from, fetched);
            }
            DvvMessage::Fetched { request, from, state } => {
                self.on_fetched(node, request, from, state);
            }
            DvvMessage::Put { put, forwarded_by } => self.on_put(node, put, forwarded_by),
            DvvMessage::Write { request, from, put } => {
                let state = self.apply_write(node, &put);
                self.nodes[node].rows[put.key as usize] = Some(state);
                self.send(Some(node), from, DvvMessage::Stored { request });
            }
            DvvMessage::Store { ack_to, key, state } => {
                let started = Instant::now();
                let local = self.nodes[node].rows[key as usize].take();
                let merged = self.merge_states(local, state);
                self.nodes[node].rows[key as usize] = Some(merged);
                let work = if ack_to.is_some() { WRITE_WORK } else { READ_WORK };
                self.measured.work[work] += started.elapsed();
                if let Some((request, from)) = ack_to {
                    self.send(Some(node), from, DvvMessage::Stored { request });
                }
            }
            DvvMessage::Stored { request } => self.on_stored(node, request),
            DvvMessage::ForwardAck { client } => self.answer_client(client, None),
        }
    }

    fn add_request(&mut self, request: DvvRequest<K>) -> usize {
        match self.free_requests.pop() {
            Some(index) => {
                self.requests[index] = Some(request);
                index
            }
            None => {
                self.requests.push(Some(request));
                self.requests.len() - 1
            }
        }
    }

    fn remove_request(&mut self, index: usize) {
        self.requests[index] = None;
        self.free_requests.push(index);
    }

    fn on_fetched(
        &mut self,
        node: usize,
        index: usize,
        from: usize,
        state: Option<Rc<ReplicaState<K>>>,
    ) {
        let Some(mut request) = self.requests[index].take() else { return };
        let started = Instant::now();
        if let Some(state) = &state {
            request.merged = Some(self.merge_states(request.merged.take(), state.clone()));
        }
        self.measured.work[READ_WORK] += started.elapsed();
        request.replies.push((from, state));
        if request.replies.len() == READ {
            self.answer_client(request.client, Some(request.merged.clone()));
        }
        if request.replies.len() < REPLICAS {
            self.requests[index] = Some(request);
            return;
        }
        self.remove_request(index);
        let Some(merged) = request.merged else { return };
        for (replica, state) in request.replies {
            let same = state.is_some_and(|state| {
                Rc::ptr_eq(&state, &merged)
                    || (state.row == merged.row && state.truth == merged.truth)
            });
            if !same {
                let (ack_to, key) = (None, request.key);
                self.send(
                    Some(node),
                    replica,
                    DvvMessage::Store { ack_to, key, state: merged.clone() },
                );
            }
        }
    }

    fn on_put(&mut self, node: usize, put: Put<K>, forwarded_by: Option<usize>) {
        let key = put.key;
        if !K::MINTED {
            let request = self.add_request(DvvRequest::write(put.client, key, None, 0));
            for replica in replicas(key) {
                let write = DvvMessage::Write { request, from: node, put: put.clone() };
                self.send(Some(node), replica, write);
            }
            return;
        }
        if forwarded_by.is_none() {
            // A replica handles the put itself; the other message bears the cost.
            let is_replica = replicas(key).contains(&node);
            let index = self.network.below(REPLICAS as u64) as usize;
            let coordinator = if is_replica { node } else { replicas(key)[index] };
            let forwarded_by = Some(node);
            return self.send(Some(node), coordinator, DvvMessage::Put { put, forwarded_by });
        }
        let state = self.apply_write(node, &put);
        self.nodes[node].rows[key as usize] = Some(state.clone());
        let origin = forwarded_by.filter(|origin| *origin != node);
        let request = self.add_request(DvvRequest::write(put.client, key, origin, 1));
        for replica in replicas(key).into_iter().filter(|replica| *replica != node) {
            let ack_to = Some((request, node));
            self.send(Some(node), replica, DvvMessage::Store { ack_to, key, state: state.clone() });
        }
    }

    /// Applies a client's write to the row of this node.
    fn apply_write(&mut self, node: usize, put: &Put<K>) -> Rc<ReplicaState<K>> {
        let started = Instant::now();
        let Put { key, context, write, writer, .. } = put;
        let DvvNode { rows, vnodes, .. } = &mut self.nodes[node];
        let vnode = &mut vnodes[partition(*key) as usize];
        let empty = ReplicaState { row: K::Row::default(), truth: Truth::default() };
        let local = rows[*key as usize].as_deref().unwrap_or(&empty);
        let row = self.kind.write(vnode, &local.row, &context.clock, *write, *writer);
        self.measured.work[WRITE_WORK] += started.elapsed();
        Rc::new(ReplicaState { row, truth: local.truth.write(&context.seen, *write) })
    }

    fn on_stored(&mut self, node: usize, index: usize) {
        let Some(request) = &mut self.requests[index] else { return };
        request.stored += 1;
        let (stored, client, origin) = (request.stored, request.client, request.origin);
        if stored == WRITTEN {
            match origin {
                Some(origin) => self.send(Some(node), origin, DvvMessage::ForwardAck { client }),
                None => self.answer_client(client, None),
            }
        }
        if stored == REPLICAS {
            self.remove_request(index);
        }
    }

    /// Sends an answer to a client.
    fn answer_client(&mut self, client: usize, answer: Option<Option<Rc<ReplicaState<K>>>>) {
        let found = answer.iter().flatten();
        let bytes = found.map(|state| state.bytes(self.load.value_bytes)).sum();
        let transit_ns = self.transit_ns(bytes);
        self.schedule(self.now + transit_ns, DvvAction::Answered { client, answer });
    }
}
