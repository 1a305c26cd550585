//! Failure detector: decides which nodes this node treats as dead, so that a fallback is asked
//! instead.
//!
//! The directory decides who is a member; this module only whether this node can reach them, now.
//! It uses three kinds of evidence: the link to the node (connected or broken), the requests sent
//! to it (answered, refused, unanswered), and its latency compared with all others. A node that
//! keeps its link and answers pings, but no requests or only late ones, becomes a suspect all the
//! same. It is probed, and trusted again when it answers its probes well.
//! `docs/decisions/0007-failure-detection.md` explains why this is not SWIM.
//!
//! Promises: a node without a link is never reported up; an up node becomes a suspect only upon
//! evidence; a suspect with a link is probed until it is trusted again, so no verdict is final.
//! Never: decides who is a member; reads a clock (the time comes with events); uses randomness.
//! Read next: `stories/answers_pings_but_no_requests.txt`, then `failure_detector.rs`.

mod failure_detector;
mod latency;

pub use failure_detector::{Effect, Event, FailureDetector, Health};

#[cfg(test)]
mod tests;
