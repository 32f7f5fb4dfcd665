"""The client of wire_client.py with the framing of the fabric tcp: iWARP (docs/iwarp.md) on plain sockets, without CRC.
Tests can send wrong values in every field."""
import os
import socket
import struct

from wire_client import Client, Refused, connect_request, exact

WRITE, SEND, SEND_INVALIDATE, SEND_IMMEDIATE, TERMINATE, IMMEDIATE = 0, 3, 4, 5, 7, 8
S_FLAG, REJECT = 0x10, 0x20
OWN_FIELD = b"uRTR" + bytes((1, 1, 0, 0))  # magic; version 1; flag: SENDs carry immediate data


def fpdu(ulpdu):
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    return body + bytes(-len(body) % 4) + bytes(4)


def tagged(key, offset, payload, last=True, opcode=WRITE):
    return fpdu(struct.pack(">BBIQ", 0xc1 if last else 0x81, 0x40 | opcode, key, offset) + payload)


def untagged(opcode, number, payload=b"", field=0, queue=0, offset=0):
    return fpdu(struct.pack(">BBIIII", 0x41, 0x40 | opcode, field, queue, number, offset) + payload)


def request_frame(data, flags=S_FLAG, revision=2, length=None):
    private = struct.pack(">HH", 0x8001, 0x8001) + OWN_FIELD + data
    return b"MPA ID Req Frame" + struct.pack(">BBH", flags, revision, len(private) if length is None else length) + private


def read_reply(sock):
    head = exact(sock, 20)
    assert head[:16] == b"MPA ID Rep Frame", head
    flags, _, size = struct.unpack(">BBH", head[16:])
    private = exact(sock, size)
    answer = private[12:]
    if flags & REJECT:
        raise Refused(-struct.unpack_from("<h", answer, 4)[0] if len(answer) >= 6 else None)
    return answer


def iwarp_connect(port, request, timeout, wrap=None, source=""):
    """Connects. Returns (socket, reply); messages may follow at once. `wrap`: for TLS, from tls_scene.wrap_with()."""
    sock = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
    try:
        sock = wrap(sock) if wrap else sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(request_frame(request))
        answer = read_reply(sock)
        sock.sendall(tagged(0, 0, b""))
    except BaseException:
        sock.close()
        raise
    return sock, answer


class IwarpClient(Client):
    """A session with one path. Raises OSError if the server rejects it."""

    def __init__(self, port, name=None, timeout=60, connections=2, wrap=None, paths=None, source=""):
        self.sockets, self.chunks, self.numbers = [], [], []
        session, self.paths = os.urandom(16), paths or os.urandom(16)
        try:
            for con in range(connections):
                sock, answer = iwarp_connect(port, connect_request(con, connections, session, self.paths), timeout,
                                             wrap, source)
                self.sockets.append(sock)
                self.numbers.append(1)
                if con == 0:
                    self.depth, max_io, max_header = struct.unpack_from("<HII", answer, 6)
            self.send_info(name or os.urandom(8).hex(), max_io + max_header)
        except BaseException:
            self.close()
            raise

    def next_number(self, con):
        self.numbers[con] += 1
        return self.numbers[con] - 1

    def send_info(self, name, chunk_size):
        octets = name if isinstance(name, bytes) else name.encode()
        message = struct.pack("<H", 0) + octets.ljust(255, b"\0") + bytes(15)
        self.sockets[0].sendall(untagged(SEND, self.next_number(0), message))
        _, answer = self.receive(0)
        for at in range(struct.unpack_from("<H", answer, 2)[0]):
            address, key, length = struct.unpack_from("<QII", answer, 8 + 16 * at)
            self.chunks += [[address + start, key] for start in range(0, length, chunk_size)]

    def receive(self, con):
        """Returns (immediate or None, bytes) of the next message. Skips empty writes."""
        data = b""
        while True:
            size = struct.unpack(">H", exact(self.sockets[con], 2))[0]
            body = exact(self.sockets[con], size + (-(size + 2) % 4) + 4)[:size]
            control, opcode = body[0], body[1] & 15
            if control & 0x80:
                data += body[14:]
                if control & 0x40 and data:
                    return None, data
            elif opcode == IMMEDIATE:
                return struct.unpack_from(">I", body, 18)[0], b""
            elif opcode == TERMINATE:
                raise ConnectionResetError(f"terminated: {body[18:22].hex()}")
            else:
                data += body[18:]
                if control & 0x40:
                    return struct.unpack_from(">I", body, 2)[0] if opcode == SEND_IMMEDIATE else None, data

    def write(self, con, address, key, immediate, payload):
        data = tagged(key, address, payload) if payload else b""
        self.sockets[con].sendall(data + untagged(IMMEDIATE, self.next_number(con), struct.pack(">I4x", immediate)))
