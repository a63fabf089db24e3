//! The integration tests of quorate-contracts, on the agreement that the contract review starts with.

mod agreement;
mod readers;
