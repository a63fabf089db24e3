//! Tests of the scanner on a corpus, and on individual formats.

mod corpus;
mod dice;
mod escapes;
mod falsehoods;
mod shapes;
mod truths;
