//! Measures the cost of the secret scan. Run it with `cargo run --release -p quorate-engine --example scan_cost`.
// The results are printed for humans.
#![allow(clippy::print_stdout)]

mod bench;

use std::time::Duration;

use bench::{SIZES, Text, scan_cost};
use quorate_engine::Scanner;

/// Number of measurements of each text. The best one is reported because the machine may be shared, and the median for
/// comparison.
const RUNS: usize = 400;

fn main() {
    let scanner = Scanner::new();
    println!("{:<26}{:>9}{:>12}{:>12}{:>9}", "text", "bytes", "best", "median", "ns/B");
    for text in [Text::Plain, Text::Usual, Text::Suspicious, Text::Escaped] {
        for size in SIZES {
            let times = (256 * 1024 / size).max(1);
            let mut costs: Vec<Duration> =
                (0..RUNS).map(|_| scan_cost(&scanner, text, size, times)).collect();
            costs.sort_unstable();
            let (best, median) = (costs[0], costs[RUNS / 2]);
            let per_byte = best.as_nanos() as f64 / size as f64;
            println!("{:<26}{size:>9}{best:>12.2?}{median:>12.2?}{per_byte:>9.2}", text.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i18_the_cost_of_a_scan_is_measured_on_texts_without_a_secret() {
        let scanner = Scanner::new();
        for text in [Text::Plain, Text::Usual, Text::Suspicious, Text::Escaped] {
            assert_eq!(text.of(4096).len(), 4096);
            assert_eq!(scanner.scan(&text.of(64 * 1024)), None, "{}", text.name());
            assert!(scan_cost(&scanner, text, 256, 2) > Duration::ZERO);
        }
    }
}
