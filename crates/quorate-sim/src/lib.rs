//! Tests of Quorate from outside. What a client sees is written down as a [`history`]; afterwards it is compared with
//! what the store holds, promise by promise. Nothing here is shipped.

pub mod aftermath;
pub mod check;
pub mod history;
pub mod load;
pub mod power;
pub mod seed;
