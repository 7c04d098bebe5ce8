#!/usr/bin/env bash
# Sets a machine up for the tests and runs all of them: formatting, lints, documentation, tests, the demo.
#
# usage: bash tests/run.sh
# Needs a Rust toolchain and a C compiler. What the outside judges need (tshark, python3, iproute2) is installed with
# apt-get where it is missing and this user may; what could not be installed is said aloud, with the checks that it
# skips. With CI=true nothing is skipped: a judge that is missing is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

# command -> package -> what is skipped without it
judges=(
  "tshark|tshark|frames judged by Wireshark's dissector"
  "python3|python3|the invariant CRC judged by an independent program"
  "ip|iproute2|replay between network namespaces"
  "unshare|util-linux|replay between network namespaces"
)

say "outside judges"
missing_packages=()
for judge in "${judges[@]}"; do
  IFS='|' read -r command package _ <<<"$judge"
  command -v "$command" >/dev/null || missing_packages+=("$package")
done
if ((${#missing_packages[@]})); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing: ${missing_packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing_packages[@]}" >/dev/null ||
      echo "apt-get could not install all of: ${missing_packages[*]}"
  else
    echo "missing, and only root may install here: ${missing_packages[*]}"
  fi
fi
skipped=()
for judge in "${judges[@]}"; do
  IFS='|' read -r command package what <<<"$judge"
  if command -v "$command" >/dev/null; then
    echo "$command: $(command -v "$command")"
  else
    echo "$command is MISSING (package $package): SKIPPED: $what"
    skipped+=("$command")
  fi
done
if ((${#skipped[@]})) && [ "${CI:-}" = true ]; then
  echo "in CI no check may be skipped" >&2
  exit 1
fi
# The tests that need a judge fail when it is missing, unless this says that the gap is known.
TOKENWIRE_SKIP=$(IFS=,; echo "${skipped[*]}")
export TOKENWIRE_SKIP

say "format"
cargo fmt --all --check

say "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Fuzzing takes a few seconds on a desk and a minute in CI, where each run draws other inputs; the seed is printed.
if [ "${CI:-}" = true ]; then
  export TOKENWIRE_FUZZ_SECONDS=${TOKENWIRE_FUZZ_SECONDS:-60} TOKENWIRE_FUZZ_SEED=${TOKENWIRE_FUZZ_SEED:-$(date +%s)}
fi

say "tests"
cargo test --workspace --locked

say "demo"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo run --release --locked -- demo --output "$out/demo"

say "done"
if ((${#skipped[@]})); then
  echo "passed, but SKIPPED what these judge: ${skipped[*]}"
else
  echo "all checks passed, none skipped"
fi
