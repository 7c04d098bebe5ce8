#!/usr/bin/env bash
# How long one thread takes to write a trace of about 1 GB to memory, against `cp` of the same captures; and how much
# memory it needs. Rounds are paired, each side is the median. Usage: tests/bench/generate.sh [TOKENWIRE]
set -euo pipefail
program=${1:-$(dirname "$0")/../../target/release/tokenwire}
rounds=${ROUNDS:-7}
place=$(mktemp -d "${BENCH_DIR:-/dev/shm}/tokenwire-bench.XXXXXX")
trap 'rm -rf "$place"' EXIT

# Two replicas of GPT-2 sum their gradients once: half a gigabyte at each of two ports.
cat > "$place/plan.toml" <<'PLAN'
version = 1
name = "bench"
[model]
preset = "gpt2"
[training]
sequence_length = 1024
micro_batch = 1
global_batch = 2
[parallelism]
data = 2
[cluster]
hosts = 2
gpus_per_host = 1
link = "400Gbit"
PLAN

export PROGRAM=$program PLACE=$place ROUNDS=$rounds
python3 - <<'PYTHON'
import json, os, pathlib, shutil, statistics, subprocess, sys, time

place = pathlib.Path(os.environ["PLACE"])
trace, copy = place / "trace", place / "copy"


def generate():
    """Seconds, and peak resident memory in KiB."""
    command = [os.environ["PROGRAM"], "generate", str(place / "plan.toml"), "-o", str(trace), "--threads", "1"]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.monotonic() - began
    if status:
        sys.exit(f"generate ended with status {status}: {errors.decode()}")
    return took, usage.ru_maxrss


def copied():
    copy.mkdir()
    captures = sorted(map(str, (trace / "pcap").iterdir()))
    began = time.monotonic()
    subprocess.run(["cp", *captures, str(copy)], check=True)
    return time.monotonic() - began


ours, theirs, memory, size = [], [], 0, 0
for number in range(int(os.environ["ROUNDS"]) + 1):
    took, resident = generate()
    other = copied()
    size = sum(file.stat().st_size for file in copy.iterdir())
    shutil.rmtree(trace)
    shutil.rmtree(copy)
    if number == 0:
        continue  # The first round meets cold caches and untouched memory.
    ours.append(took)
    theirs.append(other)
    memory = max(memory, resident)
    print(f"round {number}: generate {took:.3f} s, cp {other:.3f} s, {took / other:.2f}", file=sys.stderr)

mine, cp = statistics.median(ours), statistics.median(theirs)
detail = (
    f"{size} bytes: generate {mine:.3f} s ({min(ours):.3f} to {max(ours):.3f}), "
    f"cp {cp:.3f} s ({min(theirs):.3f} to {max(theirs):.3f}), {len(ours)} rounds"
)
def result(name, ratio, great, least, unit, detail):
    return {"name": name, "ratio": round(ratio, 3), "great": great, "least": least, "unit": unit, "detail": detail}


results = [
    result("generate_over_cp", mine / cp, 1.0, 1.5, "times the time of cp", detail),
    result("generate_memory", memory / 65536, 0.5, 1.0, "times 64 MiB", f"peak resident memory {memory} KiB"),
]
print(f"generate takes {mine / cp:.2f} times the time of cp, in {memory / 1024:.1f} MiB")
print(json.dumps({"results": results}))
PYTHON
