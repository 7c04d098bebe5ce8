//! What the page says in words: definitions, and what software on ordinary NICs cannot claim.

use maud::{Markup, html};

use crate::report::summary::Summary;

/// What each number means.
pub(super) fn definitions() -> Markup {
    html! {
        dl.terms {
            @for (term, meaning) in DEFINITIONS { dt { (term) } dd { (meaning) } }
        }
    }
}

/// What a reader must know before comparing these numbers with others.
pub(super) fn deviations(summary: &Summary) -> Markup {
    let drive = if summary.mode == "dependency" {
        "Messages were sent when what they wait for had arrived and their compute was over (driven by dependencies): \
         barriers between steps and ranks are those of the plan, and a delay in the network delays what follows."
    } else {
        "Frames were sent at the trace's own times (driven by a schedule): nothing waits for an arrival, so \
         synchronization is not reproduced, and a delay in the network delays nothing that follows."
    };
    html! {
        ul {
            li { (drive) }
            @for text in DEVIATIONS { li { (text) } }
        }
    }
}

const DEFINITIONS: [(&str, &str); 15] = [
    (
        "payload",
        "Bytes that messages carry, without any header. Sent: frames that were sent again included. Received: duplicates included.",
    ),
    ("goodput", "Payload received that was new: what messages are made of."),
    (
        "sending, receiving",
        "Payload over the run's duration. The busiest interval is the interval of the curve above with most payload.",
    ),
    (
        "response",
        "From the intended departure of a frame to its arrival. In timed mode the intended departure is the trace's; in dependency mode it is the instant at which the message became ready. A sender that falls behind makes it grow, so no wait is hidden.",
    ),
    ("service", "From the actual departure of a frame to its arrival: what the path alone took."),
    (
        "lateness",
        "From the intended to the actual departure: what the sending host took. Frames later than the tolerance are counted as sent late; time is never stretched to hide them.",
    ),
    (
        "p50, p99, p99.9",
        "Percentiles of all samples together, never averages of percentiles. Percentile p is shown only if at least ten of n samples lie beyond it, n (1 - p) >= 10. Minimum and maximum are exact.",
    ),
    (
        "clocks",
        "T0: both ends read one clock, so that a one-way time is a difference of two readings. T1: clocks disciplined by PTP or a PHC. T2: offset estimated in band, with a bound of half the least round trip. T3: no one-way time.",
    ),
    (
        "lost",
        "Frames that had not arrived when the run had drained. Duplicates and reordering are counted apart and are never lost.",
    ),
    ("reordered", "Frames that arrived after one that was sent later on the same queue pair."),
    (
        "time of a collective",
        "From the instant at which the last member that gives data was ready to the completion of the last member. In a send and a broadcast one member gives data, and the others are ready only when it arrives.",
    ),
    (
        "algbw, busbw",
        "S is what the operation means (the buffer of an all-reduce; the whole array of an all-gather or a reduce-scatter; one rank's send buffer of an all-to-all; the message of a send). algbw = S / time. busbw = algbw times a factor of the operation alone: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, otherwise 1.",
    ),
    (
        "step",
        "From the end of the step before, or the start of the run, to its own end on the rank that ended it last.",
    ),
    (
        "planned",
        "The same figure in the plan's own timeline, which shares NICs at line rate over a fabric as the plan describes it.",
    ),
    ("compute alone", "The step's time if the network took none."),
];

const DEVIATIONS: [&str; 6] = [
    "This is a replayer in software. It is neither of the two classes of traffic generator that the individual IETF drafts on benchmarking AI fabrics accept (hardware testers, accelerator clusters), which ask for timestamps within 100 ns and rates within 0.1 %. Its own errors are measured and printed instead: lateness, uncertainty of the clocks, reconciliation.",
    "Times are taken in software, so latency includes the hosts' send and receive paths. It is neither the store-and-forward nor the bit-forwarding latency of RFC 1242.",
    "The transport is emulated: frames carry RoCEv2 headers, but no RNIC interprets them. Retransmission is go-back-N in software; rate control (DCQCN) does not run, and congestion notifications change no rate.",
    "Compute is time that passes; no GPU works, and reductions take no time but what the plan gives them.",
    "Priority flow control and drops inside switches are not visible from the hosts. Only what the hosts' own ports count is reported.",
    "Thresholds are the reader's: this report judges nothing.",
];
