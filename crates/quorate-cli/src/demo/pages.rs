//! Prints the report of a demo: on a terminal in pages, with a pause after each.

use crate::run::Pauses;
use crate::terminal;

/// Maximum number of lines of a page, so that it fits a terminal of 24 lines with the prompt.
const PAGE_LINES: usize = 21;

/// Prints a report. With pauses, there is one after each page but the last.
pub(super) async fn print(report: &str, pauses: &mut Pauses) {
    if !pauses.are_enabled() {
        terminal::print(report);
        return;
    }
    let pages = pages(report);
    for (index, page) in pages.iter().enumerate() {
        terminal::print(page);
        if index + 1 < pages.len() {
            pauses.pause().await;
        }
    }
}

/// Divides a report between its sections, which are separated by empty lines, or within a section that is too long.
fn pages(report: &str) -> Vec<String> {
    let mut pages: Vec<Vec<&str>> = vec![Vec::new()];
    for section in report.split("\n\n") {
        let lines: Vec<&str> = section.lines().collect();
        let page = pages.last_mut().expect("there is one");
        if !page.is_empty() && page.len() + 1 + lines.len() > PAGE_LINES {
            pages.push(Vec::new());
        } else if !page.is_empty() {
            page.push("");
        }
        for line in lines {
            if pages.last().is_some_and(|page| page.len() >= PAGE_LINES) {
                pages.push(Vec::new());
            }
            pages.last_mut().expect("there is one").push(line);
        }
    }
    pages.iter().map(|page| page.join("\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a lost line, or a page that is higher than the terminal.
    #[test]
    fn a_report_is_divided_between_its_sections() {
        let section = |name: &str, lines: usize| vec![name; lines].join("\n");
        let report = [section("a", 10), section("b", 10), section("c", 3), section("d", 50)].join("\n\n");
        let pages = pages(&report);
        let lengths: Vec<usize> = pages.iter().map(|page| page.lines().count()).collect();
        assert_eq!(lengths, [21, 3, 21, 21, 8]);
        assert!(pages[0].contains("a\n\nb") && pages[1].starts_with('c'));
        let words = pages.iter().flat_map(|page| page.lines()).filter(|line| !line.is_empty()).count();
        assert_eq!(words, 73);
    }
}
