//! A pipeline of which several requests are under way: what may go beside them, and what waits.
//!
//! Beside others goes what reads or writes one key of an available bucket, and no key that is under
//! way. Everything else waits until all before it are answered: what changes the connection
//! (`MULTI`, another bucket, another protocol), what takes several keys or several requests, what
//! is no request of data at all.
//!
//! Never: lets an answer pass another.

use super::client::Replies;
use super::output::Output;
use super::serve::{ANSWER_BYTES, Slow, Visit};
use super::translate::table;
use super::window::{Apart, WINDOW_REQUEST_BYTES_MAX, WindowAnswer};
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use std::future::Future;
use std::pin::Pin;

impl Visit {
    /// A request, of this many bytes, behind others that are under way. What it says at once is
    /// kept apart until they have answered.
    pub(super) async fn request_behind(&mut self, bytes: usize) -> Result<Option<Slow>, ()> {
        let name = self.parser.command(&self.intake.input[..bytes]);
        let is_of_rows = table::find(name).is_some_and(table::Command::is_of_rows);
        if !is_of_rows || self.client.transaction.is_some() {
            self.drain().await?;
            return Ok(self.request(bytes));
        }
        let apart = Output::new(self.out.protocol);
        let before = std::mem::replace(&mut self.out, apart);
        let slow = self.request(bytes);
        let said = std::mem::replace(&mut self.out, before);
        Ok(slow.or_else(|| (!said.is_empty()).then_some(Slow::Said(said))))
    }

    /// Begins a request beside those under way, as soon as it may; gives it back if it is to go
    /// alone.
    pub(super) async fn go_beside(
        &mut self,
        apart: Apart,
        bytes: usize,
    ) -> Result<Option<Apart>, ()> {
        // Whoever waits for each answer needs no task for it.
        let is_only = self.window.is_empty() && self.intake.input.is_empty();
        let is_plain = matches!(self.client.replies, Replies::On | Replies::Off);
        if is_only || !is_plain || bytes > WINDOW_REQUEST_BYTES_MAX {
            return Ok(Some(apart));
        }
        while self.window.has(&apart.key) || !self.window.has_room(apart.operation, bytes) {
            self.step().await?;
        }
        let Some(seat) = self.registry.seat_beside(bytes) else { return Ok(Some(apart)) };
        self.window.begin(apart, bytes, seat);
        Ok(None)
    }

    /// Waits until nothing is under way, and has all of it told.
    pub(super) async fn drain(&mut self) -> Result<(), ()> {
        while !self.window.is_empty() {
            self.step().await?;
        }
        Ok(())
    }

    /// Tells the first answer; before it waits for it, all that is told is sent.
    async fn step(&mut self) -> Result<(), ()> {
        if self.out.len() < ANSWER_BYTES
            && let Some(answered) = self.window.done().await
        {
            self.tell(answered);
            return Ok(());
        }
        self.send().await?;
        let answered = self.window.first().await;
        self.tell(answered);
        Ok(())
    }

    /// Tells what is done.
    pub(super) async fn settle(&mut self) {
        while self.out.len() < ANSWER_BYTES {
            let Some(answered) = self.window.done().await else { return };
            self.tell(answered);
        }
    }

    fn tell(&mut self, answered: WindowAnswer) {
        let WindowAnswer { reply, shape, operation, began } = answered;
        let (verdict, took) = (Verdict::of(&reply), began.elapsed());
        self.shared.counters.observe(ClientProtocol::Resp, operation, verdict, took);
        let (from, before) = (self.out.place(), self.out.len());
        self.say(&shape, reply);
        if operation == OperationKind::Get {
            self.window.brought(self.out.len() - before);
        }
        self.swallow(from);
    }

    /// Reads what comes next; meanwhile answers go out as they come. `false`: nothing more comes,
    /// and what was under way is answered.
    pub(super) async fn read_on(
        &mut self,
        mut ended: Pin<&mut impl Future<Output = bool>>,
    ) -> bool {
        loop {
            self.intake.answers_follow = !self.window.is_empty();
            let answered = tokio::select! {
                biased;
                answered = self.window.first() => answered,
                more = self.intake.read(&mut self.stream, ended.as_mut()) => {
                    if !more && self.drain().await.is_ok() {
                        // Whoever only stopped asking still wants to hear.
                        let _ = self.send().await;
                    }
                    self.add_up();
                    return more;
                }
            };
            self.tell(answered);
            self.settle().await;
            self.add_up();
            if self.send().await.is_err() {
                return false;
            }
        }
    }
}
