//! Feedback on paths, which edges carry to one another on packets of the reverse direction.

/// One feedback, `struct sv_path_news`; zero says nothing.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Feedback {
    /// [`NONE`], [`CE`], [`UTILISATION`] or [`MARKS`].
    pub kind: u8,
    /// On the wire, the low byte of the path's label; to a scheme, the path's index in the schedule.
    pub path: u8,
    /// Of [`UTILISATION`]: of the path's busiest link, in 1/255 of its capacity. Of [`CE`]: 0.
    pub value: u8,
}
const _: () = assert!(size_of::<Feedback>() == 3);

/// `SV_FEEDBACK_NONE`
pub const NONE: u8 = 0;
/// `SV_FEEDBACK_CE`: congestion experienced.
pub const CE: u8 = 1;
/// `SV_FEEDBACK_UTILISATION`
pub const UTILISATION: u8 = 2;
/// `SV_FEEDBACK_MARKS`: marks of a pair of guests counted so far, 16 bits in `path` and `value`; version 2 only.
pub const MARKS: u8 = 3;
