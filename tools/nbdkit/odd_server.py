"""A server that accepts every session, opens every device, and then violates the protocol. It uses RTRS with the framing of the
fabric tcp (docs/iwarp.md, docs/protocol.md)."""
import contextlib
import errno
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "urtrsd"))
from iwarp_client import IMMEDIATE, OWN_FIELD, S_FLAG, SEND, SEND_IMMEDIATE, tagged, untagged  # pylint: disable=wrong-import-position
from wire_client import exact  # pylint: disable=wrong-import-position

DEPTH, CHUNK, BASE, KEY = 64, 131072, 0x700000000000, 1000
SECTORS = 8192
IO_RSP, HB_MSG, HB_ACK = 1, 0x80000000, 0x90000000
SESS_INFO, OPEN, CLOSE, IO = 0, 2, 5, 4


class OddServer:
    """`on_open` and `on_io` select the behaviour: "answer" or "silent"; `on_io` also "close" (close the connection), "no_data" (a successful
    response without the data) and "unsupported" (EOPNOTSUPP)."""

    def __init__(self, on_open="answer", on_io="answer", physical_block_size=512):
        self.ways = {OPEN: on_open, IO: on_io}
        self.physical_block_size = physical_block_size
        self.requests = 0  # number of IO requests
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.sockets.append(sock)
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def end(self):
        self.listener.close()
        for sock in self.sockets:
            sock.close()

    def serve(self, sock):
        with contextlib.suppress(OSError, EOFError, struct.error):
            Connection(self, sock).run()
        sock.close()


class Connection:
    """One connection of a path."""

    def __init__(self, server, sock):
        self.server, self.sock, self.number = server, sock, 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def untagged(self, opcode, payload, field=0):
        self.number += 1
        self.sock.sendall(untagged(opcode, self.number, payload, field))

    def immediate(self, value):
        self.untagged(IMMEDIATE, struct.pack(">I4x", value))

    def fpdu(self):
        size = struct.unpack(">H", exact(self.sock, 2))[0]
        return exact(self.sock, size + (-(size + 2) % 4) + 4)[:size]

    def run(self):
        head = exact(self.sock, 20)
        assert head[:16] == b"MPA ID Req Frame", head
        private = exact(self.sock, struct.unpack(">H", head[18:20])[0])
        con = struct.unpack_from("<H", private, 4 + len(OWN_FIELD) + 6)[0]
        accepted = struct.pack("<HHHHIII36x", 0x1bbd, 0x200, 0, DEPTH, CHUNK - 4096, 4096, 0)
        answer = struct.pack(">HH", 0x8001, 0x8001) + OWN_FIELD + accepted
        self.sock.sendall(b"MPA ID Rep Frame" + struct.pack(">BBH", S_FLAG, 2, len(answer)) + answer)
        memory = bytearray()
        while True:
            body = self.fpdu()
            if body[0] & 0x80:
                memory += body[14:]
                continue
            opcode = body[1] & 15
            if opcode == SEND and con == 0:
                chunks = b"".join(struct.pack("<QII", BASE + at * CHUNK, KEY + at, CHUNK) for at in range(DEPTH))
                self.untagged(SEND, struct.pack("<HHI", 1, DEPTH, 0) + chunks)
            elif opcode in (IMMEDIATE, SEND_IMMEDIATE):
                value = struct.unpack_from(">I", body, 18 if opcode == IMMEDIATE else 2)[0]
                if value == HB_MSG:
                    self.immediate(HB_ACK)
                elif value >> 28 == 0:
                    request, memory = bytes(memory), bytearray()
                    self.request(value >> 22, request)

    def request(self, chunk, blob):
        """Handles a request. `blob`: for a write its data, then user header and RTRS header."""
        read = len(blob) >= 24 and struct.unpack_from("<H", blob, len(blob) - 24)[0] & 0xff == 3
        header = len(blob) - (24 if read else 4)
        size = struct.unpack_from("<H", blob, header + 2)[0]
        user = blob[header - size:header]
        address, key, length = struct.unpack_from("<QII", blob, header + 8) if read else (0, 0, 0)
        kind = struct.unpack_from("<H", user)[0]
        way = self.server.ways.get(kind, "answer")
        self.server.requests += kind == IO
        if way == "silent":
            return
        if way == "close":
            raise EOFError
        if way == "unsupported":
            self.immediate(IO_RSP << 28 | errno.EOPNOTSUPP << 19 | chunk)
            return
        data = {SESS_INFO: struct.pack("<HHB31x", 1, 0, 2),
                OPEN: struct.pack("<IIQIIIIIHHHHBB10x", 3, user[6], SECTORS, 256, 0, 0, 0, 0, self.server.physical_block_size, 512,
                                  128, 0, 0, 3)}.get(kind, bytes(length))
        if read and way != "no_data":
            for at in range(0, min(length, len(data)), 32768):
                part = data[at:min(length, at + 32768)]
                self.sock.sendall(tagged(key, address + at, part, at + len(part) >= min(length, len(data))))
        self.immediate(IO_RSP << 28 | chunk)
