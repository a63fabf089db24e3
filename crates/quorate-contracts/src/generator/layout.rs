//! Layout of a contract: numbering, titles, order of sections, line width.

use super::numerals::roman;
use super::rng::SeededRng;
use super::section::Section;

/// Numbering of sections and clauses.
#[derive(Clone, Copy, Debug)]
enum Numbering {
    /// 4. HEADING, 4.2
    Decimal,
    /// ARTICLE IV, Section 4.02.
    Article,
    /// § 4 Heading, (2)
    Paragraph,
    /// 4. Heading, (b)
    Letters,
    /// HEADING, and no numbers.
    Bare,
}

/// Format of clause titles.
#[derive(Clone, Copy, Debug)]
enum Titles {
    None,
    /// "Insurance. The Supplier …"
    Stop,
    /// "Insurance: The Supplier …"
    Colon,
}

/// Layout of one contract.
pub(super) struct Layout {
    numbering: Numbering,
    titles: Titles,
    /// Sections in order.
    pub(super) sections: Vec<Section>,
    /// Line width in characters; `None` for unwrapped text.
    width: Option<usize>,
}

impl Layout {
    pub(super) fn random(rng: &mut SeededRng) -> Self {
        use Numbering::{Article, Bare, Decimal, Letters, Paragraph};
        let numbering = *rng.pick(&[Decimal, Decimal, Article, Paragraph, Letters, Bare]);
        let titles = *rng.pick(&[Titles::None, Titles::Stop, Titles::Stop, Titles::Colon]);
        let width = *rng.pick(&[None, None, Some(72), Some(80), Some(96)]);
        Self { numbering, titles, sections: draw_order(rng), width }
    }

    pub(super) fn heading(&self, number: usize, section: Section, heading: &str) -> String {
        if section == Section::Schedule {
            return heading.to_uppercase();
        }
        match self.numbering {
            Numbering::Decimal => format!("{number}. {}", heading.to_uppercase()),
            Numbering::Article => format!("ARTICLE {}\n{}", roman(number), heading.to_uppercase()),
            Numbering::Paragraph => format!("§ {number} {heading}"),
            Numbering::Letters => format!("{number}. {heading}"),
            Numbering::Bare => heading.to_uppercase(),
        }
    }

    /// Number and title in front of a clause.
    pub(super) fn lead(
        &self,
        section_number: usize,
        index: usize,
        section: Section,
        title: Option<&str>,
    ) -> String {
        let number = match (self.numbering, section) {
            (Numbering::Bare, _) => String::new(),
            (_, Section::Schedule) => format!("{}. ", index + 1),
            (Numbering::Decimal, _) => format!("{section_number}.{} ", index + 1),
            (Numbering::Article, _) => format!("Section {section_number}.{:02}. ", index + 1),
            (Numbering::Paragraph, _) => format!("({}) ", index + 1),
            (Numbering::Letters, _) => format!("({}) ", letters(index)),
        };
        match (self.titles, title) {
            (Titles::Stop, Some(title)) => format!("{number}{title}. "),
            (Titles::Colon, Some(title)) => format!("{number}{title}: "),
            _ => number,
        }
    }

    /// Wraps long lines. Spaces are replaced by line breaks, so byte offsets do not change.
    pub(super) fn wrap(&self, text: String) -> String {
        let Some(width) = self.width else { return text };
        let mut bytes = text.clone().into_bytes();
        // Column of the current line, and offset and column of its last space.
        let (mut column, mut space) = (0, None);
        for (offset, char) in text.char_indices() {
            match char {
                '\n' => (column, space) = (0, None),
                ' ' => (column, space) = (column + 1, Some((offset, column + 1))),
                _ => column += 1,
            }
            if let Some((space_offset, space_column)) = space
                && column > width
            {
                bytes[space_offset] = b'\n';
                (column, space) = (column - space_column, None);
            }
        }
        // Only ASCII spaces were replaced by line breaks, so the text stays valid UTF-8.
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// Draws the order of sections: usually starting with definitions, always ending with general provisions and the
/// schedule.
fn draw_order(rng: &mut SeededRng) -> Vec<Section> {
    let ends = [Section::Definitions, Section::Services, Section::General, Section::Schedule];
    let mut middle: Vec<Section> =
        Section::HEADED.into_iter().filter(|section| !ends.contains(section)).collect();
    rng.shuffle(&mut middle);
    let mut sections = vec![Section::Services];
    sections.append(&mut middle);
    let first = if rng.with_percent(80) { 0 } else { sections.len() };
    sections.insert(first, Section::Definitions);
    sections.extend([Section::General, Section::Schedule]);
    sections
}

/// Letters for list items: a to z, then aa, bb and so on.
fn letters(index: usize) -> String {
    let letter = char::from(b'a' + (index % 26) as u8);
    letter.to_string().repeat(index / 26 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(width: Option<usize>) -> Layout {
        Layout { numbering: Numbering::Article, titles: Titles::Colon, sections: Vec::new(), width }
    }

    #[test]
    fn lines_are_wrapped_at_spaces_and_offsets_stay_the_same() {
        let text = "The quick — brown fox jumps over\nthe lazy dog".to_owned();
        let wrapped = layout(Some(12)).wrap(text.clone());
        assert_eq!(wrapped, "The quick —\nbrown fox\njumps over\nthe lazy dog");
        assert_eq!(wrapped.replace('\n', " "), text.replace('\n', " "));
        assert_eq!(layout(None).wrap(text.clone()), text);
    }

    #[test]
    fn clauses_start_with_number_and_title() {
        let layout = layout(None);
        assert_eq!(layout.heading(4, Section::Fees, "Money"), "ARTICLE IV\nMONEY");
        assert_eq!(layout.lead(4, 1, Section::Fees, Some("Price")), "Section 4.02. Price: ");
        assert_eq!(layout.lead(4, 1, Section::Schedule, None), "2. ");
        assert_eq!([0, 25, 26, 27].map(letters).join(" "), "a z aa bb");
    }
}
