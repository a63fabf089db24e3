//! Measures the quality of tournaments on contestants of known strength, as the table of `docs/tournament-quality.md`:
//! `cargo run --release -p quorate-procedures --example tournament_quality`.

use std::io::{self, Write as _};

use quorate_procedures::tournament::simulation::{Pairing, RatingQuality, Simulation};

const SEEDS: u32 = 100;
const MATCHES: [u32; 3] = [5, 10, 20];

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| strengths ± | second ballot repeats the first | pairs | tau after 5, 10, 20 matches | coverage |"
    )?;
    writeln!(out, "|---|---|---|---|---|")?;
    for deviation in [100.0, 200.0, 300.0] {
        for repeated in [0.0, 0.5, 1.0] {
            for (name, pairing) in [("adaptive", Pairing::Adaptive), ("random", Pairing::Random)] {
                let simulation = Simulation { contestants: 24, deviation, repeated, pairing };
                let quality = simulation.mean_quality(SEEDS, &MATCHES);
                let column = |value: fn(&RatingQuality) -> f64| {
                    let values: Vec<_> =
                        quality.iter().map(|quality| format!("{:.3}", value(quality))).collect();
                    values.join(", ")
                };
                let (tau, coverage) = (column(|quality| quality.tau), column(|quality| quality.coverage));
                writeln!(out, "| {deviation} | {:.0} % | {name} | {tau} | {coverage} |", 100.0 * repeated)?;
            }
        }
    }
    Ok(())
}
