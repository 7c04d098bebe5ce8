//! The book's page about checks, against the checks.

use super::*;

#[test]
fn every_check_has_its_line_in_the_book() {
    let page = include_str!("../../../../docs/verify.md");
    let checks = Critic::new(&[]).finish();
    let missing: Vec<_> = checks
        .iter()
        .map(|check| check.name.as_str())
        .filter(|name| !page.contains(&format!("| `{name}` | ")))
        .collect();
    assert!(missing.is_empty(), "docs/verify.md has no line about {missing:?}");
}
