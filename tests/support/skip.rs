//! Tests that need what not every machine has.

use std::io::Write;

/// Says loudly that the test is skipped, since `missing`.
///
/// # Panics
///
/// With `CI=true`, where nothing may be missing.
#[expect(clippy::disallowed_methods, reason = "a skip that the environment forbids is a failure")]
pub fn skip(missing: &str) {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "nothing may be missing here, and yet: {missing}");
    // Not by a macro, whose output the test runner keeps to itself.
    drop(writeln!(std::io::stderr(), "SKIPPED: {missing}"));
}
