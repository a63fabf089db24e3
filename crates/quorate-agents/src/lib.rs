//! Agents that Quorate brings along, and what they practise on. Not here: how agents deliberate (quorate-procedures).

pub mod contracts;
