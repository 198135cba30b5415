//! The words of a script's line.

pub(crate) type Parsed<T> = Result<T, String>;

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| format!("{text:?} is not a number that fits"))
}

pub(crate) fn hex(text: &str) -> Parsed<Vec<u8>> {
    let wrong = || format!("{text:?} is not hexadecimal");
    if text.len() % 2 != 0 || !text.is_ascii() {
        return Err(wrong());
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).map_err(|_| wrong())).collect()
}

pub(crate) fn pair(text: &str, by: char) -> Parsed<(&str, &str)> {
    text.split_once(by).ok_or_else(|| format!("{text:?} lacks {by:?}"))
}

pub(crate) fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Parsed<T> {
    let found = table.iter().find(|entry| entry.0 == name);
    found.map(|entry| entry.1).ok_or_else(|| format!("unknown word {name:?}"))
}

/// `N` or `FIRST..LAST`.
pub(crate) fn range(text: &str) -> Parsed<std::ops::RangeInclusive<usize>> {
    match text.split_once("..") {
        Some((first, last)) => Ok(number(first)?..=number(last)?),
        None => number(text).map(|n| n..=n),
    }
}
