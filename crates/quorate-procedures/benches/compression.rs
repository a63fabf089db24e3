//! Time to compress 100 KB: `cargo bench --locked -p quorate-procedures`. The vocabulary is loaded before.

#![allow(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::time::Instant;

use quorate_procedures::compression::compress;
use quorate_procedures::tokens;

const BYTES: usize = 100 * 1024;
const RUNS: usize = 11;

fn main() {
    let start = Instant::now();
    tokens::preload();
    println!("load the vocabulary: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("the corpus")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let documents: Vec<String> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .map(|file| std::fs::read_to_string(file).expect("readable"))
        .collect();
    let documents = documents.join("\n").repeat(2);
    let documents = &documents[..documents.floor_char_boundary(BYTES)];
    let lines = "2024-06-11 03:14:09 ERROR worker 17 failed after 250 ms\n".repeat(BYTES / 56);
    let unbroken = "x".repeat(BYTES);
    for (name, text) in [("documents", documents), ("one log", &lines), ("one word", &unbroken)] {
        let mut times: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                let compressed = compress(text, "file", 500).expect("it fits");
                assert!(compressed.tokens <= 500);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{name}: {} KB in {:.1} ms (median of {RUNS})", text.len() / 1024, times[RUNS / 2]);
    }
}
