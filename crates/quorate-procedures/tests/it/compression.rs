//! Compression of contexts: its quality, measured on a corpus of documents with key facts.

mod baseline;
mod corpus;
mod quality;
