//! How runs share cores.

/// Hosts below which a run has one thread: its windows hold too little to share.
const LEAST_HOSTS: usize = 64;

/// Threads of the `worker`-th of `at_once` that share them, for a run on so many hosts.
pub(crate) fn threads_of(worker: usize, threads: usize, at_once: usize, hosts: usize) -> usize {
    if hosts < LEAST_HOSTS {
        return 1;
    }
    let at_once = at_once.max(1);
    (threads / at_once + usize::from(worker < threads % at_once)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_no_run_needs_help_large_runs() {
        let each = |threads, at_once, hosts| -> Vec<usize> {
            (0..at_once).map(|worker| threads_of(worker, threads, at_once, hosts)).collect()
        };
        assert_eq!(each(8, 8, 1_000), [1; 8]);
        assert_eq!(each(8, 3, 1_000), [3, 3, 2], "all of them");
        assert_eq!(each(8, 1, 64), [8]);
        assert_eq!(each(8, 1, 63), [1], "its windows are too small");
        assert_eq!(each(1, 3, 64), [1; 3]);
    }
}
