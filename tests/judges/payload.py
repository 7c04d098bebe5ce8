#!/usr/bin/env python3
"""Counts what the data frames of a port's capture carry, knowing nothing of tokenwire.

usage: payload.py FILE.pcap MAC...

MAC is the port's own address, one for each file. Prints a line a file: frames and payload bytes that the port sends, and
that it receives, as "FILE sent FRAMES BYTES received FRAMES BYTES". Only requests that carry data count (RDMA WRITE);
acknowledgements do not, nor do NCCL's clear-to-send writes (RDMA WRITE Only of 64 bytes without immediate). Payload is what UDP carries less transport header, extension headers, pad and CRC, so a capture
that keeps the first 64 bytes of each frame is enough.
"""

import struct
import sys

# Opcode -> bytes of extension headers: RETH 16, immediate 4.
DATA = {0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0A: 16, 0x0B: 20}
ORDERS = {b"\x4d\x3c\xb2\xa1": "<", b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\x3c\x4d": ">", b"\xa1\xb2\xc3\xd4": ">"}


def count(path, mac):
    sent, received = [0, 0], [0, 0]
    own = bytes.fromhex(mac.replace(":", ""))
    with open(path, "rb", buffering=1 << 20) as file:
        order = ORDERS[file.read(24)[:4]]
        lengths = struct.Struct(order + "8xII")
        while record := file.read(16):
            captured, _ = lengths.unpack(record)
            frame = file.read(captured)
            at = 12
            while frame[at : at + 2] == b"\x81\x00":
                at += 4
            udp = at + 2 + (20 if frame[at : at + 2] == b"\x08\x00" else 40)
            bth = udp + 8
            extension = DATA.get(frame[bth])
            if extension is None:
                continue
            length = (frame[udp + 4] << 8) | frame[udp + 5]
            pad = (frame[bth + 1] >> 4) & 3
            payload = length - 8 - 12 - extension - pad - 4
            if frame[bth] == 0x0A and payload == 64:
                continue
            side = sent if frame[6:12] == own else received
            side[0] += 1
            side[1] += payload
    print(path, "sent", *sent, "received", *received)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) < 2 or len(arguments) % 2:
        sys.exit(__doc__)
    for path, mac in zip(arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
        count(path, mac)
