#!/usr/bin/env python3
"""Judges traces of every shipped plan, NIC profile, payload and family of addresses.

usage: matrix.py PROGRAM [--reduced] [--troubled] [--frames N] [--only WORD]... [--jobs N]

Of each combination one NIC and one training step are generated. Then
- tests/judges/icrc.py computes the invariant CRC of the first and the last N frames (2000),
- tshark dissects them with the checksums of IP and UDP checked: nothing malformed, no expert's error or warning, no protocol
  but infiniband and its data,
- `PROGRAM verify` examines the whole trace folder.

--reduced makes the plans' models and batches small, so that a debug build does all of it in minutes; everything else of the
plans stands. --troubled adds loss, marks, delay and receivers that are not ready, so that there are NAKs, RNR NAKs, repetitions
and congestion notifications to be judged. --only takes combinations whose name has that word, as `tutorial-dp8/hns/zero/ipv6`; more than one: all of them.

Prints one line a combination. Exit 0 when all are right.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PLANS = HERE.parent.parent / "generator" / "plans"
PROFILES = ["mlx5-nccl", "mlx5-cm", "hns", "rxe"]
PAYLOADS = ["pattern", "zero", "random", "token"]
FAMILIES = {"ipv4": "", "ipv6": 'addresses = "2001:2::/48"\n'}

# The same shapes of parallelism, ten thousand times fewer bytes. The vocabulary has to hold the words of the text.
SMALLER = [
    (r"\[model\]\npreset = .*", "[model]\nfamily = \"gpt\"\nlayers = 12\nhidden = 16"),
    (r"hidden = 64", "hidden = 16"),
    (r"sequence_length = \d+", "sequence_length = 64"),
    (r"(micro|global)_batch = (\d+)", lambda found: f"{found[1]}_batch = {max(1, int(found[2]) // 16)}"),
]

# NICs whose frames switches may not mark (rxe) are told otherwise.
TROUBLE = """ecn = 2

[[fabric.impairments]]
kind = "loss"
rate = "0.2%"
[[fabric.impairments]]
kind = "loss"
rate = "0.2%"
frames = "ack"
[[fabric.impairments]]
kind = "ce"
rate = "1%"
[[fabric.impairments]]
kind = "delay"
delay = "20us"
rate = "0.5%"
[[fabric.impairments]]
kind = "rnr"
rate = "1%"
"""

EXPERT_WARNING = 0x600000
# Payload that these take for what it is not is no fault of the frame (docs/wireshark switches them off too).
QUIET = [word for name in ("rpcrdma_infiniband", "eth_over_ib", "smb_direct_infiniband") for word in ("--disable-heuristic", name)]
CHECKED = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
FIELDS = ["frame.protocols", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message", "_ws.col.Info"]


def variant(plan, profile, payload, family, arguments):
    text = (PLANS / f"{plan}.toml").read_text()
    if arguments.reduced:
        for pattern, smaller in SMALLER:
            text = re.sub(pattern, smaller, text)
        if "heads = " not in text:
            text = text.replace("[model]\n", "[model]\nheads = 4\n")
    text = text.replace("[cluster]\n", f"[cluster]\n{FAMILIES[family]}")
    setup = 'setup = "cm"\n' if profile == "mlx5-cm" else ""
    assert "[transport]" not in text
    return text + f'\n[transport]\nnic_profile = "{profile}"\npayload = "{payload}"\n{setup}' + (TROUBLE if arguments.troubled else "")


def records(path):
    """The places of the records of a pcap file, by their headers alone."""
    with open(path, "rb") as file:
        order = "little" if file.read(24)[:1] in b"\x4d\xd4" else "big"
        at = 24
        while header := file.read(16):
            end = at + 16 + int.from_bytes(header[8:12], order)
            yield path, at, end
            at = file.seek(end)


def cut(captures, target, count):
    """The first and the last `count` frames of a file set, as one capture; returns how many it has, and of how many."""
    first, last, total = [], collections.deque(maxlen=count), 0
    for record in itertools.chain.from_iterable(map(records, captures)):
        total += 1
        (first if len(first) < count else last).append(record)
    with open(target, "wb") as file:
        file.write(captures[0].open("rb").read(24))
        for path, start, end in [*first, *last]:
            with open(path, "rb") as source:
                source.seek(start)
                file.write(source.read(end - start))
    return len(first) + len(last), total


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def dissected(capture, faults):
    said = run(["tshark", "-n", "-r", str(capture), *CHECKED, *QUIET, "-T", "fields", *[word for field in FIELDS for word in ("-e", field)]],
               env={**os.environ, "WIRESHARK_CONFIG_DIR": str(capture.parent)})
    if said.returncode:
        faults.append(f"tshark: {said.stderr.strip()}")
    count = 0
    for count, line in enumerate(said.stdout.splitlines(), 1):
        protocols, malformed, severity, message, info = line.split("\t")
        expert = max((int(word) for word in severity.split(",") if word), default=0)
        right = protocols.endswith((":infiniband", ":infiniband:data"))
        if malformed or "Malformed" in info or expert >= EXPERT_WARNING or not right:
            faults.append(f"tshark: frame {count} of the cut: {protocols} {message} {info}")
    return count


def judge(combination, arguments):
    name = "/".join(combination)
    began = time.monotonic()
    faults = []
    with tempfile.TemporaryDirectory(prefix="matrix.", dir=os.environ.get("BENCH_DIR")) as place:
        place = pathlib.Path(place)
        shutil.copy(PLANS / "dante.txt", place)
        (place / "plan.toml").write_text(variant(*combination, arguments))
        program = str(pathlib.Path(arguments.program).resolve())
        said = run([program, "generate", "plan.toml", "-o", "trace", "--nics", "0", "--steps", "1"], cwd=place)
        if said.returncode:
            return name, 0, 0, "-", [f"generate: {said.stderr.strip()}"], time.monotonic() - began
        captures = sorted((place / "trace" / "pcap").iterdir())
        few, frames = cut(captures, place / "cut.pcap", arguments.frames)
        said = run([sys.executable, str(HERE / "icrc.py"), "cut.pcap"], cwd=place)
        if said.returncode or f"{few} of {few} whole" not in said.stdout:
            faults.append(f"icrc: {said.stdout.strip()}")
        dissections = dissected(place / "cut.pcap", faults)
        if dissections != few:
            faults.append(f"tshark: {dissections} of {few} frames")
        said = run([program, "verify", "trace", "--json"], cwd=place)
        try:
            checks = json.loads(said.stdout)["checks"]
        except (ValueError, KeyError):
            checks = []
            faults.append(f"verify: {said.stderr.strip()}")
        for check in checks:
            if check["violations"]:
                faults.append(f"verify: {check['name']}: {check['violations']} of {check['examined']}: {json.dumps(check.get('first', check.get('examples')))}")
        if said.returncode and not any(check["violations"] for check in checks):
            faults.append(f"verify: exit {said.returncode}")
        examined = sum(1 for check in checks if check["examined"])
        return name, few, frames, f"{examined} of {len(checks)}", faults, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--reduced", action="store_true")
    parser.add_argument("--troubled", action="store_true")
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    plans = sorted(path.stem for path in PLANS.glob("*.toml"))
    combinations = [
        combination
        for combination in itertools.product(plans, PROFILES, PAYLOADS, FAMILIES)
        if all(word in "/".join(combination).split("/") for word in arguments.only)
    ]
    print(f"{'plan, profile, payload, addresses':<40} {'judged':>7} {'frames':>8}  {'checks':<9} seconds")
    wrong = total = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, few, frames, checks, faults, took in pool.map(lambda one: judge(one, arguments), combinations):
            print(f"{name:<40} {few:>7} {frames:>8}  {checks:<9} {took:>7.1f}  {'WRONG' if faults else 'right'}", flush=True)
            for fault in faults[:8]:
                print(f"    {fault[:400]}")
            wrong += bool(faults)
            total += few
    print(f"{len(combinations) - wrong} of {len(combinations)} combinations are right; {total} frames were dissected")
    return 0 if combinations and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
