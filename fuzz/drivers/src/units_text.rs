use std::fmt::Display;
use std::str::FromStr;
use units::{BitRate, Bytes, Time};

/// A quantity prints as text that parses to itself, and an error message does not grow with the input.
pub fn units_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    round_trip::<Time>(text);
    round_trip::<BitRate>(text);
    round_trip::<Bytes>(text);
}

fn round_trip<T: FromStr<Err = units::ParseError> + Display + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            assert!(shown.parse::<T>().is_ok_and(|again| again == value), "{text:?} prints as {shown:?}");
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() < 1000, "{} bytes of message for {} of input", message.len(), text.len());
        }
    }
}
