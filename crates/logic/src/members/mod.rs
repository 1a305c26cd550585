//! Failure detector: decides which nodes this node takes for dead, so that a fallback is asked
//! instead.
//!
//! Who belongs to the cluster is the directory's to say; here is only whether this node can reach
//! them, now. Three witnesses are heard: the link to the node (connected or broken), the requests
//! sent to it (answered, refused, unanswered), and how long its answers take beside everybody
//! else's. A node that keeps its link and answers pings, but no requests or only late ones, is
//! suspected all the same, probed, and trusted again when its probes are answered as they should
//! be. `docs/decisions/0007-failure-detection.md` says why this is not SWIM.
//!
//! Promises: a node without a link is never called up; one that is up is suspected only upon
//! evidence; a suspect with a link is probed until it is trusted again, so no verdict is for ever.
//! Never: decides who is a member; asks the time (it comes in with events); rolls dice.
//! Read next: `stories/answers_pings_but_no_requests.txt`, then `failure_detector.rs`.

mod failure_detector;
mod latency;

pub use failure_detector::{Effect, Event, FailureDetector, Health};

#[cfg(test)]
mod tests;
