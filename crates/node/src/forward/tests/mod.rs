//! What becomes of requests passed on: on the side that asks with scripted masters, on the side
//! that answers with a real node and whatever bytes there are.

mod desk;
mod errands;
mod fakes;
mod letters;
