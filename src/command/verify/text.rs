//! What people read of an examination: hosts, a line a check below its family, examples, and a line about all.

use std::fmt::Write as _;

use traces::critic::{Check, HostProfile, Verdict};

use super::Examined;

/// All of it.
pub(crate) fn text(examined: &Examined) -> String {
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a String takes all that is written");
        text.push('\n');
    };
    if !examined.profiles.is_empty() {
        line(format_args!("NICs, as their frames tell"));
    }
    for host in examined.profiles.iter().take(MOST_HOSTS) {
        line(format_args!("  {}", nic(host)));
    }
    if let Some(more @ 1..) = examined.profiles.len().checked_sub(MOST_HOSTS) {
        line(format_args!("  and {more} more; --json has them all"));
    }
    let mut family = "";
    for check in &examined.checks {
        if check.family != family {
            family = &check.family;
            line(format_args!("{family}"));
        }
        let verdict = match check.verdict() {
            Verdict::Passed => "ok",
            Verdict::Violated => "WRONG",
            Verdict::Idle => "nothing to examine",
        };
        line(format_args!(
            "  {:<26} {:>12} examined {:>8} wrong  {verdict}",
            check.name, check.examined, check.violations
        ));
        for example in &check.examples {
            match example.frame {
                0 => line(format_args!("      {}: {}", example.file, example.what)),
                frame => line(format_args!("      {} frame {frame}: {}", example.file, example.what)),
            }
        }
    }
    line(format_args!("{}", summary(examined)));
    text
}

/// A line about all.
pub(super) fn summary(examined: &Examined) -> String {
    let Examined { checks, frames, .. } = examined;
    let count = |verdict| checks.iter().filter(|check| check.verdict() == verdict).count();
    let (passed, violated, idle) = (count(Verdict::Passed), count(Verdict::Violated), count(Verdict::Idle));
    if passed + violated == 0 {
        return format!("no frame of RoCEv2 in {frames} frames, so nothing was examined");
    }
    let wrong: u64 = checks.iter().map(|check: &Check| check.violations).sum();
    let mut text = format!("{} checks over {frames} frames: {passed} ok", checks.len());
    if idle > 0 {
        write!(text, ", {idle} with nothing to examine").expect("a String takes all that is written");
    }
    write!(text, ", {violated} wrong; {wrong} violations").expect("a String takes all that is written");
    text
}

fn nic(host: &HostProfile) -> String {
    let HostProfile { address, profile, differs } = host;
    let name = profile.as_deref().unwrap_or("unknown");
    match &differs[..] {
        [] => format!("{address}: {name}"),
        differs => format!("{address}: {name} ({})", differs.join("; ")),
    }
}

/// Hosts that are listed.
const MOST_HOSTS: usize = 16;

#[cfg(test)]
mod tests {
    use traces::critic::Example;

    use super::*;

    fn check(family: &str, name: &str, examined: u64, examples: &[u64]) -> Check {
        let example = |&frame: &u64| Example { file: "a.pcap".to_owned(), frame, what: "odd".to_owned() };
        Check {
            name: name.to_owned(),
            family: family.to_owned(),
            examined,
            violations: u64::try_from(examples.len()).unwrap(),
            examples: examples.iter().map(example).collect(),
        }
    }

    #[test]
    fn a_family_is_named_once_and_a_line_says_it_all() {
        let host = |address: &str, profile: Option<&str>, differs: &[&str]| HostProfile {
            address: address.to_owned(),
            profile: profile.map(str::to_owned),
            differs: differs.iter().map(|&what| what.to_owned()).collect(),
        };
        let examined = Examined {
            checks: vec![
                check("bits", "icrc", 7, &[]),
                check("bits", "pad", 0, &[]),
                check("trace", "graph", 3, &[0, 2]),
            ],
            profiles: vec![
                host("198.18.0.1", Some("rxe"), &[]),
                host("198.18.0.2", None, &["M is 1, not 0"]),
            ],
            frames: 7,
            ended: None,
        };
        let lines: Vec<_> = text(&examined).lines().map(str::to_owned).collect();
        assert_eq!(
            lines[..4],
            [
                "NICs, as their frames tell",
                "  198.18.0.1: rxe",
                "  198.18.0.2: unknown (M is 1, not 0)",
                "bits",
            ]
        );
        assert!(lines[4].starts_with("  icrc ") && lines[4].ends_with(" 7 examined        0 wrong  ok"));
        assert!(lines[5].ends_with("nothing to examine"));
        assert_eq!(lines[6], "trace");
        assert_eq!(
            lines[8..],
            [
                "      a.pcap: odd",
                "      a.pcap frame 2: odd",
                "3 checks over 7 frames: 1 ok, 1 with nothing to examine, 1 wrong; 2 violations",
            ]
        );
    }

    #[test]
    fn nothing_examined_is_said() {
        let examined = Examined {
            checks: vec![check("bits", "icrc", 0, &[])],
            profiles: Vec::new(),
            frames: 5,
            ended: None,
        };
        assert_eq!(summary(&examined), "no frame of RoCEv2 in 5 frames, so nothing was examined");
    }
}
