//! The outer wall of the hub, over real sockets: who gets in, how much is taken from each, and how it ends.

mod bounds;
mod doors;
mod ends;
mod rates;
mod sign_in;
mod tls;
mod twins;
