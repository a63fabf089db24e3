//! The scan on a corpus, and on the shapes in which secrets hide.

mod corpus;
mod dice;
mod escapes;
mod falsehoods;
mod shapes;
mod truths;
