#!/usr/bin/env bash
# Judges traces of every shipped plan, as it is shipped, on every NIC, with every payload, over IPv4 and IPv6: one NIC and one
# step of each, its frames by an independent CRC and by Wireshark, the whole trace by the critic. One combination at a time;
# tutorial-tp8 needs 9 GB in BENCH_DIR, the others half a gigabyte.
# Usage: tests/bench/matrix.sh [TOKENWIRE [OPTION..]], options as tests/judges/matrix.py has: --reduced needs little of all that.
set -euo pipefail
here=$(dirname "$0")
exec python3 "$here/../judges/matrix.py" "${1:-$here/../../target/release/tokenwire}" --jobs 1 "${@:2}"
