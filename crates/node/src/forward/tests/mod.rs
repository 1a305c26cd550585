//! Forwarded requests: the asking side with scripted masters, the answering side with a real node
//! and arbitrary bytes.

mod desk;
mod errands;
mod fakes;
mod letters;
