//! Stories, laws and examples of consensus.

mod broken;
mod cluster;
mod examples;
mod group;
mod laws;
mod machine;
mod model;
mod stories;
mod twin;
mod wire;

pub(super) use broken::broken;
