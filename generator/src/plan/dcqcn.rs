//! The parameters of DCQCN's reaction point, by the names that NVIDIA's drivers give them.
//!
//! What they do stands in [`crate::fabric::dcqcn`]. Sources of the defaults, with what each is worth:
//! - NVIDIA, "DCQCN CC Parameters" (DOCA SDK 3.4.0) and its predecessor, Mellanox community DOC-2790: tables of names, units,
//!   ranges and defaults;
//! - `mlxconfig query` of ConnectX-4 to -6 as published by their users (five read, all equal): what firmware has;
//! - mstflint's description of the firmware's tables (`tools_open`): what each field does;
//! - Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015: the algorithm. Its own constants
//!   (g = 1/256, timer 55 us, byte counter 10 MB, F = 5, R_AI = 40 Mbit/s) are not those of shipped firmware.

use traces::unit::{BitRate, Bytes, Nanos};

/// The parameters of a reaction point. [`Dcqcn::default`] is what a ConnectX has as it is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcqcn {
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

impl Default for Dcqcn {
    fn default() -> Self {
        Self {
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

const MEGABIT: BitRate = rate(1_000_000);
const FIVE_MEGABITS: BitRate = rate(5_000_000);
const FIFTY_MEGABITS: BitRate = rate(50_000_000);

const fn rate(bits_per_second: u64) -> BitRate {
    BitRate::new(bits_per_second).expect("the constants above are not zero")
}
