//! Security of the hub over real sockets: authentication, limits and shutdown.

mod headers;
mod host_origin;
mod isolation;
mod limits;
mod rate_limits;
mod revocation_and_shutdown;
mod sign_in;
mod tls;
mod unauthenticated;
