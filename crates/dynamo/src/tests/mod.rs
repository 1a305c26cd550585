//! Tests of gets and puts at one coordinator: the other nodes are played by the test, which sees
//! every question and decides about every answer and about the time.

mod gets;
mod puts;
mod test_node;
