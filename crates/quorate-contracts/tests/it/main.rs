//! Integration tests of quorate-contracts, on the agreement of the contract review playbook.

mod agreement;
mod analysts;
