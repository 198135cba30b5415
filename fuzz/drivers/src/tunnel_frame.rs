use crate::input::Input;
use wire::{encap, parse};

const PORT: u16 = 4789;

/// Reading the outer headers of any frame stays inside the frame and gives what the bytes say; the header's two words
/// survive being packed again; ECN and cells of any value have an answer.
pub fn tunnel_frame(data: &[u8]) {
    words(data);
    let Some(outer) = encap::read_outer(data, PORT) else { return };
    let len = usize::from(outer.add_len);
    assert!(matches!(len, 50 | 70) && data.len() >= len + 14, "{outer:?} of {} bytes", data.len());
    let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    assert_eq!(encap::Encap::unpack(word(len - 8), word(len - 4)), Some(outer.encap));
    assert_eq!([data[len - 16], data[len - 15]], outer.sport.to_be_bytes());
    for fill in [0x00, 0xff] {
        let mut longer = data.to_vec();
        longer.resize(data.len() + 100, fill);
        assert_eq!(encap::read_outer(&longer, PORT), Some(outer), "bytes behind the frame matter");
    }
    if let Ok(inner) = parse(&data[len..]) {
        let merged = encap::decapsulated_ecn(inner.ecn, outer.ecn);
        assert_eq!(merged.is_none(), inner.ecn == 0 && outer.ecn == 3);
        assert!(merged.is_none_or(|ecn| ecn <= 3));
    }
}

fn words(data: &[u8]) {
    let mut input = Input::new(data);
    let (first, second) = (input.u32(), input.u32());
    if let Some(encap) = encap::Encap::unpack(first, second) {
        let (again, cell) = encap.pack();
        assert_eq!(first & 0xff00_0000, 0x0800_0000);
        assert!(encap.version != 1 || encap::Encap::unpack(again, cell) == Some(encap), "{encap:?}");
        assert_eq!((encap.vni, again >> 24), (second >> 8, 8));
    }
    let (newest, cell) = (input.u32(), input.u8());
    let full = encap::full_cell(newest, cell);
    assert_eq!(full as u8, cell);
    assert!((full.wrapping_sub(newest) as i32).abs() <= 128, "{full} is far from {newest}");
}
