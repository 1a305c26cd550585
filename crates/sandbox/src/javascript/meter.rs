//! Meter of a realm: fuel by the ticks of the engine.
//!
//! The engine ticks once in 10,000 loop rounds, calls and steps of a search by an expression, the
//! same number in every run. Work inside one built-in function is not seen: sorting or searching
//! is bounded by the memory that it can reach.

use crate::limits::TICK_FUEL;
use std::cell::Cell;

/// Fuel of a realm.
#[derive(Debug, Default)]
pub(crate) struct TickMeter {
    fuel: Cell<u64>,
    is_empty: Cell<bool>,
    is_stopped: Cell<bool>,
}

impl TickMeter {
    pub fn new(fuel: u64) -> TickMeter {
        TickMeter { fuel: Cell::new(fuel), ..TickMeter::default() }
    }

    pub fn fuel(&self) -> u64 {
        self.fuel.get()
    }

    pub fn set_fuel(&self, fuel: u64) {
        self.fuel.set(fuel);
    }

    /// Returns true if the fuel has ended the script.
    pub fn is_empty(&self) -> bool {
        self.is_empty.get()
    }

    /// Ends the script at its next tick.
    pub fn stop(&self) {
        self.is_stopped.set(true);
    }

    /// Takes fuel, and returns false if there is too little.
    pub fn burn(&self, fuel: u64) -> bool {
        match self.fuel.get().checked_sub(fuel) {
            Some(left) => self.fuel.set(left),
            None => {
                self.fuel.set(0);
                self.is_empty.set(true);
            }
        }
        !self.is_empty.get()
    }

    /// Counts a tick, and returns true if the script ends here.
    pub fn tick(&self) -> bool {
        !self.burn(TICK_FUEL) || self.is_stopped.get()
    }
}
