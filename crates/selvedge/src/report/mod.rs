//! The report of a run: one HTML file that opens in any browser with no network, now and in ten years.
//!
//! Everything is inline: style, script, the chart library (`assets/echarts`) and the data. A content security policy
//! of `default-src 'none'` makes the browser hold the page to that. Tables are written here and are complete without
//! script; charts are drawn by `assets/report/*.js` from the JSON in the page.
//!
//! The page reports on itself, for tests. Each chart gets `data-drawn="true"` when it is on the screen, and the document
//! element gets `data-state="ready"` when all are. Any script error or policy violation ends up in `data-errors`.
//!
//! The same [`ReportData`] gives the same bytes.

mod data;
mod decimate;
pub(crate) mod html;
mod layout;
mod page;
mod summary;
mod tables;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

pub use data::*;

/// The page.
pub fn render(data: &ReportData) -> String {
    page::render(data)
}

/// Writes the page to `path`: first whole beside it, then under its name, so that no half-written report ever stands
/// there. Replaces an older one.
///
/// # Errors
/// As the file system gives them; the temporary file is then removed.
pub fn write(path: &Path, data: &ReportData) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(render(data).as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}
