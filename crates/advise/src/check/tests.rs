use super::*;

#[test]
fn shares_that_differ_are_printed_apart() {
    assert_eq!(percent_apart(0.5, 0.8), ("50 %".to_owned(), "80 %".to_owned()));
    assert_eq!(percent_apart(0.799_99, 0.8), ("79.999 %".to_owned(), "80.000 %".to_owned()));
}
