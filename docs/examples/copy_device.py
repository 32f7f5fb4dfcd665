#!/usr/bin/env python3
"""copy_device.py ADDRESS PORT DEVICE FILE: copies a remote device into a file, and compares what it copied."""
import sys

import urtrs

PART = 1 << 20


def main(address, port, name, file):
    with urtrs.Session("copy-device", [address], int(port)) as session, \
         session.open(name, read_only=True, timeout=30) as device, open(file, "w+b") as copy:
        data, again = bytearray(PART), bytearray(PART)
        for offset in range(0, device.size, PART):
            part = memoryview(data)[:min(PART, device.size - offset)]
            device.read_into(part, offset)
            copy.write(part)
        copy.seek(0)
        for offset in range(0, device.size, PART):
            part = memoryview(again)[:min(PART, device.size - offset)]
            device.read_into(part, offset)
            if copy.read(len(part)) != part:
                sys.exit(f"copy_device: {name} changed meanwhile")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"copy_device: {error.filename + ': ' if error.filename else ''}{error.strerror}")
    except (ValueError, OverflowError) as error:
        sys.exit(f"copy_device: {error}")
    except KeyboardInterrupt:
        sys.exit("copy_device: stopped")
