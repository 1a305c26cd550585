//! The one test binary of the house.

mod rigs;
mod supply;
mod tidy;
mod tidy_faults;
