//! Tests in which one processor does all.

/// This thread, and what its packets go through, stay on the first processor that they may use. On several, packets overtake one another
/// when the machine is busy, and each processor keeps state of its own.
pub(crate) fn stay_on_one() {
    use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
    let this = nix::unistd::Pid::from_raw(0);
    let allowed = sched_getaffinity(this).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(first).unwrap();
    sched_setaffinity(this, &one).unwrap();
}
