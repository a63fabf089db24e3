//! `docs/demo.svg`, the picture in the README: the report of the demo as a terminal shows it.

use std::fmt::Write as _;
use std::process::Command;

use expect_test::expect_file;

use crate::support::QUORATE;

/// Lines of the report in the picture: the outcome, its summary and the first conflict.
const LINES: usize = 26;
const COLUMNS: usize = 80;
/// Size of a character cell and of the margin, in pixels.
const CELL: (f64, usize) = (8.4, 18);
const MARGIN: usize = 20;

// Fails under: a demo that prints something else than the README shows. `UPDATE_EXPECT=1` redraws the picture.
#[test]
fn the_picture_in_the_readme_shows_the_output_of_the_demo() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(QUORATE)
        .args(["demo", "--headless"])
        .current_dir(directory.path())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = report.lines().take(LINES).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{report}");
    expect_file!["../../../../docs/demo.svg"].assert_eq(&svg(&lines));
}

/// Draws a terminal window with the command and its output.
fn svg(lines: &[&str]) -> String {
    let (width, height) =
        (COLUMNS as f64 * CELL.0 + 2.0 * MARGIN as f64, (lines.len() + 4) * CELL.1 + 2 * MARGIN);
    let mut drawing = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" viewBox=\"0 0 {width:.0} {height}\" \
         role=\"img\" aria-label=\"Output of quorate demo\">\n\
         <style>text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d7dce2; \
         white-space: pre }} .prompt {{ fill: #8b949e }} .title {{ fill: #fff; font-weight: bold }} .winner {{ fill: #7ee787 }} \
         .heading {{ fill: #79c0ff }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n",
    );
    for (x, colour) in [(20, "#ff5f57"), (38, "#febc2e"), (56, "#28c840")] {
        writeln!(drawing, "<ellipse cx=\"{x}\" cy=\"20\" rx=\"5.5\" ry=\"5.5\" fill=\"{colour}\"/>")
            .expect("a string grows");
    }
    draw(&mut drawing, 2, "prompt", "$ cargo run --release -- demo");
    for (index, line) in lines.iter().enumerate() {
        draw(&mut drawing, index + 4, class(index, line), line);
    }
    drawing.push_str("</svg>\n");
    drawing
}

fn draw(drawing: &mut String, row: usize, class: &str, line: &str) {
    if line.is_empty() {
        return;
    }
    let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let y = MARGIN + row * CELL.1;
    writeln!(
        drawing,
        "<text x=\"{MARGIN}\" y=\"{y}\" class=\"{class}\" xml:space=\"preserve\">{line}</text>"
    )
    .expect("a string grows");
}

fn class(index: usize, line: &str) -> &'static str {
    let heading = |word: &str| line.starts_with(word);
    match line {
        _ if index == 0 => "title",
        _ if heading("✓") => "winner",
        _ if heading("C1 ") || heading("  OPTION") => "heading",
        _ => "line",
    }
}
