//! `[transport]` and `[nic_profiles]`: what is written, what it means, and back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use traces::unit::{Nanos, duration_text};
use traces::wire::profile::NotificationHabit;
use traces::wire::segment::{AckCadence, Between};
use traces::wire::{Credits, Ecn, NicProfile, PathMtu, RnrTimer, Timeout};

use super::error::{Wrong, did_you_mean};
use super::file::{NicProfileTable, PlanFile, TransportTable};
use super::value::{between, choice, positive, quantity, wrong};
use super::{Cluster, Payload, Setup, Transport};

/// The meaning of both tables.
pub(super) fn meant(file: &PlanFile, cluster: &Cluster) -> Result<Transport, Wrong> {
    let table = file.transport.clone().unwrap_or_default();
    let mut profile = profile(&table, file.nic_profiles.as_ref())?;
    profile.ecn = ecn(&["transport", "ecn"], table.ecn, profile.ecn)?;
    profile.ttl = table.ttl.unwrap_or(profile.ttl);
    positive(&["transport", "ttl"], profile.ttl.into())?;
    let dscp = table.dscp.unwrap_or(26);
    between(&["transport", "dscp"], dscp.into(), 0, 63)?;
    let cnp_dscp = table.cnp_dscp.unwrap_or(48);
    between(&["transport", "cnp_dscp"], cnp_dscp.into(), 0, 63)?;
    let acks = choice(&["transport", "acks"], table.acks.as_deref(), &["each", "coalesced"])?;
    let usual = if profile.name == NicProfile::MLX5_CM.name { "cm" } else { "none" };
    let setup =
        choice(&["transport", "setup"], Some(table.setup.as_deref().unwrap_or(usual)), &["none", "cm"])?;
    let timeout = match table.timeout {
        // Code 0 is for ever: what is lost would never be sent again.
        Some(code) => code_of(&["transport", "timeout"], code, 1, Timeout::from_code)?,
        None => Timeout::NCCL,
    };
    let retry_count = table.retry_count.unwrap_or(7);
    between(&["transport", "retry_count"], retry_count.into(), 0, 7)?;
    let rnr_timer = match table.rnr_timer {
        Some(code) => code_of(&["transport", "rnr_timer"], code, 0, RnrTimer::from_code)?,
        None => RnrTimer::NCCL,
    };
    let payload =
        choice(&["transport", "payload"], table.payload.as_deref(), &Payload::ALL.map(Payload::name))?;
    Ok(Transport {
        path_mtu: path_mtu(&table, cluster)?,
        dscp,
        cnp_dscp,
        profile,
        cts: table.cts.unwrap_or(true),
        coalesce: acks == 1,
        setup: if setup == 1 { Setup::Cm } else { Setup::None },
        adaptive_routing: table.adaptive_routing.unwrap_or(false),
        timeout,
        retry_count,
        rnr_timer,
        payload: Payload::ALL[payload],
    })
}

/// The table that means it.
pub(super) fn written(transport: &Transport) -> TransportTable {
    TransportTable {
        path_mtu: Some(transport.path_mtu.bytes().into()),
        nic_profile: Some(transport.profile.name.clone().into_owned()),
        dscp: Some(transport.dscp),
        cnp_dscp: Some(transport.cnp_dscp),
        ecn: Some(transport.profile.ecn.bits()),
        ttl: Some(transport.profile.ttl),
        cts: Some(transport.cts),
        acks: Some(if transport.coalesce { "coalesced" } else { "each" }.to_owned()),
        setup: Some(transport.setup.name().to_owned()),
        adaptive_routing: Some(transport.adaptive_routing),
        timeout: Some(transport.timeout.code()),
        retry_count: Some(transport.retry_count),
        rnr_timer: Some(transport.rnr_timer.code()),
        payload: Some(transport.payload.name().to_owned()),
    }
}

/// The profile as a table, if it is no named one.
pub(super) fn written_profile(profile: &NicProfile) -> Option<BTreeMap<String, NicProfileTable>> {
    if NicProfile::named(&profile.name).is_some() {
        return None;
    }
    let (ack_every_psn, ack_every_frame) = match profile.acks.between {
        Between::Never => (Some(0), None),
        Between::Sequence(count) => (Some(count), None),
        Between::Run(count) => (None, Some(count)),
    };
    let table = NicProfileTable {
        base: None,
        migrated: Some(profile.migrated),
        bth_byte4: Some(profile.congestion),
        identification: Some(profile.identification),
        ecn: Some(profile.ecn.bits()),
        ttl: Some(profile.ttl),
        source_port: Some(profile.source_port),
        ack_every_psn,
        ack_every_frame,
        ack_opening: Some(profile.acks.opening),
        credit: Some(profile.credit.code()),
        first_psn: Some(profile.first_psn),
        cnp_source_port: Some(profile.notification.source_port),
        cnp_interval: Some(duration_text(profile.notification.interval)),
    };
    Some(BTreeMap::from([(profile.name.clone().into_owned(), table)]))
}

fn profile(
    table: &TransportTable,
    own: Option<&BTreeMap<String, NicProfileTable>>,
) -> Result<NicProfile, Wrong> {
    for (name, table) in own.into_iter().flatten() {
        // All of them are looked at, whether one is chosen or not.
        own_profile(name, table)?;
    }
    let name = table.nic_profile.as_deref().unwrap_or("mlx5-nccl");
    if let Some((name, table)) = own.and_then(|own| own.get_key_value(name)) {
        return own_profile(name, table);
    }
    NicProfile::named(name).ok_or_else(|| {
        let what = format!("there is no NIC profile `{name}`");
        let own = own.into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        let names = NicProfile::ALL.map(|profile| profile.name);
        let known: Vec<_> = names.iter().map(|name| &**name).chain(own).collect();
        wrong(&["transport", "nic_profile"], what, did_you_mean(name, known))
    })
}

/// A profile of one's own.
fn own_profile(name: &str, table: &NicProfileTable) -> Result<NicProfile, Wrong> {
    let refuse =
        |what: String, help: &str| wrong(&["nic_profiles"], format!("`{name}`: {what}"), help.to_owned());
    if NicProfile::named(name).is_some() {
        return Err(refuse("is the name of a built-in profile".to_owned(), "a name of its own"));
    }
    let base = table.base.as_deref().unwrap_or("mlx5-nccl");
    let base = NicProfile::named(base).ok_or_else(|| {
        refuse(format!("there is no profile `{base}`"), "base = one of mlx5-nccl, mlx5-cm, hns, rxe")
    })?;
    let ttl = table.ttl.unwrap_or(base.ttl);
    if ttl == 0 {
        return Err(refuse("ttl 0".to_owned(), "1 to 255"));
    }
    let credit = match table.credit {
        Some(code) => {
            Credits::from_code(code).ok_or_else(|| refuse(format!("credit {code}"), "a code of 0 to 31"))?
        }
        None => base.credit,
    };
    let acks = match (table.ack_every_psn, table.ack_every_frame) {
        (Some(_), Some(_)) => {
            return Err(refuse("ack_every_psn and ack_every_frame".to_owned(), "one of the two"));
        }
        (Some(0), None) | (None, Some(0)) => Between::Never,
        (Some(count), None) => Between::Sequence(count),
        (None, Some(count)) => Between::Run(count),
        (None, None) => base.acks.between,
    };
    let interval = match &table.cnp_interval {
        Some(text) => quantity::<Nanos>(&["nic_profiles"], Some(text), text)?,
        None => base.notification.interval,
    };
    Ok(NicProfile {
        name: Cow::Owned(name.to_owned()),
        migrated: table.migrated.unwrap_or(base.migrated),
        congestion: table.bth_byte4.unwrap_or(base.congestion),
        identification: table.identification.unwrap_or(base.identification),
        ecn: ecn(&["nic_profiles"], table.ecn, base.ecn)?,
        ttl,
        source_port: table.source_port.unwrap_or(base.source_port),
        acks: AckCadence { between: acks, opening: table.ack_opening.unwrap_or(base.acks.opening) },
        credit,
        first_psn: table.first_psn.unwrap_or(base.first_psn),
        notification: NotificationHabit {
            source_port: table.cnp_source_port.unwrap_or(base.notification.source_port),
            interval,
        },
    })
}

/// What a code of five bits means, of those from `least` on.
fn code_of<T>(
    keys: &[&'static str],
    code: u8,
    least: u64,
    meaning: impl Fn(u8) -> Option<T>,
) -> Result<T, Wrong> {
    between(keys, code.into(), least, 31)?;
    meaning(code).ok_or_else(|| wrong(keys, format!("code {code}"), format!("between {least} and 31")))
}

fn ecn(keys: &[&'static str], written: Option<u8>, usual: Ecn) -> Result<Ecn, Wrong> {
    match written {
        None => Ok(usual),
        Some(0) => Ok(Ecn::NotCapable),
        Some(2) => Ok(Ecn::Capable0),
        Some(other) => {
            let help = "0 (not capable) or 2 (ECT(0), as RoCE has)".to_owned();
            Err(wrong(keys, format!("ecn {other}"), help))
        }
    }
}

fn path_mtu(table: &TransportTable, cluster: &Cluster) -> Result<PathMtu, Wrong> {
    let bytes = table.path_mtu.unwrap_or(4_096);
    let path_mtu = u16::try_from(bytes).ok().and_then(PathMtu::new).ok_or_else(|| {
        let what = format!("path_mtu {bytes} is no path MTU of RDMA");
        wrong(&["transport", "path_mtu"], what, "one of 256, 512, 1024, 2048, 4096".to_owned())
    })?;
    // UDP 8, BTH 12, RETH 16, immediate 4, ICRC 4.
    let ip = if cluster.addresses.network.is_ipv4() { 20 } else { 40 };
    let packet = bytes + ip + 8 + 12 + 16 + 4 + 4;
    if cluster.mtu < packet {
        let what = format!("an mtu of {} is too small for frames with path_mtu {bytes}", cluster.mtu);
        return Err(wrong(&["cluster", "mtu"], what, format!("at least {packet}, or a smaller path_mtu")));
    }
    Ok(path_mtu)
}
