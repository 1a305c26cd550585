//! The one test binary of the house.

mod tidy;
mod tidy_faults;
