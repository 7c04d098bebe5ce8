//! The parameters of DCQCN's reaction point, by the names that NVIDIA's drivers give them.
//!
//! What they do stands in [`crate::fabric::dcqcn`]. Sources of the defaults, with what each is worth:
//! - NVIDIA, "DCQCN CC Parameters" (DOCA SDK 3.4.0) and its predecessor, Mellanox community DOC-2790: tables of names, units,
//!   ranges and defaults;
//! - `mlxconfig query` of ConnectX-4 to -6 as published by their users (five read, all equal): what firmware has;
//! - mstflint's description of the firmware's tables (`tools_open`): what each field does;
//! - Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015: the algorithm. Its own constants
//!   (g = 1/256, timer 55 us, byte counter 10 MB, F = 5, R_AI = 40 Mbit/s) are not those of shipped firmware.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::unit::{BitRate, Bytes, Nanos, duration_text, rate_text, size_text};

use super::error::Wrong;
use super::value::{between, quantity, wrong};

/// The parameters of a reaction point. [`Dcqcn::default`] is what a ConnectX has as it is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcqcn {
    /// Whether notifications slow a sender at all (`roce_rp/enable` of its priority).
    pub enabled: bool,
    /// `initial_alpha_value`: the congestion estimate when a flow's first notification arrives, in 1024ths, 1 to 1023.
    pub initial_alpha: u16,
    /// `dce_tcp_g`: what an update keeps of the estimate, in 1024ths, 0 to 1023.
    ///
    /// NVIDIA's table says so (1019 keeps 99.5 %, near the paper's 1 - 1/256); mstflint's older text has the complement.
    pub alpha_kept: u16,
    /// `dce_tcp_rtt`: the time between two updates of the estimate; at least 1 us.
    pub alpha_period: Nanos,
    /// `rate_to_set_on_first_cnp`: the rate from which the first notification cuts; the line's if none (0 in the driver).
    pub first_rate: Option<BitRate>,
    /// `rpg_gd`: a cut takes `alpha x 1024 / 2^gd` of the rate; 10 or 11. With 11 the estimate 1 halves, as in the paper.
    pub gd: u8,
    /// `rpg_min_dec_fac`: what a cut leaves at least, in percent of the rate before.
    pub least_left: u8,
    /// `rpg_min_rate`: the least rate.
    pub least_rate: BitRate,
    /// `rate_reduce_monitor_period`: the least time between two cuts.
    pub cut_period: Nanos,
    /// `clamp_tgt_rate`: whether every cut lowers the target to the rate before it.
    pub clamp_target: bool,
    /// `clamp_tgt_rate_after_time_inc`: whether a cut does so when the timer has raised the rate since the cut before.
    pub clamp_target_after_timer: bool,
    /// `rpg_time_reset`: the timer's period, without notifications; at least 1 us.
    pub timer: Nanos,
    /// `rpg_byte_reset`: the byte counter's period; none if the counter is off (0 in the driver).
    pub counter: Option<Bytes>,
    /// `rpg_threshold`: increases of the timer, or of the counter, before it leaves fast recovery.
    pub threshold: u8,
    /// `rpg_ai_rate`: what active increase adds to the target.
    pub active: BitRate,
    /// `rpg_hai_rate`: what hyper increase adds to the target.
    pub hyper: BitRate,
}

/// `[fabric.dcqcn]`: how senders react to congestion notifications; what is not given is as ConnectX is shipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DcqcnTable {
    /// Whether notifications slow a sender at all; true if not given.
    pub enabled: Option<bool>,
    /// The congestion estimate at a flow's first notification, in 1024ths, 1 to 1023; 1023 if not given.
    pub initial_alpha_value: Option<u16>,
    /// What an update keeps of the estimate, in 1024ths, 0 to 1023; 1019 if not given.
    pub dce_tcp_g: Option<u16>,
    /// The time between two updates of the estimate; `1us` if not given.
    pub dce_tcp_rtt: Option<String>,
    /// The rate from which the first notification cuts; the line's if not given.
    pub rate_to_set_on_first_cnp: Option<String>,
    /// A cut takes alpha x 1024 / 2^gd of the rate, 10 or 11; 11 if not given.
    pub rpg_gd: Option<u8>,
    /// What a cut leaves at least, in percent; 50 if not given.
    pub rpg_min_dec_fac: Option<u8>,
    /// The least rate; `1Mbit` if not given.
    pub rpg_min_rate: Option<String>,
    /// The least time between two cuts; `4us` if not given.
    pub rate_reduce_monitor_period: Option<String>,
    /// Whether every cut lowers the target to the rate before it; false if not given.
    pub clamp_tgt_rate: Option<bool>,
    /// Whether a cut does so after the timer has raised the rate; true if not given.
    pub clamp_tgt_rate_after_time_inc: Option<bool>,
    /// The time without notifications after which the rate rises; `300us` if not given.
    pub rpg_time_reset: Option<String>,
    /// The bytes sent after which the rate rises, `0B` for never; `32767B` if not given.
    pub rpg_byte_reset: Option<String>,
    /// Increases of the timer, or by bytes, before it leaves fast recovery, 1 to 31; 1 if not given.
    pub rpg_threshold: Option<u8>,
    /// What active increase adds to the target; `5Mbit` if not given.
    pub rpg_ai_rate: Option<String>,
    /// What hyper increase adds to the target; `50Mbit` if not given.
    pub rpg_hai_rate: Option<String>,
}

impl Dcqcn {
    /// What manifests call it: `dcqcn` as it is shipped, `own` with other parameters, `none` if it is off.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self { enabled: false, .. } => "none",
            shipped if *shipped == Self::default() => "dcqcn",
            _ => "own",
        }
    }
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self {
            enabled: true,
            initial_alpha: 1_023,
            alpha_kept: 1_019,
            alpha_period: Nanos(1_000),
            first_rate: None,
            gd: 11,
            least_left: 50,
            least_rate: MEGABIT,
            cut_period: Nanos(4_000),
            clamp_target: false,
            clamp_target_after_timer: true,
            timer: Nanos(300_000),
            counter: Some(Bytes(32_767)),
            threshold: 1,
            active: FIVE_MEGABITS,
            hyper: FIFTY_MEGABITS,
        }
    }
}

/// The meaning of the table.
pub(super) fn resolve(table: &DcqcnTable) -> Result<Dcqcn, Wrong> {
    let shipped = Dcqcn::default();
    let number = |key, value: Option<u16>, default: u16, least: u64, most: u64| {
        let value = value.unwrap_or(default);
        between(&keys(key), value.into(), least, most).map(|()| value)
    };
    let small = |key, value: Option<u8>, default: u8, least: u64, most: u64| {
        let value = value.unwrap_or(default);
        between(&keys(key), value.into(), least, most).map(|()| value)
    };
    let first = table.rate_to_set_on_first_cnp.as_deref();
    let first = first.map(|text| rate("rate_to_set_on_first_cnp", Some(text), MEGABIT)).transpose()?;
    let counter: Bytes = match &table.rpg_byte_reset {
        Some(text) => quantity(&keys("rpg_byte_reset"), Some(text), "")?,
        None => shipped.counter.unwrap_or_default(),
    };
    Ok(Dcqcn {
        enabled: table.enabled.unwrap_or(shipped.enabled),
        initial_alpha: number(
            "initial_alpha_value",
            table.initial_alpha_value,
            shipped.initial_alpha,
            1,
            1_023,
        )?,
        alpha_kept: number("dce_tcp_g", table.dce_tcp_g, shipped.alpha_kept, 0, 1_023)?,
        alpha_period: period("dce_tcp_rtt", table.dce_tcp_rtt.as_deref(), shipped.alpha_period)?,
        first_rate: first,
        gd: small("rpg_gd", table.rpg_gd, shipped.gd, 10, 11)?,
        least_left: small("rpg_min_dec_fac", table.rpg_min_dec_fac, shipped.least_left, 0, 100)?,
        least_rate: rate("rpg_min_rate", table.rpg_min_rate.as_deref(), shipped.least_rate)?,
        cut_period: period(
            "rate_reduce_monitor_period",
            table.rate_reduce_monitor_period.as_deref(),
            shipped.cut_period,
        )?,
        clamp_target: table.clamp_tgt_rate.unwrap_or(shipped.clamp_target),
        clamp_target_after_timer: table
            .clamp_tgt_rate_after_time_inc
            .unwrap_or(shipped.clamp_target_after_timer),
        timer: period("rpg_time_reset", table.rpg_time_reset.as_deref(), shipped.timer)?,
        counter: (counter > Bytes::ZERO).then_some(counter),
        threshold: small("rpg_threshold", table.rpg_threshold, shipped.threshold, 1, 31)?,
        active: rate("rpg_ai_rate", table.rpg_ai_rate.as_deref(), shipped.active)?,
        hyper: rate("rpg_hai_rate", table.rpg_hai_rate.as_deref(), shipped.hyper)?,
    })
}

/// The table that means this, every default told.
pub(super) fn written(dcqcn: &Dcqcn) -> DcqcnTable {
    DcqcnTable {
        enabled: Some(dcqcn.enabled),
        initial_alpha_value: Some(dcqcn.initial_alpha),
        dce_tcp_g: Some(dcqcn.alpha_kept),
        dce_tcp_rtt: Some(duration_text(dcqcn.alpha_period)),
        rate_to_set_on_first_cnp: dcqcn.first_rate.map(rate_text),
        rpg_gd: Some(dcqcn.gd),
        rpg_min_dec_fac: Some(dcqcn.least_left),
        rpg_min_rate: Some(rate_text(dcqcn.least_rate)),
        rate_reduce_monitor_period: Some(duration_text(dcqcn.cut_period)),
        clamp_tgt_rate: Some(dcqcn.clamp_target),
        clamp_tgt_rate_after_time_inc: Some(dcqcn.clamp_target_after_timer),
        rpg_time_reset: Some(duration_text(dcqcn.timer)),
        rpg_byte_reset: Some(size_text(dcqcn.counter.unwrap_or_default())),
        rpg_threshold: Some(dcqcn.threshold),
        rpg_ai_rate: Some(rate_text(dcqcn.active)),
        rpg_hai_rate: Some(rate_text(dcqcn.hyper)),
    }
}

fn period(key: &'static str, text: Option<&str>, default: Nanos) -> Result<Nanos, Wrong> {
    let Some(text) = text else { return Ok(default) };
    let period: Nanos = quantity(&keys(key), Some(text), "")?;
    if period < SHORTEST {
        let what = format!("{key} of {}", duration_text(period));
        return Err(wrong(&keys(key), what, "at least 1us, the unit of the NIC's register".to_owned()));
    }
    Ok(period)
}

fn rate(key: &'static str, text: Option<&str>, default: BitRate) -> Result<BitRate, Wrong> {
    let Some(text) = text else { return Ok(default) };
    let rate: BitRate = quantity(&keys(key), Some(text), "")?;
    if rate < MEGABIT {
        let what = format!("{key} of {}", rate_text(rate));
        return Err(wrong(&keys(key), what, "at least 1Mbit, the unit of the NIC's register".to_owned()));
    }
    Ok(rate)
}

const fn keys(key: &'static str) -> [&'static str; 3] {
    ["fabric", "dcqcn", key]
}

const SHORTEST: Nanos = Nanos(1_000);
const MEGABIT: BitRate = constant(1_000_000);
const FIVE_MEGABITS: BitRate = constant(5_000_000);
const FIFTY_MEGABITS: BitRate = constant(50_000_000);

const fn constant(bits_per_second: u64) -> BitRate {
    BitRate::new(bits_per_second).expect("the constants above are not zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_means_a_nic_as_it_is_shipped_and_it_is_written_out() {
        assert_eq!(resolve(&DcqcnTable::default()).unwrap(), Dcqcn::default());
        let written = written(&Dcqcn::default());
        assert_eq!(resolve(&written).unwrap(), Dcqcn::default());
        assert_eq!(written.rpg_byte_reset.as_deref(), Some("32767B"));
        assert_eq!(written.rpg_ai_rate.as_deref(), Some("5Mbit"));
        assert_eq!(written.rpg_time_reset.as_deref(), Some("300us"));
    }

    #[test]
    fn every_key_changes_its_own_parameter_and_is_written_again() {
        let texts = [
            "enabled = false",
            "initial_alpha_value = 512",
            "dce_tcp_g = 1000",
            "dce_tcp_rtt = \"10us\"",
            "rate_to_set_on_first_cnp = \"10Gbit\"",
            "rpg_gd = 10",
            "rpg_min_dec_fac = 20",
            "rpg_min_rate = \"2Gbit\"",
            "rate_reduce_monitor_period = \"50us\"",
            "clamp_tgt_rate = true",
            "clamp_tgt_rate_after_time_inc = false",
            "rpg_time_reset = \"20us\"",
            "rpg_byte_reset = \"0B\"",
            "rpg_threshold = 5",
            "rpg_ai_rate = \"1Gbit\"",
            "rpg_hai_rate = \"10Gbit\"",
        ];
        let mut all: Vec<_> = texts
            .iter()
            .map(|text| {
                let meant = resolve(&toml::from_str(text).unwrap()).unwrap();
                assert_eq!(resolve(&written(&meant)).unwrap(), meant, "{text}");
                assert_ne!(meant, Dcqcn::default(), "{text}");
                format!("{meant:?}")
            })
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), texts.len());
    }
}
