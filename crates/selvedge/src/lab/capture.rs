//! `lab capture`.

use super::arguments::CaptureArguments;
use super::control::{open, read_frame, Request};
use super::LabFailure;
use crate::output::pcapng;
use crate::Failure;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set by an interrupt: what has been captured is whole, and is told of.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// How often a capture of nothing looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);

/// `-o -` is standard output, for a program that reads along.
const STDOUT: &str = "-";

/// # Errors
/// No such lab or link; a file that cannot be written.
pub(super) fn capture(arguments: &CaptureArguments) -> Result<bool, Failure> {
    let path = &arguments.output;
    let failed = |source| LabFailure::Write { path: path.clone(), source };
    // Without it an interrupt ends the program at once, and the file is whole all the same.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let request = Request::Capture { link: arguments.link.clone(), snap: arguments.snap, packets: arguments.packets };
    let (answer, mut reader) = open(&arguments.lab.name, &request)?;
    let begun_ns = answer["begun_ns"].as_u64().unwrap_or(0);
    let to_stdout = path == Path::new(STDOUT);
    let mut file: Box<dyn Write> = match to_stdout {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(path).map_err(failed)?),
    };
    let mut write = |bytes: &[u8]| match file.write_all(bytes).and_then(|()| file.flush()) {
        // The reader has gone.
        Err(e) if to_stdout && e.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(failed),
    };
    let mut open = write(&pcapng::begin(&arguments.link, arguments.snap))?;
    let mut packets = 0_u64;
    let until = deadline(arguments);
    while open && packets < arguments.packets && wait(&mut reader, until).map_err(LabFailure::io("the lab"))? {
        let Ok(Some(frame)) = read_frame(&mut reader) else { break };
        let mut block = Vec::new();
        pcapng::append(&mut block, begun_ns + frame.at.as_ns(), frame.len, &frame.bytes);
        open = write(&block)?;
        packets += 1;
    }
    match to_stdout {
        true => crate::say::note(&format!("{packets} packets")),
        false => say!("{packets} packets in {}", path.display()),
    }
    Ok(true)
}

#[allow(clippy::disallowed_methods)] // it ends when its time is over
fn deadline(arguments: &CaptureArguments) -> Instant {
    Instant::now() + Duration::from_nanos(arguments.duration.as_ns())
}

/// False when the capture is over: by the clock, by an interrupt, or because the lab says so.
#[allow(clippy::disallowed_methods)] // as `deadline`
fn wait(reader: &mut BufReader<UnixStream>, until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || INTERRUPTED.load(Ordering::Relaxed) {
            return Ok(false);
        }
        reader.get_ref().set_read_timeout(Some(left.min(LOOK)))?;
        match reader.fill_buf() {
            Ok(bytes) => {
                let more = !bytes.is_empty();
                // What has begun to come comes whole.
                reader.get_ref().set_read_timeout(Some(Duration::from_secs(5)))?;
                return Ok(more);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            // Connection reset: the lab is gone.
            Err(_) => return Ok(false),
        }
    }
}
