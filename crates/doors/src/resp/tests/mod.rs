//! What holds for this door as a whole: frames of all kinds, patterns, outputs.

mod frames;
mod malformed;
mod outputs;
mod patterns;
