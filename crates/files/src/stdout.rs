//! Whether the process had a standard output when it began.

extern "C" {
    fn sv_stdout_was_closed() -> std::ffi::c_int;
}

/// Had the process no standard output when it began? What is written then goes to `/dev/null`, without an error.
pub fn stdout_was_closed() -> bool {
    // SAFETY: a function without arguments that returns what was seen before `main`.
    unsafe { sv_stdout_was_closed() != 0 }
}
