//! Which NIC a host has, by a conversation with the habits of each.

use crate::wire::profile::NicProfile;

use super::super::nic::low_byte;
use super::*;

fn number(value: u32) -> Qpn {
    Qpn::for_data(value).unwrap()
}

/// The conversation as NICs of this profile have it; `port` chooses a source port by the own and the other number.
fn with_habits(profile: &NicProfile, port: impl Fn(Qpn, Qpn) -> u16) -> Vec<Shot> {
    let mut shots = conversation();
    for (count, shot) in (1..).zip(&mut shots) {
        let frame = &mut shot.frame;
        let answer = frame.bth.opcode() == Some(Opcode::Acknowledge);
        let (own, other) = if frame.bth.destination == number(HERE) { (THERE, HERE) } else { (HERE, THERE) };
        frame.source_port = port(number(own), number(other));
        frame.bth.migrated = profile.migrated;
        frame.bth.congestion = if answer { 0 } else { profile.congestion };
        frame.network.ecn = profile.ecn;
        frame.network.ttl = profile.ttl;
        if profile.first_psn == crate::wire::profile::FirstPsn::Random {
            frame.bth.psn = frame.bth.psn + 0x8f_1234;
        }
        if let Some(aeth) = &mut frame.extensions.aeth {
            aeth.syndrome = profile.credit.code();
        }
        if profile.identification == crate::wire::profile::Identification::Counter
            && let Ip::V4 { identification, .. } = &mut frame.network.ip
        {
            *identification = count;
        }
    }
    shots
}

fn watch(shots: &[Shot]) -> (Vec<HostProfile>, Vec<Check>) {
    let mut critic = Critic::new(&[]);
    let port = critic.port(Vantage::default());
    let file = critic.file("nic0.pcap", port);
    for (number, shot) in (1..).zip(shots) {
        let bytes = bytes(&shot.frame);
        critic.frame(file, number, Nanos(shot.at), u32::try_from(bytes.len()).unwrap(), &bytes);
    }
    (critic.profiles(), critic.finish())
}

fn names(hosts: &[HostProfile]) -> Vec<Option<&str>> {
    hosts.iter().map(|host| host.profile.as_deref()).collect()
}

#[test]
fn each_profile_is_told_by_its_habits() {
    for profile in NicProfile::ALL {
        let shots = with_habits(&profile, |own, other| profile.source_port.port(own, other));
        let (hosts, _) = watch(&shots);
        assert_eq!(names(&hosts), [Some(&*profile.name); 2], "{hosts:?}");
    }
}

#[test]
fn a_driver_of_hns_may_take_low_source_ports() {
    let (hosts, _) = watch(&with_habits(&NicProfile::HNS, |own, _| low_byte(own)));
    assert_eq!(names(&hosts), [Some("hns"); 2], "{hosts:?}");
}

#[test]
fn a_nic_of_none_is_unknown() {
    let shots =
        with_habits(&NicProfile::MLX5_NCCL, |own, _| if own == number(HERE) { 50_001 } else { 50_002 });
    let (hosts, _) = watch(&shots);
    assert_eq!(names(&hosts), [None, None]);
    assert!(hosts[0].differs[0].starts_with("source ports do not follow from the product"), "{hosts:?}");
}

#[test]
fn a_frame_against_the_habit_makes_no_other_nic() {
    let mut shots = with_habits(&NicProfile::MLX5_NCCL, crate::wire::source_port::product);
    shots[3].frame.bth.migrated = false;
    let (hosts, checks) = watch(&shots);
    assert_eq!(names(&hosts), [Some("mlx5-nccl"); 2]);
    assert_eq!(violated(&checks), [("migrated_constant", 1)]);
}

#[test]
fn what_differs_from_the_nearest_profile_is_said() {
    let mut shots = with_habits(&NicProfile::RXE, |own, other| NicProfile::RXE.source_port.port(own, other));
    for shot in &mut shots {
        shot.frame.network.ttl = 255;
        shot.frame.network.ecn = Ecn::Capable0;
    }
    let (hosts, _) = watch(&shots);
    assert_eq!(names(&hosts), [None, None]);
    assert_eq!(hosts[0].differs, ["ECN is capable", "time to live 255, which does not start at 64"]);
}
