//! Threads that have to be punctual.

use nix::libc;

/// Who goes first where several want a core, by the real-time priority that they get.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Rank {
    /// A host's programs: they have their share of whatever the fabric leaves.
    Program = 1,
    /// The fabric, for which all hosts wait.
    Fabric = 2,
}

/// Lets the calling thread's waits end on time rather than within the kernel's usual 50 us, and run before others where
/// that is permitted.
pub fn prefer_this_thread(rank: Rank) {
    // SAFETY: takes numbers, and one struct that is whole. Failing changes nothing but punctuality, which is measured.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        let real_time = libc::sched_param { sched_priority: rank as libc::c_int };
        // What the thread starts is not meant.
        if libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const real_time) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -15);
        }
    }
}

/// Lets the calling thread's waits end on time, and its turn come soon where that is permitted.
pub fn hurry_this_thread() {
    // SAFETY: takes numbers only. Failing changes nothing but punctuality.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        libc::setpriority(libc::PRIO_PROCESS, 0, -15);
    }
}
