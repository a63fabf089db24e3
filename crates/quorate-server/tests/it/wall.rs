//! Security of the hub over real sockets: authentication, limits and shutdown.

mod bounds;
mod doors;
mod ends;
mod rates;
mod sign_in;
mod tls;
mod twins;
