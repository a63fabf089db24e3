//! Agents as playbooks declare them, against real processes and real sockets.

mod models;
mod programs;
mod servers;
mod support;
