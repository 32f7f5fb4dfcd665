#!/usr/bin/env python3
"""Relays TCP from ADDRESS:PORT to TARGET:PORT, so that a path can be cut by stopping this process."""
import selectors
import socket
import sys


def main() -> int:
    if len(sys.argv) != 4:
        print("usage: demo_relay.py ADDRESS TARGET PORT", file=sys.stderr)
        return 2
    address, target, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    selector = selectors.DefaultSelector()
    listener = socket.create_server((address, port))
    print("listening", flush=True)
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                accept(selector, listener, target, port)
            else:
                forward(selector, key.fileobj, key.data)


def accept(selector, listener, target, port) -> None:
    incoming, _ = listener.accept()
    try:
        outgoing = socket.create_connection((target, port))
    except OSError:
        incoming.close()
        return
    for one, other in ((incoming, outgoing), (outgoing, incoming)):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(one, selectors.EVENT_READ, other)


def forward(selector, source, sink) -> None:
    try:
        data = source.recv(262144)
        if data:
            sink.sendall(data)
            return
    except OSError:
        pass
    for end in (source, sink):
        try:
            selector.unregister(end)
        except (KeyError, ValueError):
            pass
        end.close()


if __name__ == "__main__":
    sys.exit(main())
