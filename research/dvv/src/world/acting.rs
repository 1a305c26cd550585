//! Actions of nodes: the handling of each message, its cost, and the messages it sends.

use super::asking::Serving;
use super::mail::{DvvAction, Mail, Put};
use super::{DvvNode, ReplicaState, World, nanoseconds};
use crate::kinds::ClockKind;
use crate::study::{READ, REPLICAS, WRITTEN, partition, replicas};
use crate::truth::Truth;
use std::rc::Rc;
use std::time::Instant;

/// Index of the clocks' work in reads.
const READING: usize = 0;
const WRITING: usize = 1;

impl<K: ClockKind> World<'_, K> {
    /// Returns the nanoseconds that a node is busy with a message.
    pub(super) fn effort(&self, mail: &Mail<K>) -> u64 {
        let (handle, read) = (nanoseconds(self.cost.handle), nanoseconds(self.cost.read));
        let store = read + nanoseconds(self.cost.write);
        match mail {
            Mail::Fetch { .. } => read,
            Mail::Write { .. } | Mail::Store { .. } => store,
            // A forwarded put is stored at this node.
            Mail::Put { by_way_of: Some(_), .. } => handle + store,
            _ => handle,
        }
    }

    pub(super) fn act(&mut self, node: usize, mail: Mail<K>) {
        match mail {
            Mail::Get { client, key } => {
                let serving = self.serve(Serving::read(client, key));
                for replica in replicas(key) {
                    let fetch = Mail::Fetch { serving, key, from: node };
                    self.send(Some(node), replica, fetch);
                }
            }
            Mail::Fetch { serving, key, from } => {
                let state = self.nodes[node].rows[key as usize].clone();
                let fetched = Mail::Fetched { serving, from: node, state };
                self.send(Some(node), from, fetched);
            }
            Mail::Fetched { serving, from, state } => self.fetched(node, serving, from, state),
            Mail::Put { put, by_way_of } => self.put(node, put, by_way_of),
            Mail::Write { serving, from, put } => {
                let state = self.written(node, &put);
                self.nodes[node].rows[put.key as usize] = Some(state);
                self.send(Some(node), from, Mail::Stored { serving });
            }
            Mail::Store { told, key, state } => {
                let begun = Instant::now();
                let local = self.nodes[node].rows[key as usize].take();
                let joined = self.joined(local, state);
                self.nodes[node].rows[key as usize] = Some(joined);
                let part = if told.is_some() { WRITING } else { READING };
                self.measured.work[part] += begun.elapsed();
                if let Some((serving, from)) = told {
                    self.send(Some(node), from, Mail::Stored { serving });
                }
            }
            Mail::Stored { serving } => self.stored(node, serving),
            Mail::Relayed { client } => self.tell(client, None),
        }
    }

    fn serve(&mut self, serving: Serving<K>) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.serving[place] = Some(serving);
                place
            }
            None => {
                self.serving.push(Some(serving));
                self.serving.len() - 1
            }
        }
    }

    fn end(&mut self, place: usize) {
        self.serving[place] = None;
        self.free.push(place);
    }

    fn fetched(
        &mut self,
        node: usize,
        place: usize,
        from: usize,
        state: Option<Rc<ReplicaState<K>>>,
    ) {
        let Some(mut serving) = self.serving[place].take() else { return };
        let begun = Instant::now();
        if let Some(state) = &state {
            serving.whole = Some(self.joined(serving.whole.take(), state.clone()));
        }
        self.measured.work[READING] += begun.elapsed();
        serving.replies.push((from, state));
        if serving.replies.len() == READ {
            self.tell(serving.client, Some(serving.whole.clone()));
        }
        if serving.replies.len() < REPLICAS {
            self.serving[place] = Some(serving);
            return;
        }
        self.end(place);
        let Some(whole) = serving.whole else { return };
        for (replica, state) in serving.replies {
            let same = state.is_some_and(|state| {
                Rc::ptr_eq(&state, &whole) || (state.row == whole.row && state.truth == whole.truth)
            });
            if !same {
                let (told, key) = (None, serving.key);
                self.send(Some(node), replica, Mail::Store { told, key, state: whole.clone() });
            }
        }
    }

    fn put(&mut self, node: usize, put: Put<K>, by_way_of: Option<usize>) {
        let key = put.key;
        if !K::MINTED {
            let serving = self.serve(Serving::write(put.client, key, None, 0));
            for replica in replicas(key) {
                let write = Mail::Write { serving, from: node, put: put.clone() };
                self.send(Some(node), replica, write);
            }
            return;
        }
        if by_way_of.is_none() {
            // A replica handles the put itself; the other message bears the cost.
            let own = replicas(key).contains(&node);
            let chosen = self.network.below(REPLICAS as u64) as usize;
            let taker = if own { node } else { replicas(key)[chosen] };
            let by_way_of = Some(node);
            return self.send(Some(node), taker, Mail::Put { put, by_way_of });
        }
        let state = self.written(node, &put);
        self.nodes[node].rows[key as usize] = Some(state.clone());
        let origin = by_way_of.filter(|origin| *origin != node);
        let serving = self.serve(Serving::write(put.client, key, origin, 1));
        for replica in replicas(key).into_iter().filter(|replica| *replica != node) {
            let told = Some((serving, node));
            self.send(Some(node), replica, Mail::Store { told, key, state: state.clone() });
        }
    }

    /// Applies a client's write to the row of this node.
    fn written(&mut self, node: usize, put: &Put<K>) -> Rc<ReplicaState<K>> {
        let begun = Instant::now();
        let Put { key, context, write, by, .. } = put;
        let DvvNode { rows, vnodes, .. } = &mut self.nodes[node];
        let vnode = &mut vnodes[partition(*key) as usize];
        let empty = ReplicaState { row: K::Row::default(), truth: Truth::default() };
        let local = rows[*key as usize].as_deref().unwrap_or(&empty);
        let row = self.kind.write(vnode, &local.row, &context.clock, *write, *by);
        self.measured.work[WRITING] += begun.elapsed();
        Rc::new(ReplicaState { row, truth: local.truth.write(&context.seen, *write) })
    }

    fn stored(&mut self, node: usize, place: usize) {
        let Some(serving) = &mut self.serving[place] else { return };
        serving.stored += 1;
        let (stored, client, origin) = (serving.stored, serving.client, serving.origin);
        if stored == WRITTEN {
            match origin {
                Some(origin) => self.send(Some(node), origin, Mail::Relayed { client }),
                None => self.tell(client, None),
            }
        }
        if stored == REPLICAS {
            self.end(place);
        }
    }

    /// Sends an answer to a client.
    fn tell(&mut self, client: usize, answer: Option<Option<Rc<ReplicaState<K>>>>) {
        let found = answer.iter().flatten();
        let bytes = found.map(|state| state.bytes(self.load.value_bytes)).sum();
        let flight = self.flight(bytes);
        self.at(self.now + flight, DvvAction::Answered { client, answer });
    }
}
