"""Single changes of the frames of a capture (pcapng, big-endian, as urtrs-replay writes it)."""
import struct

PACKET = 6


def blocks(raw):
    at, found = 0, []
    while at < len(raw):
        kind, size = struct.unpack_from(">II", raw, at)
        found.append((kind, raw[at:at + size]))
        at += size
    return found


def frame_changes():
    """Name, and a function of the blocks and the indexes of frames that returns changed blocks."""
    def at(part, change):
        def apply(all_blocks, frames):
            return change(list(all_blocks), frames, int(part * len(frames)))
        return apply

    def lost(found, frames, n):
        del found[frames[n]]
        return found

    def several_lost(found, frames, n):
        gone = set(frames[n:n + 5])
        return [one for place, one in enumerate(found) if place not in gone]

    def twice(found, frames, n):
        found.insert(frames[n], found[frames[n]])
        return found

    def swapped(apart):
        """Exchanges the bytes of two frames; the times stay in order."""
        def change(found, frames, n):
            first, other = frames[n], frames[n + apart]
            one, two = found[first][1], found[other][1]
            if len(one) != len(two):
                head = 28
                size_one, size_two = struct.unpack_from(">I", one, 20)[0], struct.unpack_from(">I", two, 20)[0]
                found[first] = (PACKET, packet(one[8:20], two[head:head + size_two]))
                found[other] = (PACKET, packet(two[8:20], one[head:head + size_one]))
            else:
                found[first], found[other] = (PACKET, one[:20] + two[20:]), (PACKET, two[:20] + one[20:])
            return found
        return change

    def cut(found, frames, n):
        block = found[frames[n]][1]
        size, original = struct.unpack_from(">II", block, 20)
        found[frames[n]] = (PACKET, packet(block[8:20], block[28:28 + min(size, 60)], original))
        return found

    def spoiled(found, frames, n):
        block = bytearray(found[frames[n]][1])
        block[28 + struct.unpack_from(">I", block, 20)[0] - 6] ^= 1
        found[frames[n]] = (PACKET, bytes(block))
        return found

    kinds = [("a frame is lost", lost), ("five frames are lost", several_lost), ("a frame comes twice", twice),
             ("two frames change places", swapped(1)), ("frames three apart change places", swapped(3)),
             ("a frame is cut at 60 bytes", cut), ("a byte of a frame is spoiled", spoiled)]
    return [(f"{name}, {words} of the capture", at(part, change)) for name, change in kinds
            for words, part in (("a quarter", 0.25), ("half", 0.5), ("three quarters", 0.75))]


def packet(head, data, original=None):
    padded = data + bytes(-len(data) % 4)
    size = 32 + len(padded)
    sizes = struct.pack(">II", len(data), len(data) if original is None else original)
    return struct.pack(">II", PACKET, size) + head + sizes + padded + struct.pack(">I", size)


def changed(raw, change):
    found = blocks(raw)
    frames = [place for place, (kind, _) in enumerate(found) if kind == PACKET]
    return b"".join(block for _, block in change(found, frames))
