//! Agents that Quorate brings along, and what they practise on. Not here: how agents deliberate (quorate-procedures).

#[allow(dead_code, reason = "the generator reads the phrasings")]
pub mod contracts;
