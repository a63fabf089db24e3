//! Prints precision and recall of the contract analysts: `cargo run -p quorate-contracts --example analysts -- seen 1 200`.

#![allow(clippy::print_stdout, reason = "the example prints its results")]

use quorate_contracts::PhrasingSet;
use quorate_contracts::measure::{self, ClassCounts};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let set = if arguments.get(1).is_some_and(|set| set == "unseen") {
        PhrasingSet::Unseen
    } else {
        PhrasingSet::Seen
    };
    let number = |index: usize, default: u64| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seeds = number(2, 1)..=number(3, 200);
    println!("seeds {}..{} of {set:?}", seeds.start(), seeds.end());
    print("clause", &measure::clauses(seeds.clone(), set));
    print("issue", &measure::issues(seeds, set));
}

fn print(title: &str, rows: &[ClassCounts]) {
    println!("\n{title:36} precision  recall  present");
    let total = measure::total(rows);
    for row in rows.iter().chain([&total]) {
        let present = row.true_positives + row.false_negatives;
        println!("{:36} {:9.2} {:7.2} {present:6}", row.name, row.precision(), row.recall());
    }
}
