//! One planted fault for each check of what a trace must not give away, and each caught by the check that names
//! it; and no alarm where there is no fault.

mod faults;

use std::collections::BTreeSet;

use super::world::World;
use super::worlds::{
    congestion, far_back, hns, loss, managed, nccl, not_ready, notify, paused, reads, rxe, version_six,
};
use crate::critic::Verdict;
use faults::{FAULTS, Make};

const WORLDS: [(&str, Make); 12] = [
    ("nccl", nccl),
    ("reads", reads),
    ("loss", loss),
    ("far_back", far_back),
    ("not_ready", not_ready),
    ("congestion", congestion),
    ("paused", paused),
    ("managed", managed),
    ("version_six", version_six),
    ("hns", hns),
    ("rxe", rxe),
    ("headers alone", || World { snap: 74, ..nccl() }),
];

#[test]
fn nothing_is_wrong_where_nothing_was_spoiled() {
    for (name, world) in WORLDS {
        let wrong: Vec<_> =
            world().judge().into_iter().filter(|check| check.verdict() == Verdict::Violated).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}

#[test]
fn every_fault_is_found_by_the_check_that_names_it() {
    let mut missed = Vec::new();
    for (index, fault) in FAULTS.iter().enumerate() {
        let mut world = (fault.world)();
        (fault.spoil)(&mut world);
        let found: BTreeSet<_> = world.violated().into_iter().collect();
        let expected: BTreeSet<_> =
            fault.also.iter().chain([&fault.check]).map(|&name| name.to_owned()).collect();
        if found != expected {
            missed.push(format!("{index}: {} {}: found {found:?}", fault.number, fault.check));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn every_check_examines_something_and_has_its_fault() {
    let mut examined = BTreeSet::new();
    let mut all = BTreeSet::new();
    for (_, world) in WORLDS {
        for check in world().judge() {
            if check.examined > 0 {
                examined.insert(check.name.clone());
            }
            all.insert(check.name);
        }
    }
    assert_eq!(all.difference(&examined).collect::<Vec<_>>(), Vec::<&String>::new());
    let planted: BTreeSet<_> = FAULTS.iter().map(|fault| fault.check.to_owned()).collect();
    assert_eq!(all, planted);
}

#[test]
fn every_number_of_the_list_has_its_fault() {
    let planted: BTreeSet<_> = FAULTS.iter().map(|fault| fault.number).collect();
    // Volumes are examined where the graph is read (`audit`).
    let missing: Vec<_> = (1..=43).filter(|number| !planted.contains(number)).collect();
    assert_eq!(missing, [34]);
    assert!(FAULTS.len() >= 43);
}

fn notified_twice(world: &mut World) {
    notify(world, 20_000);
}

#[test]
fn a_mark_is_good_for_one_notification() {
    let mut world = congestion();
    notified_twice(&mut world);
    assert_eq!(world.violated(), ["cnp_after_mark"]);
}
