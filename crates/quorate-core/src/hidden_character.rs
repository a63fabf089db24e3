//! Characters that a reader cannot see, or that reorder the text around them. Two ids that differ only in them look the same.

/// Whether a character changes the direction of text, ends a line, or is invisible. Control characters are not included.
#[must_use]
pub fn is_hidden_character(ch: char) -> bool {
    matches!(ch,
        // Change the direction of text, or end a line.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}'
        // Ignored by default (the property Default_Ignorable_Code_Point of Unicode), such as variation selectors.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        // Blank glyphs: an empty Braille cell, and a note without a head.
        | '\u{2800}' | '\u{1d159}')
}

/// Same as [`is_hidden_character`], except for the variation selector that many emojis end with. For texts, in which
/// nothing depends on it, not for ids.
#[must_use]
pub fn is_hidden_in_text(ch: char) -> bool {
    ch != '\u{fe0f}' && is_hidden_character(ch)
}
