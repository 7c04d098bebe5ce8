//! Planned trouble: what `[[fabric.impairments]]` means, why one is refused, and how it is written out.
//!
//! What it does to a frame is decided in [`crate::fabric`].

mod table;

use traces::id::{NicId, QueuePairId};
use traces::origin::Class;
use traces::unit::{Nanos, duration_text};

pub(super) use table::{BurstTable, ImpairmentTable, NicName};

use super::chance::{Chance, ChanceText};
use super::error::{Wrong, did_you_mean};
use super::value::{choice, quantity, wrong};

/// Trouble for some frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairment {
    /// What happens to them.
    pub harm: Harm,
    /// How they are chosen.
    pub choice: Choice,
    /// Among which they are chosen.
    pub filter: Filter,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It never arrives.
    Loss,
    /// A switch marks it: congestion experienced.
    Mark,
    /// It arrives later, and so does what follows it from the same NIC to the same NIC: the network keeps their order.
    Delay(Nanos),
    /// The receiver has no receive for its message, and answers the frame that needs one with an RNR NAK.
    NotReady,
}

/// How frames are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Each by chance (not ready: each attempt at a message).
    Rate(Chance),
    /// By chance, in runs.
    Burst {
        /// The chance that a run begins at a frame.
        start: Chance,
        /// Frames of a run, at least one; `start x frames` is at most always.
        frames: u32,
    },
    /// By name.
    Named {
        /// The message's place among those of its queue pair, from zero.
        message: u32,
        /// Which of its frames; none means all.
        frames: Option<Run>,
        /// Which transmissions of the frame (not ready: which attempts at the message).
        occurrences: Run,
    },
}

/// Some in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first, from one.
    pub first: u32,
    /// How many, at least one.
    pub count: u32,
}

/// Which frames come into question; what is `None` excludes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What they are.
    pub frames: Frames,
    /// Who sends them.
    pub from: Option<NicId>,
    /// Who gets them.
    pub to: Option<NicId>,
    /// The queue pair that sends them.
    pub queue_pair: Option<QueuePairId>,
    /// Why their message exists.
    pub class: Option<Class>,
    /// When they are sent: from the first on and before the second.
    pub between: Option<[Nanos; 2]>,
}

/// What frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Frames of messages.
    #[default]
    Data,
    /// Acknowledgements, positive and negative.
    Acknowledgements,
    /// Clear-to-send writes.
    ClearToSend,
    /// Congestion notifications.
    Notifications,
    /// All of these.
    All,
}

/// What a plan has that impairments speak of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    pub(super) hosts: u32,
    pub(super) nics_per_host: u32,
    /// Whether frames say that they can be marked.
    pub(super) ecn_capable: bool,
}

impl Run {
    /// Whether this one, from one, is among them.
    #[must_use]
    pub const fn has(self, number: u32) -> bool {
        number >= self.first && number - self.first < self.count
    }
}

impl Frames {
    /// The name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => FRAMES[0],
            Self::Acknowledgements => FRAMES[1],
            Self::ClearToSend => FRAMES[2],
            Self::Notifications => FRAMES[3],
            Self::All => FRAMES[4],
        }
    }
}

/// The meaning of a plan's impairments.
pub(super) fn resolve(tables: &[ImpairmentTable], around: Surroundings) -> Result<Vec<Impairment>, Wrong> {
    let numbered = tables.iter().enumerate();
    numbered.map(|(entry, table)| one(table, around).map_err(|wrong| wrong.of_entry(entry))).collect()
}

fn one(table: &ImpairmentTable, around: Surroundings) -> Result<Impairment, Wrong> {
    let harm = harm(table, around)?;
    let filter = filter(table, around)?;
    if harm == Harm::NotReady {
        let keys = [("burst", table.burst.is_some()), ("frames", table.frames.is_some())];
        let named = [("frame", table.frame.is_some()), ("occurrence", table.occurrence.is_some())];
        refuse_extra(&keys, "rnr is about messages", "message = N with times = N, or rate")?;
        refuse_extra(&named, "rnr is about messages", "message = N with times = N")?;
    }
    Ok(Impairment { harm, choice: chosen(table, harm, filter.frames)?, filter })
}

fn harm(table: &ImpairmentTable, around: Surroundings) -> Result<Harm, Wrong> {
    let kind = choice(&keys("kind"), Some(&table.kind), &KINDS)?;
    match (kind, &table.delay) {
        (DELAY, Some(text)) => {
            let delay = quantity::<Nanos>(&keys("delay"), Some(text), "")?;
            let refuse = |what| Err(wrong(&keys("delay"), what, "more than 0ns, at most 60s".to_owned()));
            if delay == Nanos::ZERO || delay > LONGEST {
                return refuse(format!("a delay of {}", duration_text(delay)));
            }
            Ok(Harm::Delay(delay))
        }
        (DELAY, None) => {
            let what = "kind `delay` does not say how long".to_owned();
            Err(wrong(&keys("kind"), what, "delay = \"30us\"".to_owned()))
        }
        (_, Some(_)) => {
            let what = format!("`delay` beside kind `{}`", table.kind);
            Err(wrong(
                &keys("delay"),
                what,
                "kind = \"delay\", or another impairment beside this one".to_owned(),
            ))
        }
        (CE, None) if !around.ecn_capable => {
            let what =
                "frames that say they can not be marked are never marked, and transport.ecn is 0".to_owned();
            Err(wrong(&keys("kind"), what, "ecn = 2 in [transport]".to_owned()))
        }
        (CE, None) => Ok(Harm::Mark),
        (RNR, None) => Ok(Harm::NotReady),
        _ => Ok(Harm::Loss),
    }
}

fn chosen(table: &ImpairmentTable, harm: Harm, frames: Frames) -> Result<Choice, Wrong> {
    let beside = [
        ("frame", table.frame.is_some()),
        ("count", table.count.is_some()),
        ("occurrence", table.occurrence.is_some()),
        ("times", table.times.is_some()),
    ];
    match (&table.rate, &table.burst, table.message) {
        (Some(rate), None, None) => {
            refuse_extra(&beside, "no message is named", "message = N, or without it")?;
            Ok(Choice::Rate(chance(&keys("rate"), rate)?))
        }
        (None, Some(burst), None) => {
            refuse_extra(&beside, "no message is named", "message = N, or without it")?;
            let start = chance(&["fabric", "impairments", "burst", "start"], &burst.start)?;
            let most = u64::from(start.billionths()) * u64::from(burst.frames);
            if burst.frames == 0 || most > u64::from(Chance::PARTS) {
                let what = format!("bursts of {} frames that begin at {start} of frames", burst.frames);
                let help = "at least one frame, and start x frames is at most 100%".to_owned();
                return Err(wrong(&["fabric", "impairments", "burst", "frames"], what, help));
            }
            Ok(Choice::Burst { start, frames: burst.frames })
        }
        (None, None, Some(message)) => {
            let occurrences = run("occurrence", table.occurrence, "times", table.times)?;
            if harm == Harm::NotReady {
                refuse_extra(&beside[1..2], "rnr is about messages", "message = N with times = N")?;
                return Ok(Choice::Named { message, frames: None, occurrences });
            }
            if table.frame.is_none() && frames != Frames::Acknowledgements {
                let what = format!("message {message} is named, but no frame of it");
                return Err(wrong(&keys("message"), what, "frame = 1 is the first".to_owned()));
            }
            if table.frame.is_none() {
                refuse_extra(&beside[1..2], "no frame is named", "frame = N, or without it")?;
            }
            let frames = table.frame.map(|_| run("frame", table.frame, "count", table.count)).transpose()?;
            Ok(Choice::Named { message, frames, occurrences })
        }
        (None, None, None) => {
            let what = format!("kind `{}` does not say which frames", table.kind);
            Err(wrong(&keys("kind"), what, HELP_CHOICE.to_owned()))
        }
        (rate, burst, _) => {
            let names =
                [("rate", rate.is_some()), ("burst", burst.is_some()), ("message", table.message.is_some())];
            let given: Vec<_> = names.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
            let what = format!("{} are given", given.join(" and "));
            Err(wrong(&keys(given[1]), what, HELP_CHOICE.to_owned()))
        }
    }
}

fn filter(table: &ImpairmentTable, around: Surroundings) -> Result<Filter, Wrong> {
    const KINDS: [Frames; 5] =
        [Frames::Data, Frames::Acknowledgements, Frames::ClearToSend, Frames::Notifications, Frames::All];
    let nic = |key: &'static str, name: &Option<NicName>| {
        name.as_ref().map(|name| nic(key, &name.0, around)).transpose()
    };
    let class = |name: &String| {
        Class::ALL.iter().copied().find(|class| class.name() == *name).ok_or_else(|| {
            let known = Class::ALL.iter().map(|class| class.name());
            wrong(&keys("class"), format!("`{name}` is no class of traffic"), did_you_mean(name, known))
        })
    };
    let between = |texts: &[String; 2]| {
        let [from, to] =
            [&texts[0], &texts[1]].map(|text| quantity::<Nanos>(&keys("between"), Some(text), ""));
        let (from, to) = (from?, to?);
        if from >= to {
            let what = format!("nothing is sent between {} and {}", duration_text(from), duration_text(to));
            return Err(wrong(
                &keys("between"),
                what,
                "the earlier time first: [\"10us\", \"2ms\"]".to_owned(),
            ));
        }
        Ok([from, to])
    };
    let (from, to) = (nic("from", &table.from)?, nic("to", &table.to)?);
    if from.is_some() && from == to {
        let what = "`from` and `to` are the same NIC".to_owned();
        return Err(wrong(&keys("to"), what, "a NIC sends nothing to itself through the network".to_owned()));
    }
    Ok(Filter {
        frames: KINDS[choice(&keys("frames"), table.frames.as_deref(), &FRAMES)?],
        from,
        to,
        queue_pair: table.queue_pair.map(QueuePairId),
        class: table.class.as_ref().map(class).transpose()?,
        between: table.between.as_ref().map(between).transpose()?,
    })
}

/// A NIC by its name (`host1-nic0`) or its number.
fn nic(key: &'static str, name: &str, around: Surroundings) -> Result<NicId, Wrong> {
    let of_host = |name: &str| {
        let (host, nic) = name.strip_prefix("host")?.split_once("-nic")?;
        let (host, nic): (u32, u32) = (host.parse().ok()?, nic.parse().ok()?);
        (host < around.hosts && nic < around.nics_per_host).then(|| host * around.nics_per_host + nic)
    };
    let all = around.hosts * around.nics_per_host;
    of_host(name).or_else(|| name.parse().ok().filter(|number| *number < all)).map(NicId).ok_or_else(|| {
        let what = format!("there is no NIC `{name}`");
        let last = nic_name(NicId(all - 1), around.nics_per_host);
        wrong(&keys(key), what, format!("host0-nic0 to {last}, or 0 to {}", all - 1))
    })
}

fn nic_name(nic: NicId, nics_per_host: u32) -> String {
    format!("host{}-nic{}", nic.0 / nics_per_host, nic.0 % nics_per_host)
}

/// The impairments as a plan writes them, every default told.
pub(super) fn written(impairments: &[Impairment], nics_per_host: u32) -> Vec<ImpairmentTable> {
    impairments.iter().map(|impairment| table(impairment, nics_per_host)).collect()
}

fn table(impairment: &Impairment, nics_per_host: u32) -> ImpairmentTable {
    let Impairment { harm, choice, filter } = impairment;
    let text = |chance: Chance| ChanceText(chance.to_string());
    let name = |nic: NicId| NicName(nic_name(nic, nics_per_host));
    let mut table = ImpairmentTable {
        kind: match harm {
            Harm::Loss => KINDS[LOSS],
            Harm::Mark => KINDS[CE],
            Harm::Delay(_) => KINDS[DELAY],
            Harm::NotReady => KINDS[RNR],
        }
        .to_owned(),
        delay: if let Harm::Delay(delay) = harm { Some(duration_text(*delay)) } else { None },
        frames: (*harm != Harm::NotReady).then(|| filter.frames.name().to_owned()),
        from: filter.from.map(name),
        to: filter.to.map(name),
        queue_pair: filter.queue_pair.map(|pair| pair.0),
        class: filter.class.map(|class| class.name().to_owned()),
        between: filter.between.map(|times| times.map(duration_text)),
        ..ImpairmentTable::default()
    };
    match *choice {
        Choice::Rate(rate) => table.rate = Some(text(rate)),
        Choice::Burst { start, frames } => table.burst = Some(BurstTable { start: text(start), frames }),
        Choice::Named { message, frames, occurrences } => {
            table.message = Some(message);
            table.frame = frames.map(|run| run.first);
            table.count = frames.map(|run| run.count);
            table.occurrence = (*harm != Harm::NotReady).then_some(occurrences.first);
            table.times = Some(occurrences.count);
        }
    }
    table
}

pub(super) fn chance(keys: &[&'static str], text: &ChanceText) -> Result<Chance, Wrong> {
    text.0
        .parse()
        .map_err(|what| wrong(keys, what, "between 0 and 1 in billionths: \"0.1%\" or 0.001".to_owned()))
}

fn run(first: &'static str, from: Option<u32>, many: &'static str, count: Option<u32>) -> Result<Run, Wrong> {
    let run = Run { first: from.unwrap_or(1), count: count.unwrap_or(1) };
    for (key, value) in [(first, run.first), (many, run.count)] {
        if value == 0 {
            return Err(wrong(&keys(key), format!("{key} 0"), "counted from 1".to_owned()));
        }
    }
    Ok(run)
}

/// Refuses the first of the keys that is given.
fn refuse_extra(given: &[(&'static str, bool)], why: &str, help: &str) -> Result<(), Wrong> {
    given.iter().find(|(_, given)| *given).map_or(Ok(()), |(key, _)| {
        Err(wrong(&keys(key), format!("`{key}` says nothing here: {why}"), help.to_owned()))
    })
}

const fn keys(key: &'static str) -> [&'static str; 3] {
    ["fabric", "impairments", key]
}

const KINDS: [&str; 4] = ["loss", "ce", "delay", "rnr"];
const LOSS: usize = 0;
const CE: usize = 1;
const DELAY: usize = 2;
const RNR: usize = 3;

const FRAMES: [&str; 5] = ["data", "ack", "cts", "cnp", "all"];

const HELP_CHOICE: &str =
    "one of rate = \"0.1%\", burst = { start = \"0.01%\", frames = 20 }, message = 3 with frame = 7";

/// A delay beyond this would be a loss to any NIC.
const LONGEST: Nanos = Nanos(60_000_000_000);

#[cfg(test)]
mod tests;
