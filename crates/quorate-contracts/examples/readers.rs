//! Prints how well the readers of contracts read: `cargo run -p quorate-contracts --example readers -- seen 1 200`.

#![allow(clippy::print_stdout, reason = "this is what it is for")]

use quorate_contracts::Half;
use quorate_contracts::measure::{self, Row};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let half = if arguments.get(1).is_some_and(|half| half == "unseen") { Half::Unseen } else { Half::Seen };
    let number = |at: usize, or: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(or);
    let seeds = number(2, 1)..=number(3, 200);
    println!("seeds {}..{} of {half:?}", seeds.start(), seeds.end());
    print("clause", &measure::clauses(seeds.clone(), half));
    print("issue", &measure::issues(seeds, half));
}

fn print(what: &str, rows: &[Row]) {
    println!("\n{what:36} precision  recall  there");
    let total = measure::total(rows);
    for row in rows.iter().chain([&total]) {
        let there = row.right + row.missed;
        println!("{:36} {:9.2} {:7.2} {there:6}", row.name, row.precision(), row.recall());
    }
}
