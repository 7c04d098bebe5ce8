//! DCQCN's reaction point: the rate of one queue pair after its sender was notified of congestion.
//!
//! Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015, 3.1 and figure 7), with the parameters of
//! NVIDIA's NICs ([`Dcqcn`]). A queue pair without a limit sends at line rate. Its first notification allocates a limit:
//!
//! - **cut**: `target = rate`, `rate = rate x (1 - alpha x 1024 / 2^gd)`, never less than `least_left` percent of it nor than
//!   `least_rate`; the counters start anew. A cut comes at once, or, within `cut_period` of the one before, at that period's
//!   end. Only the first cut, and one after the timer has raised the rate, moves the target (unless all are to).
//! - **estimate**: every `alpha_period`, `alpha = kept x alpha`, plus `1 - kept` if a notification arrived in it.
//! - **increase**: whenever the timer has run without a cut or the byte counter is full. With T of the one and B of the other
//!   before it: *fast recovery* while `max(T, B) < F`; *hyper increase* (`target += hyper`) once `min(T, B) > F`; *active
//!   increase* (`target += active`) between the two. Each ends with `rate = (rate + target) / 2`, rounded up.
//! - At line rate the limit is released (`rpg_max_rate`: "the flow is not rate limited any more"), and the next notification is
//!   a first one again.
//!
//! Everything between two calls is made up for in the later one, event by event in the order of their times, so a flow needs no
//! events of its own. That is short work: an estimate of zero does not change, and a limit ends.
//!
//! Not published, and chosen here: a cut is not put off when no period is running; events of one instant come in the order
//! estimate, cut, timer; hyper increase adds the same every time (as in the HPCC authors' simulator of such a NIC; 802.1Qau
//! multiplies it by its count); the estimate has 20 bits of fraction, rounded down (the interface shows 10).

use traces::unit::{BitRate, Bytes, Nanos};

use crate::plan::Dcqcn;

/// The reaction point of one queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactionPoint {
    line: BitRate,
    parameters: Dcqcn,
    limit: Option<Limit>,
}

/// A rate limit, as of its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    /// Bits per second: what is sent at, and what recovery goes to.
    rate: u64,
    target: u64,
    estimate: Estimate,
    /// Until when a cut has to wait, and whether one does.
    cut_from: Nanos,
    cut_waits: bool,
    /// When the timer runs out, and increases by it since the last cut.
    timer_ends: Nanos,
    timer_stage: u32,
    /// Bytes since the counter was last full, and increases by it since the last cut.
    counted: u64,
    counter_stage: u32,
}

/// How congested the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimate {
    /// Alpha, with [`FRACTION`] bits of fraction.
    alpha: u64,
    /// When it is updated next, and whether a notification has arrived since the last time.
    update: Nanos,
    notified: bool,
}

/// What happens next to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Estimate,
    Cut,
    Timer,
}

impl ReactionPoint {
    /// A queue pair that has not been notified of anything, on a port of this rate.
    #[must_use]
    pub const fn new(line: BitRate, parameters: &Dcqcn) -> Self {
        Self { line, parameters: *parameters, limit: None }
    }

    /// A notification arrives.
    pub fn on_cnp(&mut self, now: Nanos) {
        if !self.parameters.enabled {
            return;
        }
        self.advance(now);
        let parameters = self.parameters;
        let line = self.line.bits_per_second();
        let limit = self.limit.get_or_insert_with(|| {
            let first = parameters.first_rate.map_or(line, BitRate::bits_per_second).min(line);
            Limit {
                rate: first,
                target: first,
                estimate: Estimate::new(&parameters, now),
                cut_from: now,
                cut_waits: false,
                timer_ends: now,
                timer_stage: 0,
                counted: 0,
                counter_stage: 0,
            }
        });
        limit.estimate.notify(now, &parameters);
        if now < limit.cut_from {
            limit.cut_waits = true;
        } else {
            limit.cut(now, &parameters);
        }
    }

    /// The queue pair has sent `bytes` by `now`: the byte counter goes on.
    pub fn on_sent(&mut self, now: Nanos, bytes: Bytes) {
        self.advance(now);
        let (Some(limit), Some(period)) = (&mut self.limit, self.parameters.counter) else { return };
        let period = period.0.max(1);
        limit.counted = limit.counted.saturating_add(bytes.0);
        while limit.counted >= period {
            limit.counted -= period;
            if limit.increase(self.line.bits_per_second(), &self.parameters, |limit| &mut limit.counter_stage)
            {
                self.limit = None;
                return;
            }
        }
    }

    /// The rate at which the queue pair may send at `now`: from the parameters' least rate to the line's.
    pub fn rate(&mut self, now: Nanos) -> BitRate {
        self.advance(now);
        self.limit.and_then(|limit| BitRate::new(limit.rate)).map_or(self.line, |rate| rate.min(self.line))
    }

    /// Whether the rate is back at the line's at `now`: then this can be forgotten, for a new one does the same.
    pub fn is_recovered(&mut self, now: Nanos) -> bool {
        self.advance(now);
        self.limit.is_none()
    }

    /// Makes up for what has happened by `now`, including `now`. Time does not go back: an earlier `now` changes nothing.
    fn advance(&mut self, now: Nanos) {
        while let Some(limit) = &mut self.limit {
            let (at, event) = limit.next();
            if at > now {
                return;
            }
            match event {
                Event::Estimate => limit.estimate.step(&self.parameters),
                Event::Cut => limit.cut(at, &self.parameters),
                Event::Timer => {
                    limit.timer_ends = later(at, self.parameters.timer);
                    let line = self.line.bits_per_second();
                    if limit.increase(line, &self.parameters, |limit| &mut limit.timer_stage) {
                        self.limit = None;
                    }
                }
            }
        }
    }
}

impl Limit {
    /// The next event, and when it is.
    fn next(&self) -> (Nanos, Event) {
        let estimate = self.estimate.is_changing().then_some((self.estimate.update, Event::Estimate));
        let cut = self.cut_waits.then_some((self.cut_from, Event::Cut));
        let timer = (self.timer_ends, Event::Timer);
        [estimate, cut].into_iter().flatten().fold(timer, |least, event| least.min(event))
    }

    fn cut(&mut self, now: Nanos, parameters: &Dcqcn) {
        let raised_by_timer = parameters.clamp_target_after_timer && self.timer_stage > 0;
        if parameters.clamp_target || raised_by_timer {
            self.target = self.rate;
        }
        let share = u128::from(self.rate) * u128::from(self.estimate.alpha);
        // alpha x 1024 / 2^gd, where alpha has FRACTION bits of fraction.
        let taken = share >> (FRACTION - 10 + u32::from(parameters.gd.min(63)));
        let left = self.rate.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
        let least = u128::from(self.rate) * u128::from(parameters.least_left) / 100;
        let least = u64::try_from(least).unwrap_or(u64::MAX).max(parameters.least_rate.bits_per_second());
        self.rate = left.max(least).min(self.rate);
        self.cut_waits = false;
        self.cut_from = later(now, parameters.cut_period);
        self.timer_ends = later(now, parameters.timer);
        self.timer_stage = 0;
        self.counted = 0;
        self.counter_stage = 0;
    }

    /// One increase, counted in the stage that is full; true when it has reached the line's rate.
    fn increase(&mut self, line: u64, parameters: &Dcqcn, stage: impl Fn(&mut Self) -> &mut u32) -> bool {
        let (timer, counter, threshold) = (self.timer_stage, self.counter_stage, parameters.threshold.into());
        let added = if timer.max(counter) < threshold {
            0
        } else if timer.min(counter) > threshold {
            parameters.hyper.bits_per_second()
        } else {
            parameters.active.bits_per_second()
        };
        self.target = self.target.saturating_add(added).min(line);
        self.rate += self.target.saturating_sub(self.rate).div_ceil(2);
        let stage = stage(self);
        *stage = stage.saturating_add(1);
        self.rate >= line
    }
}

impl Estimate {
    fn new(parameters: &Dcqcn, now: Nanos) -> Self {
        let alpha = u64::from(parameters.initial_alpha) << (FRACTION - 10);
        Self { alpha, update: later(now, parameters.alpha_period), notified: true }
    }

    /// Whether an update would change it; while it would not, updates are left out.
    const fn is_changing(&self) -> bool {
        self.alpha > 0 || self.notified
    }

    /// A notification arrives. Updates that were left out until now are stepped over.
    fn notify(&mut self, now: Nanos, parameters: &Dcqcn) {
        if !self.is_changing() && self.update <= now {
            let period = parameters.alpha_period.0.max(1);
            let left_out = (now.0 - self.update.0) / period + 1;
            self.update = later(self.update, Nanos(left_out.saturating_mul(period)));
        }
        self.notified = true;
    }

    fn step(&mut self, parameters: &Dcqcn) {
        let kept = u64::from(parameters.alpha_kept.min(1_024));
        let added = if self.notified { (1_024 - kept) << (FRACTION - 10) } else { 0 };
        self.alpha = ((kept * self.alpha) >> 10) + added;
        self.update = later(self.update, parameters.alpha_period);
        self.notified = false;
    }
}

/// Bits of alpha's fraction.
const FRACTION: u32 = 20;

/// A period later, and always some time later, so that events come to an end.
fn later(at: Nanos, period: Nanos) -> Nanos {
    Nanos(at.0.saturating_add(period.0.max(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: u64 = 100_000_000_000;

    fn rate(bits_per_second: u64) -> BitRate {
        BitRate::new(bits_per_second).unwrap()
    }

    fn point(parameters: Dcqcn) -> ReactionPoint {
        ReactionPoint::new(rate(LINE), &parameters)
    }

    /// The paper's figures, but for an estimate that starts at 1023/1024 instead of 1.
    fn paper() -> Dcqcn {
        Dcqcn {
            alpha_kept: 1_020,
            alpha_period: Nanos(55_000),
            cut_period: Nanos(50_000),
            timer: Nanos(55_000),
            counter: Some(Bytes(10_000_000)),
            threshold: 5,
            active: rate(40_000_000),
            hyper: rate(400_000_000),
            ..Dcqcn::default()
        }
    }

    #[test]
    fn the_first_notification_halves_the_rate_at_once() {
        let mut point = point(Dcqcn::default());
        assert_eq!(point.rate(Nanos(5)), rate(LINE));
        point.on_cnp(Nanos(10));
        // 100 Gbit/s x (1 - 1023/2048).
        assert_eq!(point.rate(Nanos(10)), rate(50_048_828_125));
        assert!(!point.is_recovered(Nanos(10)));
    }

    #[test]
    fn a_sender_whose_reaction_is_off_does_not_slow() {
        let mut point = point(Dcqcn { enabled: false, ..Dcqcn::default() });
        point.on_cnp(Nanos(10));
        assert!(point.is_recovered(Nanos(10)));
    }

    #[test]
    fn a_second_notification_waits_for_the_end_of_the_period() {
        let mut point = point(Dcqcn::default());
        point.on_cnp(Nanos(0));
        point.on_cnp(Nanos(1));
        point.on_cnp(Nanos(3_999));
        assert_eq!(point.rate(Nanos(3_999)), rate(50_048_828_125));
        // Updates at 1, 2, 3 and 4 us: notified, not, not, notified. In 2^-20:
        // 1023 x 2^10; 1019/1024 of it + 5 x 2^10 = 1047557; 1042441; 1037350; 1032284 + 5120 = 1037404.
        // Then 50048828125 x 1037404 / 2^21 = 24757792707 and a fraction goes.
        assert_eq!(point.rate(Nanos(4_000)), rate(50_048_828_125 - 24_757_792_707));
        // One cut for both that waited.
        assert_eq!(point.rate(Nanos(8_000)), point.rate(Nanos(4_000)));
    }

    #[test]
    fn the_estimate_decays_by_five_of_1024_each_microsecond() {
        let parameters = Dcqcn::default();
        let mut estimate = Estimate::new(&parameters, Nanos::ZERO);
        let mut steps = Vec::new();
        for _ in 0..3 {
            estimate.step(&parameters);
            steps.push((estimate.update.0, estimate.alpha));
        }
        assert_eq!(steps, [(2_000, 1_047_557), (3_000, 1_042_441), (4_000, 1_037_350)]);
        let updates = (0..).find(|_| {
            estimate.step(&parameters);
            !estimate.is_changing()
        });
        assert!(updates.unwrap() < 2_500, "it ends: {updates:?}");
    }

    #[test]
    fn updates_that_were_left_out_do_not_count_against_a_later_notification() {
        let parameters = Dcqcn::default();
        let mut estimate = Estimate { alpha: 0, update: Nanos(7_000), notified: false };
        estimate.notify(Nanos(9_000), &parameters);
        assert_eq!(estimate, Estimate { alpha: 0, update: Nanos(10_000), notified: true });
        estimate.step(&parameters);
        assert_eq!(estimate.alpha, 5 << 10);
    }

    #[test]
    fn fast_recovery_halves_the_distance_to_the_target() {
        let mut point = point(paper());
        point.on_cnp(Nanos::ZERO);
        let missing = LINE - 50_048_828_125;
        // Five times at 55, 110, .. us, each rounded in favour of the rate: the closed form of the paper's fluid model.
        for step in 1..=5 {
            let rate = point.rate(Nanos(55_000 * step)).bits_per_second();
            assert_eq!(LINE - rate, missing >> step, "step {step}");
        }
        // The target is the line already, so active increase can only halve on.
        assert_eq!(LINE - point.rate(Nanos(55_000 * 6)).bits_per_second(), missing >> 6);
    }

    #[test]
    fn active_increase_raises_a_target_that_was_lowered() {
        let parameters = Dcqcn { first_rate: Some(rate(40_000_000_000)), counter: None, ..paper() };
        let mut point = point(parameters);
        point.on_cnp(Nanos::ZERO);
        // The first notification sets rate and target, then cuts: 40 G x (1 - 1023/2048).
        assert_eq!(point.rate(Nanos::ZERO), rate(20_019_531_250));
        let after_five = point.rate(Nanos(5 * 55_000)).bits_per_second();
        assert_eq!(after_five, 40_000_000_000 - (19_980_468_750 >> 5));
        // The sixth: target 40.04 G, and half of the way.
        let sixth = point.rate(Nanos(6 * 55_000)).bits_per_second();
        assert_eq!(sixth, after_five + (40_040_000_000 - after_five).div_ceil(2));
    }

    #[test]
    fn hyper_increase_needs_both_timer_and_counter() {
        let parameters = Dcqcn { first_rate: Some(rate(40_000_000_000)), threshold: 1, ..paper() };
        let mut point = point(parameters);
        point.on_cnp(Nanos::ZERO);
        let target = |point: &ReactionPoint| point.limit.unwrap().target;
        point.on_sent(Nanos(1), Bytes(10_000_000));
        assert_eq!(target(&point), 40_000_000_000, "fast recovery, T 0 and B 0");
        point.on_sent(Nanos(2), Bytes(9_999_999));
        assert_eq!(target(&point), 40_000_000_000, "a byte is missing");
        point.on_sent(Nanos(3), Bytes(1));
        assert_eq!(target(&point), 40_040_000_000, "active, T 0 and B 1");
        point.rate(Nanos(110_000));
        assert_eq!(target(&point), 40_120_000_000, "twice active, T 0 and 1, B 2");
        point.rate(Nanos(165_000));
        assert_eq!(target(&point), 40_520_000_000, "hyper, T 2 and B 2");
    }

    #[test]
    fn a_cut_after_the_timer_lowers_the_target_and_one_before_it_does_not() {
        let mut point = point(Dcqcn::default());
        point.on_cnp(Nanos(0));
        point.on_sent(Nanos(10), Bytes(32_767));
        let raised = point.rate(Nanos(10_000)).bits_per_second();
        assert_eq!(raised, 50_048_828_125 + 49_951_171_875_u64.div_ceil(2));
        point.on_cnp(Nanos(10_000));
        assert_eq!(point.limit.unwrap().target, LINE, "the counter alone has raised the rate");
        let before = point.rate(Nanos(310_000)).bits_per_second();
        point.on_cnp(Nanos(310_001));
        assert_eq!(point.limit.unwrap().target, before, "the timer has");
    }

    #[test]
    fn no_cut_takes_more_than_half_and_none_goes_below_the_least_rate() {
        let mut point = point(Dcqcn { gd: 10, ..Dcqcn::default() });
        point.on_cnp(Nanos(0));
        assert_eq!(point.rate(Nanos(0)), rate(50_000_000_000), "1023/1024 would go");
        for cut in 1..100 {
            point.on_cnp(Nanos(4_000 * cut));
        }
        assert_eq!(point.rate(Nanos(400_000)), Dcqcn::default().least_rate);
    }

    #[test]
    fn a_sender_at_line_rate_is_back_there_within_forty_fillings_of_the_counter() {
        let mut point = point(Dcqcn::default());
        point.on_cnp(Nanos(0));
        let mut sent = 0;
        while !point.is_recovered(Nanos(sent)) {
            sent += 1;
            point.on_sent(Nanos(sent), Bytes(32_767));
        }
        // log2 of the 49951171875 bits per second that are missing, rounded up.
        assert_eq!(sent, 36);
        assert_eq!(point, ReactionPoint::new(rate(LINE), &Dcqcn::default()), "nothing is remembered");
    }

    fn parameters() -> impl Strategy<Value = Dcqcn> {
        let estimate = (1..1_024_u16, 0..1_024_u16, 1_000..60_000_u64, 10..12_u8, 0..101_u8);
        let rates = (1..50_u64, 1..500_u64, 1..2_000_u64, prop::option::of(1..100_000_u64));
        let counting = (1_000..600_000_u64, prop::option::of(1..100_000_u64), 1..32_u8, 1_000..60_000_u64);
        (estimate, rates, counting, any::<[bool; 2]>()).prop_map(|(estimate, rates, counting, clamp)| Dcqcn {
            enabled: true,
            initial_alpha: estimate.0,
            alpha_kept: estimate.1,
            alpha_period: Nanos(estimate.2),
            gd: estimate.3,
            least_left: estimate.4,
            least_rate: rate(rates.0 * 1_000_000),
            active: rate(rates.1 * 1_000_000),
            hyper: rate(rates.2 * 1_000_000),
            first_rate: rates.3.map(|first| rate(first * 1_000_000)),
            timer: Nanos(counting.0),
            counter: counting.1.map(Bytes),
            threshold: counting.2,
            cut_period: Nanos(counting.3),
            clamp_target: clamp[0],
            clamp_target_after_timer: clamp[1],
        })
    }

    proptest! {
        #[test]
        fn the_rate_stays_between_the_least_and_the_lines(
            parameters in parameters(),
            steps in prop::collection::vec((0..100_000_u64, 0..3_u8, 0..200_000_u64), 1..100),
        ) {
            let mut point = point(parameters);
            let (mut now, mut cut) = (Nanos::ZERO, false);
            for (step, kind, bytes) in steps {
                now += Nanos(step);
                match kind {
                    0 => { point.on_cnp(now); cut = true; }
                    _ => point.on_sent(now, Bytes(bytes)),
                }
                let now_rate = point.rate(now);
                let first = parameters.first_rate.unwrap_or(rate(LINE));
                prop_assert!(now_rate <= rate(LINE) && now_rate >= parameters.least_rate.min(first));
                prop_assert!(cut || now_rate == rate(LINE), "nothing slows without a notification");
            }
        }

        #[test]
        fn without_notifications_the_rate_only_grows_and_reaches_the_lines(
            parameters in parameters(),
            cuts in prop::collection::vec(0..100_000_u64, 1..20),
        ) {
            let mut point = point(parameters);
            let mut now = Nanos::ZERO;
            for step in cuts {
                now += Nanos(step);
                point.on_cnp(now);
            }
            // A cut may still wait.
            now += parameters.cut_period;
            let mut last = point.rate(now);
            for _ in 0..50 {
                now += parameters.timer;
                let next = point.rate(now);
                prop_assert!(next >= last);
                last = next;
            }
            // By active increase alone.
            let steps = LINE / parameters.active.bits_per_second() + 300;
            prop_assert!(point.is_recovered(Nanos(now.0 + steps * parameters.timer.0)));
        }

        #[test]
        fn it_does_not_matter_how_often_one_asks(
            parameters in parameters(),
            steps in prop::collection::vec((0..100_000_u64, 0..3_u8, 0..200_000_u64), 1..50),
        ) {
            let (mut asked, mut left) = (point(parameters), point(parameters));
            let mut now = Nanos::ZERO;
            for (step, kind, bytes) in steps {
                for part in 0..8 {
                    asked.rate(Nanos(now.0 + step * part / 8));
                }
                now += Nanos(step);
                for point in [&mut asked, &mut left] {
                    if kind == 0 { point.on_cnp(now) } else { point.on_sent(now, Bytes(bytes)) }
                }
            }
            prop_assert_eq!(asked.rate(now), left.rate(now));
            prop_assert_eq!(asked, left);
        }
    }
}
