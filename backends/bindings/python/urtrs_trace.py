"""Reads traces of urtrs (.rtrc), in pure Python:

    with urtrs_trace.Trace("run.rtrc") as trace:
        print(trace.header["role"])
        for record in trace:
            print(record["seq"], record["time"], record["event"], record["fields"])

Header and records are the objects that `urtrs-replay cat --json` prints. The events and their fields come from the header of the
file (docs/trace_format.md), so traces of later versions can be read. Damage raises TraceError after the records before it. The
chain hash is not checked.
"""
import io
import json
import struct
import sys

MAGIC, END_MAGIC = b"\x89RTRC\r\n\x1a", b"RTRCEND\n"
MAX_HEADER, MAX_BLOCK = 262144, 65536
TYPES = ("", "unsigned", "signed", "boolean", "enum", "uuid", "bytes", "text")
CLASSES = ("control", "input", "action", "note")
WRONG_RECORD = "a record is malformed"


class TraceError(Exception):
    """The file is no trace, of another version, or damaged."""


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class _Bytes:
    """Takes elements from bytes of a file. Errors have the text `why`."""

    def __init__(self, data, why):
        self.data, self.at, self.why = data, 0, why

    def take(self, size):
        if size > len(self.data) - self.at:
            raise TraceError(self.why)
        self.at += size
        return self.data[self.at - size:self.at]

    def unsigned(self, size):
        return int.from_bytes(self.take(size), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if value >> 64 or (byte == 0 and shift):  # longer than 64 bits, or not the shortest form
            raise TraceError(self.why)
        return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def text(self):
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def is_empty(self):
        return self.at == len(self.data)


def _enums(value):
    enums = []
    for _ in range(value.varint()):
        name = value.text()
        enums.append({"name": name, "words": [[value.varint(), value.text()] for _ in range(value.varint())]})
    return enums


def _events(value):
    events = []
    for _ in range(value.varint()):
        number, category, name, fields = value.varint(), value.unsigned(1), value.text(), []
        for _ in range(value.varint()):
            field, kind, width = value.text(), value.unsigned(1), value.unsigned(1)
            if not 0 < kind < len(TYPES):
                raise TraceError("a field has an unknown type")
            fields.append({"name": field, "type": TYPES[kind], "width": width,
                           "enum": value.varint() if TYPES[kind] == "enum" else 0})
        events.append({"id": number, "class": CLASSES[category] if category < len(CLASSES) else category, "name": name,
                       "fields": fields})
    return events


def _header(major, minor, data):
    header = {"major": major, "minor": minor, "flags": 0, "tool": "", "role": "", "backend": "", "seed": 0, "options": [],
              "enums": [], "events": []}
    data = _Bytes(data, "the header is damaged")
    while not data.is_empty():
        tag = data.unsigned(2)
        value = _Bytes(data.take(data.unsigned(4)), data.why)
        if tag <= 3 or tag == 5:
            text = value.data.decode("utf-8", "surrogateescape")
            if tag == 5:
                header["options"].append(text)
            else:
                header[("tool", "role", "backend")[tag - 1]] = text
        elif tag == 4:
            header["seed"] = value.unsigned(8)
        elif tag == 6:
            header["flags"] = value.unsigned(4)
        elif tag == 7:
            header["enums"] = _enums(value)
        elif tag == 8:
            header["events"] = _events(value)
        elif tag == 9:
            header.update((name, time) for name in ("start", "taken", "wall") if (time := value.unsigned(8)))
    if not header["events"]:
        raise TraceError(data.why)
    for event in header["events"]:
        if any(field["enum"] >= len(header["enums"]) for field in event["fields"] if field["type"] == "enum"):
            raise TraceError(data.why)
    return header


def _value(field, words, data):
    kind = field["type"]
    if kind in ("uuid", "bytes"):
        return data.take(16 if kind == "uuid" else data.varint()).hex()
    if kind == "text":
        return data.text()
    number = data.zigzag() if kind == "signed" else data.varint()
    bits = 8 * field["width"]
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if kind == "signed" else (0, 1 if kind == "boolean" else (1 << bits) - 1)
    if not low <= number <= high:
        raise TraceError(WRONG_RECORD)
    if kind == "boolean":
        return number != 0
    return words[field["enum"]].get(number, number) if kind == "enum" else number


class Trace:
    """A trace. `file`: a path, or a binary file object. `header`: see the module. After the last record, `end` has the number of
    records and the chain hash."""

    def __init__(self, file):
        self._owned = not isinstance(file, io.IOBase)
        self._file = open(file, "rb") if self._owned else file
        self.end = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self):
        first = self._file.read(16)
        if first[:8] != MAGIC:
            raise TraceError("the file is not a trace")
        if len(first) < 16:
            raise TraceError("the file ends inside the header")
        major, minor, size = struct.unpack("<HHI", first[8:])
        if major != 1 or size > MAX_HEADER:
            raise TraceError(f"the format is version {major}.{minor}" if major != 1 else "the header is too long")
        self.header = _header(major, minor, self._checked(first, size)[16:])
        self._words = [dict((number, word) for number, word in info["words"]) for info in self.header["enums"]]
        self._events = {event["id"]: event for event in self.header["events"]}

    def close(self):
        if self._owned:
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _checked(self, first, size):
        """Returns `first` and the next `size` bytes, which a CRC follows."""
        data = self._file.read(size + 4)
        if len(data) < size + 4:
            raise TraceError("the file ends inside a block")
        data = first + data
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise TraceError("a checksum is wrong")
        return data[:-4]

    def __iter__(self):
        seq = time = 0
        while True:
            head = self._file.read(28)
            if not head:
                raise TraceError("the file ends without a trailer: the recording was not completed")
            if len(head) < 28:
                raise TraceError("the file ends inside the head of a block")
            tag, size, count, first, second = struct.unpack("<4sIIQQ", head)
            if (size > MAX_BLOCK or not count or (first, second) != (seq, time)) if tag == b"BLK1" else (tag == b"END1" and first != seq):
                raise TraceError("the head of a block is damaged")
            data = _Bytes(self._checked(head, size), WRONG_RECORD)
            data.take(28)
            if tag == b"BLK1":
                for _ in range(count):
                    record = self._record(data, seq, time)
                    seq, time = seq + 1, record["time"]
                    yield record
                if not data.is_empty():
                    raise TraceError("the block has more bytes than records")
            elif tag == b"END1":
                if self._file.read(17)[8:] != END_MAGIC:
                    raise TraceError("the trailer is damaged")
                self.end = {"records": seq, "chain_hash": f"{second:016x}"}
                return

    def _record(self, data, seq, time):
        event = self._events.get(data.varint())
        instance = data.varint()
        if event is None or instance > 0xFFFF:
            raise TraceError(WRONG_RECORD)
        time = (time + data.zigzag()) % (1 << 64)
        fields = {field["name"]: _value(field, self._words, data) for field in event["fields"]}
        return {"seq": seq, "time": time, "instance": instance, "event": event["name"], "fields": fields}


def main():
    """Prints what `urtrs-replay cat --json FILE` prints."""
    with Trace(sys.argv[1]) as trace:
        print(json.dumps({"trace": trace.header}))
        for record in trace:
            print(json.dumps(record))
        print(json.dumps({"end": trace.end}))


if __name__ == "__main__":
    main()
