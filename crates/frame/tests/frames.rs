//! What is written is read; what others damaged is refused.

use frame::{parquet, read, Column, Error, Frame, Kind, Writer};
use proptest::prelude::*;

fn frames() -> impl Strategy<Value = Frame> {
    (0usize..300).prop_flat_map(|rows| {
        let whole = prop::collection::vec(prop::option::of(any::<i64>()), rows);
        let number = prop::collection::vec(prop::option::of(prop::num::f64::NORMAL | prop::num::f64::INFINITE), rows);
        let text = prop::collection::vec(prop::option::of("[a-c\u{e9}\u{1f980}]{0,3}"), rows);
        let facts = prop::collection::vec(("[a-z.]{1,9}", ".{0,40}"), 0..3);
        (whole, number, text, facts).prop_map(|(whole, number, text, facts)| Frame {
            columns: vec![Column::whole("n", whole), Column::number("x", number), Column::text("t", text)],
            facts,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(frame in frames()) {
        let bytes = parquet(&frame).unwrap();
        prop_assert_eq!(&parquet(&frame).unwrap(), &bytes, "the same bytes again");
        prop_assert_eq!(&frame::facts(bytes.clone()).unwrap(), &frame.facts);
        prop_assert_eq!(read(bytes).unwrap(), frame);
    }

    /// Any answer will do, and an answer there must be.
    #[test]
    fn damaged_files_are_answered(frame in frames(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>(), short in any::<bool>()) {
        let mut bytes = parquet(&frame).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if short {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = frame::facts(bytes.clone());
        if let Ok(frame) = read(bytes) {
            let rows = frame.rows();
            prop_assert!(frame.columns.iter().all(|column| column.values.len() == rows));
        }
    }
}

#[test]
fn parts_follow_one_another() {
    let columns = [("a", Kind::Whole), ("b", Kind::Text)];
    let mut writer = Writer::new(Vec::new(), &columns, &[]).unwrap();
    let part = |n: i64| [Column::whole("a", vec![Some(n), None]), Column::text("b", vec![None, Some(n.to_string())])];
    writer.add(&part(1)).unwrap();
    writer.add(&[Column::whole("a", Vec::new()), Column::text("b", Vec::new())]).unwrap();
    writer.add(&part(2)).unwrap();
    let ragged = [Column::whole("a", vec![None]), Column::text("b", Vec::new())];
    assert!(matches!(writer.add(&ragged), Err(Error::Ragged)));
    assert!(matches!(writer.add(&part(3)[..1]), Err(Error::Columns)));
    let read = read(writer.finish().unwrap()).unwrap();
    assert_eq!(read.rows(), 4);
    let a: Vec<Option<i64>> = (0..4).map(|n| read.column("a").unwrap().whole(n)).collect();
    assert_eq!(a, [Some(1), None, Some(2), None]);
    assert_eq!((read.column("b").unwrap().text(3), read.column("c")), (Some("2"), None));
}

#[test]
fn what_is_no_parquet_file_is_said_so() {
    for bytes in [&b""[..], b"PAR1", b"scheme,seed\n", &[0; 4096]] {
        let said = read(bytes.to_vec()).unwrap_err().to_string();
        assert!(said.starts_with("it is no Parquet file, or a damaged one: "), "{said}");
    }
}
