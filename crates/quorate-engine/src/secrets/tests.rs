//! Tests of the scanner on a corpus, and on individual formats.

mod corpus;
mod escapes;
mod false_examples;
mod formats;
mod random_text;
mod true_examples;
