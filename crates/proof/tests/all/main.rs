//! The one test binary of the house.

mod docs;
mod rigs;
mod supply;
mod tidy;
mod tidy_faults;
