//! The `coalescope` command.
fn main() {}
