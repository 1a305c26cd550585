//! Look in through every window: simulation, real faults, tidy. Not shipped.
