//! Traces of every shipped plan, NIC profile, payload and family of addresses, before an independent invariant CRC, Wireshark
//! and the critic. `tests/judges/matrix.py` has the axes and the judges; `tests/bench/matrix.sh` does it with the plans whole.

use crate::program::{judge, judged, root};

/// Shipped plans, NIC profiles, payloads, families of addresses.
const COMBINATIONS: usize = 4 * 4 * 4 * 2;

#[test]
fn every_shipped_plan_is_right_on_every_nic_with_every_payload_over_both_families() {
    let (Some(python), Some(_)) = (judge("python3"), judge("tshark")) else { return };
    let script = root().join("tests/judges/matrix.py");
    let said = judged(&python, &[script.to_str().unwrap(), env!("CARGO_BIN_EXE_tokenwire"), "--reduced"]);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("{COMBINATIONS} of {COMBINATIONS} combinations are right")), "{said}");
}
