//! Which versions of Linux the kernel edge runs on.

/// The oldest version of Linux on which the kernel edge was run. Nothing older is tried.
pub const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// Why the running kernel is too old for the kernel edge, in one line, if it is.
pub fn too_old() -> Option<String> {
    too_old_is(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

/// The version of Linux with tcx, which keeps programs in order.
pub const WITH_TCX: (u32, u32) = (6, 6);

/// Why the running kernel has no FastLane, if it is too old for that.
pub fn too_old_for_fastlane() -> Option<String> {
    without_tcx(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn without_tcx(release: &str) -> Option<String> {
    let (major, minor) = WITH_TCX;
    (version_of(release)? < WITH_TCX).then(|| {
        format!(
            "Linux {} has no tcx, which keeps programs in order: run Linux {major}.{minor} or newer",
            release.trim()
        )
    })
}

fn too_old_is(release: &str) -> Option<String> {
    let release = release.trim();
    let ((major, minor), version) = (OLDEST_KERNEL, version_of(release)?);
    (version < OLDEST_KERNEL).then(|| {
        format!("Linux {release} is too old for the kernel edge: boot Linux {major}.{minor} or later, the oldest that it was tried on")
    })
}

/// The first two numbers of a kernel's release, such as 6.1.0-56-cloud-amd64.
pub fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastlane_needs_tcx() {
        let why = without_tcx("6.1.0-56-cloud-amd64\n").unwrap();
        assert_eq!(why, "Linux 6.1.0-56-cloud-amd64 has no tcx, which keeps programs in order: run Linux 6.6 or newer");
        assert_eq!(["6.6.1", "6.12.107", "7.0", "?"].map(without_tcx), [None, None, None, None]);
    }

    #[test]
    fn only_what_is_older_than_the_oldest_is_too_old() {
        for old in ["5.15.0-91-generic\n", "6.0.19", "4.19.0-26-amd64"] {
            let why = too_old_is(old).unwrap();
            assert!(why.contains("boot Linux 6.1 or later") && why.lines().count() == 1, "{why}");
        }
        for new in ["6.1.0-56-cloud-amd64", "6.12.107+deb13-cloud-amd64", "6.18.44", "7.0-rc1", "unreadable", ""] {
            assert_eq!(too_old_is(new), None, "{new}");
        }
    }
}
