//! What is typed wrongly is said.

#[path = "../../../process/tests/typed/numbers.rs"]
mod numbers;

#[test]
fn a_number_out_of_its_limits_is_refused_with_them() {
    let flags = numbers::check(env!("CARGO_BIN_EXE_fogbank-cloud"), &[]);
    assert!(flags > 10, "{flags}");
}
