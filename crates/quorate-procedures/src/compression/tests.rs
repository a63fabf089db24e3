//! Tests of the compression.
