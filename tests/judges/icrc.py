#!/usr/bin/env python3
"""Judges the invariant CRC of RoCEv2 frames, knowing nothing of tokenwire.

usage: icrc.py FILE.pcap...

The CRC is zlib's CRC-32 (IEEE 802.3) over eight bytes of ones, the IP header, the UDP header, the base transport header
and all that follows, with the fields that a router may change set to ones (IBTA annex A17: type of service, time to live,
header checksum; traffic class, flow label, hop limit; UDP checksum; the fifth byte of the base transport header). It stands
in the last four bytes of the UDP payload, least significant byte first.

Prints one line a file, and the first wrong frames. Exit 0 when there was a frame and every whole one is right.
"""

import mmap
import sys
import zlib

ROCE_PORT = 4791


def records(data):
    orders = {b"\xa1\xb2\xc3\xd4": "big", b"\xa1\xb2\x3c\x4d": "big", b"\xd4\xc3\xb2\xa1": "little", b"\x4d\x3c\xb2\xa1": "little"}
    order = orders.get(bytes(data[:4]))
    if order is None:
        sys.exit("not a classic pcap file")
    at, number = 24, 0
    while at + 16 <= len(data):
        captured = int.from_bytes(data[at + 8 : at + 12], order)
        original = int.from_bytes(data[at + 12 : at + 16], order)
        number += 1
        yield number, original, data[at + 16 : at + 16 + captured]
        at += 16 + captured
    if at != len(data):
        sys.exit(f"{len(data) - at} bytes behind record {number} are no record")


def masked(frame):
    """(bytes under the CRC, the four CRC bytes), or None when the frame is not RoCEv2."""
    at = 12
    kind = frame[at : at + 2]
    while kind in (b"\x81\x00", b"\x88\xa8"):
        at += 4
        kind = frame[at : at + 2]
    at += 2
    packet = bytearray(frame[at:])
    if kind == b"\x08\x00" and packet[9] == 17:
        header = 4 * (packet[0] & 0x0F)
        ones = [1, 8, 10, 11]
    elif kind == b"\x86\xdd" and packet[6] == 17:
        header = 40
        packet[0] |= 0x0F
        ones = [1, 2, 3, 7]
    else:
        return None
    if int.from_bytes(packet[header + 2 : header + 4], "big") != ROCE_PORT:
        return None
    end = header + int.from_bytes(packet[header + 4 : header + 6], "big")
    for place in [*ones, header + 6, header + 7, header + 8 + 4]:
        packet[place] = 0xFF
    return b"\xff" * 8 + packet[: end - 4], bytes(packet[end - 4 : end])


def judge(path):
    seen = right = 0
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for number, original, frame in records(data):
            parts = masked(frame) if len(frame) == original else None
            if parts is None:
                continue
            seen += 1
            want = zlib.crc32(parts[0]).to_bytes(4, "little")
            if want == parts[1]:
                right += 1
            elif seen - right <= 5:
                print(f"{path}: frame {number}: {parts[1].hex()}, should be {want.hex()}")
    print(f"{path}: {right} of {seen} whole RoCEv2 frames have the right invariant CRC")
    return seen > 0 and seen == right


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    results = [judge(path) for path in sys.argv[1:]]
    sys.exit(0 if all(results) else 1)
