#!/usr/bin/env bash
# Judges traces of every shipped plan, as it is shipped, on every NIC, with every payload, over IPv4 and IPv6: one NIC and one
# step of each, its frames by an independent CRC and by Wireshark, the whole trace by the critic. Some 15 minutes on two cores,
# and up to 2 GB in memory at a time. Usage: tests/bench/matrix.sh [TOKENWIRE [OPTION..]], options as tests/judges/matrix.py has.
set -euo pipefail
here=$(dirname "$0")
export BENCH_DIR=${BENCH_DIR:-/dev/shm}
exec python3 "$here/../judges/matrix.py" "${1:-$here/../../target/release/tokenwire}" "${@:2}"
