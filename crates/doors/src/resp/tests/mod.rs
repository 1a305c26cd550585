//! What holds for this door as a whole: frames of all kinds, patterns, outputs.

mod conversations;
mod frames;
mod house;
mod malformed;
mod outputs;
mod patterns;
