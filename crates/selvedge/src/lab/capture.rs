//! `lab capture`.

use super::arguments::CaptureArguments;
use super::control::{open, read_frame, Request};
use super::LabFailure;
use crate::output::pcapng;
use crate::Failure;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// # Errors
/// No such lab or link; a file that cannot be written.
#[allow(clippy::disallowed_methods)] // it ends when its time is over
pub(super) fn capture(arguments: &CaptureArguments) -> Result<bool, Failure> {
    let path = &arguments.output;
    let failed = |source| LabFailure::Write { path: path.clone(), source };
    let request = Request::Capture { link: arguments.link.clone(), snap: arguments.snap, packets: arguments.packets };
    let (_, mut reader) = open(&arguments.lab.name, &request)?;
    let mut file = File::create(path).map_err(failed)?;
    file.write_all(&pcapng::begin(&arguments.link, arguments.snap)).map_err(failed)?;
    let until = Instant::now() + Duration::from_nanos(arguments.duration.as_ns());
    let mut packets = 0_u64;
    while packets < arguments.packets {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || reader.get_ref().set_read_timeout(Some(left)).is_err() {
            break;
        }
        // A time-out may cut a packet in two, but then it was the last.
        let Ok(Some(frame)) = read_frame(&mut reader) else { break };
        let mut block = Vec::new();
        pcapng::append(&mut block, frame.at.as_ns(), frame.len, &frame.bytes);
        file.write_all(&block).map_err(failed)?;
        packets += 1;
    }
    say!("{packets} packets in {}", path.display());
    Ok(true)
}
