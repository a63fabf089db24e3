//! The binary `quorate`.

fn main() {}
