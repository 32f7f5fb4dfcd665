"""Test client for urtrsd: RTRS and RNBD with the framing of libfabric's provider tcp, on plain sockets. The client can open
many devices and returns every errno."""
import os
import socket
import struct

MSG, WRITE = 0, 4  # frame opcodes
HAS_IMMEDIATE = 1
HB_MSG, HB_ACK = 8 << 28, 9 << 28


def exact(sock, size):
    data = b""
    while len(data) < size:
        got = sock.recv(size - len(data))
        if not got:
            raise ConnectionResetError(f"closed after {len(data)} of {size} bytes")
        data += got
    return data


class Refused(ConnectionRefusedError):
    """The server rejected the connection. `errno`: errno of the rejection; None if the rejection has no errno."""

    def __init__(self, error):
        super().__init__(error, f"refused with errno {error}")


def cm_header(size):
    return struct.pack("<BB", 3, 0) + struct.pack(">H", size) + struct.pack("<IQQQ", 0, 0, 0, 1)


def connect_request(con, connections, session, paths):
    return struct.pack("<BBHHHHH16s16sBB10s", 0, 0, 0x1bbd, 0x0200, con, connections, 1, session, paths, 1, 0, b"")


def connect(port, request, timeout):
    """Connects. Returns (socket, reply)."""
    sock = socket.create_connection(("127.0.0.1", port), timeout)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(cm_header(len(request)) + request)
        head = exact(sock, 32)
        answer = exact(sock, struct.unpack(">H", head[2:4])[0])
        if head[1] != 1:
            raise Refused(-struct.unpack_from("<h", answer, 4)[0] if len(answer) >= 6 else None)
    except BaseException:
        sock.close()
        raise
    return sock, answer


class Client:
    """A session with one path. Raises OSError if the server rejects it."""

    def __init__(self, port, name=None, timeout=60, connections=2):
        self.sockets, self.chunks = [], []
        session, paths = os.urandom(16), os.urandom(16)
        try:
            for con in range(connections):
                sock, answer = connect(port, connect_request(con, connections, session, paths), timeout)
                self.sockets.append(sock)
                if con == 0:
                    self.depth, max_io, max_header = struct.unpack_from("<HII", answer, 6)
            self.send_info(name or os.urandom(8).hex(), max_io + max_header)
        except BaseException:
            self.close()
            raise

    def send_info(self, name, chunk_size):
        message = struct.pack("<H", 0) + name.encode().ljust(255, b"\0") + bytes(15)
        self.sockets[0].sendall(struct.pack("<BBHBBBBQ", 3, MSG, 0, 0, 0, 16, 0, 16 + len(message)) + message)
        _, answer = self.receive(0)
        for at in range(struct.unpack_from("<H", answer, 2)[0]):
            address, key, length = struct.unpack_from("<QII", answer, 8 + 16 * at)
            self.chunks += [[address + start, key] for start in range(0, length, chunk_size)]

    def receive(self, con):
        """Returns (immediate or None, bytes) of the next frame."""
        head = struct.unpack("<BBHBBBBQ", exact(self.sockets[con], 16))
        rest = exact(self.sockets[con], head[5] - 16)
        body = exact(self.sockets[con], head[7] - head[5])
        return struct.unpack_from("<Q", rest)[0] & 0xffffffff if head[2] & HAS_IMMEDIATE else None, body

    def write(self, con, address, key, immediate, payload):
        self.sockets[con].sendall(struct.pack("<BBHBBBBQ", 3, WRITE, HAS_IMMEDIATE, 0, 1, 48, 0, 48 + len(payload)) +
                                  struct.pack("<QQQQ", immediate, address, len(payload), key) + payload)

    def send(self, user, data=b"", read=0, chunk=0):
        """Sends a request; read_answer() returns its response."""
        address, key = self.chunks[chunk]
        if read:
            message = user + struct.pack("<HHHHQII", 3, len(user), 0, 1, 0, 0x1234, read)
        else:
            message = data + user + struct.pack("<HH", 2, len(user))
        start = read or 0
        offset = start + len(user) if read else len(data) + len(user)
        self.write(1, address + start, key, (chunk << 28 - (self.depth - 1).bit_length()) + offset, message)

    def read_answer(self):
        """Returns (chunk, errno, data read) of the next response."""
        got = b""
        while True:
            immediate, body = self.receive(1)
            if immediate is None:
                got += body
            elif immediate == HB_MSG:
                self.write(1, 0, 0, HB_ACK, b"")
            elif immediate >> 28 in (1, 2):
                chunk = immediate & 0x7ffff
                if len(body) == 8:
                    self.chunks[chunk][1] = struct.unpack_from("<I", body, 4)[0]
                return chunk, immediate >> 19 & 0x1ff, got

    def call(self, user, data=b"", read=0):
        """Sends a request in chunk 0. Returns (errno, data read). Drops responses for other chunks."""
        self.send(user, data, read)
        while True:
            chunk, error, got = self.read_answer()
            if chunk == 0:
                return error, got

    @staticmethod
    def open_message(name, writable=True):
        return struct.pack("<HHBB255s3s", 2, 0, 1 if writable else 0, 0, name.encode().ljust(255, b"\0"), b"")

    def open(self, name, writable=True):
        """Returns (errno, device id)."""
        error, answer = self.call(self.open_message(name, writable), read=56)
        return (error, None) if error else (0, struct.unpack_from("<I", answer, 4)[0])

    def send_open(self, name, writable, chunk):
        self.send(self.open_message(name, writable), read=56, chunk=chunk)

    def close_device(self, device):
        """Returns an errno; 0: success."""
        return self.call(struct.pack("<HHI", 5, 0, device))[0]

    def write_device(self, device, sector, data):
        """Returns an errno; 0: success."""
        return self.call(struct.pack("<HHIQIIH6s", 4, 0, device, sector, 1, len(data), 0, b""), data)[0]

    def read_device(self, device, sector, size):
        """Returns (errno, data)."""
        return self.call(struct.pack("<HHIQIIH6s", 4, 0, device, sector, 0, size, 0, b""), read=size)

    def send_read(self, device, sector, size, chunk):
        self.send(struct.pack("<HHIQIIH6s", 4, 0, device, sector, 0, size, 0, b""), read=size, chunk=chunk)

    def send_write(self, device, sector, data, chunk):
        self.send(struct.pack("<HHIQIIH6s", 4, 0, device, sector, 1, len(data), 0, b""), data, chunk=chunk)

    def discard_device(self, device, sector, size):
        """Returns an errno; 0: success."""
        return self.call(struct.pack("<HHIQIIH6s", 4, 0, device, sector, 3, size, 0, b""))[0]

    def flush_device(self, device):
        """Returns an errno; 0: success."""
        return self.call(struct.pack("<HHIQIIH6s", 4, 0, device, 0, 2, 0, 0, b""))[0]

    def beat(self):
        """Sends a heartbeat and waits for the acknowledgement."""
        self.write(0, 0, 0, HB_MSG, b"")
        while self.receive(0)[0] != HB_ACK:
            pass

    def close(self):
        for sock in self.sockets:
            sock.close()
