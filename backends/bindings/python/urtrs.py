"""Block devices of an RNBD server: `pydoc urtrs`, docs/c_interface.md.

    with urtrs.Session("backup", ["10.0.0.1", "10.0.1.1"]) as session:
        with session.open("disk0", read_only=True) as device:
            first = device.read(4096, 0)

The module calls liburtrs-c through ctypes and needs nothing else. The module does not copy data: read_into() fills any
writable buffer, and write() takes any buffer (bytes, bytearray, memoryview, array, mmap, NumPy). Offsets and lengths are in
bytes and must be multiples of the device's block size.

Errors are OSError with the library's errno, or its subclass, such as FileNotFoundError, PermissionError or TimeoutError.
A call without a timeout (in seconds) waits until the server answers. Without a connected path the call fails after
queue_timeout; so does a call on a device that the server refuses to reopen, for example because its file does not exist yet.
Ctrl-C ends a call at any time. After a timeout or Ctrl-C, the server may still execute the request, and the buffer stays in
use until the server has answered or the session is closed.

Several threads may use one session. Each thread waits for its own request, and the requests run concurrently.

A session or device dropped without close() or `with` is closed, with a ResourceWarning. Do not use a session after fork().
"""
import collections
import contextlib
import ctypes
import errno as _errno
import os
import select
import threading
import time
import warnings

import _urtrs_c as _c

__all__ = ["Device", "DeviceInfo", "PathStatus", "Session", "Stats", "version"]


def version():
    """Version of the library, such as "0.1.0"."""
    return _c.version().decode()


def _text(value):
    """Encodes text for the library. Rejects NUL, because it would end the C string early."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"embedded NUL in {value!r}")
    return text


def _milliseconds(seconds):
    return int(1000 * max(0, min(seconds, 2 ** 31 // 1000)))


def _unsigned(value, bits=64):  # ctypes would silently truncate a value that does not fit
    if not 0 <= value < 1 << bits:
        raise OverflowError(f"{value} is given where 0 to {(1 << bits) - 1} is possible")
    return value


def _error(code, what):
    return OSError(-code, f"{what}: {_c.strerror(code).decode()}")


class _Values:
    """Copies the members of a ctypes structure to attributes of the same names."""

    def __init__(self, structure):
        for name, *_ in structure._fields_:
            value = getattr(structure, name)
            setattr(self, name, value.decode() if isinstance(value, bytes) else value)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class DeviceInfo(_Values):
    """Attributes: size, block_size, physical_block_size, max_io_size, discard_granularity, is_open, writable, can_discard, can_zero,
    write_cache and error, as in struct urtrs_device_info of urtrs.h."""


class Stats(_Values):
    """Attributes: reads, writes, read_bytes, write_bytes, errors, failovers, under_way, paths, connected_paths and devices, as in
    struct urtrs_stats of urtrs.h."""


class PathStatus(_Values):
    """Attributes: source, destination, state, reason, port, attempt, in_flight, requests, reconnects, last_cause; see struct urtrs_path."""

    def _words(self):
        path = f"{self.source}@{self.destination}" if self.source else self.destination
        cause = f", the last with {self.last_cause}" if self.last_cause != "none" else ""
        return f"{path}: {self.state if self.reason == 'none' else self.reason}{cause}"


class _Closing(contextlib.AbstractContextManager):
    def __exit__(self, *_):
        self.close()


class _Request:
    """A pending request, and the buffer that it reads or fills. `result`: None while pending, then 0 or a negative errno."""

    def __init__(self, *owner, flags=0):
        self.buffer, self.result = None, None
        if owner:
            self.buffer = _c.PyBuffer()
            _c.get_buffer(*owner, self.buffer, flags)

    def release(self):
        if self.buffer is not None:
            _c.release_buffer(self.buffer)
            self.buffer = None


def _finisher(requests):
    """Returns the completion callback, run by poll() with the lock held. It must not refer to the session: that would be a cycle."""
    def finish(key, code):
        request = requests.pop(key, None)
        if request is not None:
            request.result = code
            request.release()
    return _c.Callback(finish)


class Session(_Closing):
    """A session with one server. `paths`: one address or several, such as "10.0.0.1" or "SOURCE@DESTINATION". `settings`: those of
    urtrs_session_set(), such as queue_timeout="5s". Connects in the background; open() waits until a path is connected."""

    def __init__(self, name, paths, port=1234, **settings):
        self._lock = threading.Lock()  # held during every call into the library
        self._turn = threading.Condition(self._lock)
        self._requests, self._last, self._sleeping = {}, 0, False
        self._closing, self._wake, self._abandoned = False, None, collections.deque()  # devices dropped without close()
        self._on_done = _finisher(self._requests)
        self._name, self._handle = name, ctypes.c_void_p()
        code = _c.new(_text(name), ctypes.byref(self._handle))
        if code:
            raise _error(code, f"a session cannot have the name {name!r}")
        try:
            for setting, value in settings.items():
                if value is not None:
                    if not isinstance(value, (str, bytes, os.PathLike)):
                        value = str(int(value) if isinstance(value, bool) else value)
                    self._check(_c.set_setting(self._handle, _text(setting), _text(value)))
            for path in [paths] if isinstance(paths, str) else paths:
                self._add_path(path, port)
            self._check(_c.open_session(self._handle))
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except BaseException:
            self._release()
            raise

    def __del__(self, _warn=warnings.warn):
        if getattr(self, "_handle", None):
            self._release()
            _warn(f"unclosed session {self._name!r}", ResourceWarning, source=self)

    def _release(self):
        _c.free(self._handle)
        self._handle = None
        for request in self._requests.values():
            request.release()
        self._requests.clear()
        if self._wake is not None:
            os.close(self._wake)
            self._wake = None

    def _check(self, code):
        if code < 0:
            raise OSError(-code, os.fsdecode(_c.message(self._handle)) or _c.strerror(code).decode())

    def _failed(self, code, what):
        """Returns the exception for an error. If no path is connected, its text lists the error of each path. The caller holds the lock."""
        error = _error(code, what)
        paths = self._list_paths() if code in (-_errno.EIO, -_errno.ETIMEDOUT) else []
        if not paths or any(path.state == "connected" for path in paths):
            return error
        return OSError(-code, f"{error.strerror} ({', '.join(path._words() for path in paths)})")

    def _add_path(self, path, port):
        source, at, destination = path.rpartition("@")
        if at and not source:
            raise OSError(_errno.EINVAL, f"path {path!r}: the source is empty")
        self._check(_c.add_path(self._handle, _text(source) or None, _text(destination), _unsigned(port, 16)))

    def _abandon(self, handle):
        """Closes a dropped device later if the lock is taken: a finalizer may run at any time, even while this thread holds the lock."""
        self._abandoned.append(handle)
        if self._lock.acquire(blocking=False):
            try:
                self._close_abandoned()
            finally:
                self._lock.release()

    def _close_abandoned(self):
        while self._abandoned and self._handle:
            _c.device_close(self._abandoned.popleft(), 0)
            self._tell_others()

    def _begin(self, function, request):
        """Starts a request with function(callback, user) and returns its error code. The caller holds the lock."""
        if not self._handle:
            request.release()
            raise _error(-_errno.ESHUTDOWN, "the session is closed")
        self._close_abandoned()
        self._last += 1
        key = self._last
        self._requests[key] = request
        code = None
        try:
            code = function(self._on_done, key)
        finally:
            if code != 0:
                del self._requests[key]
                request.release()
        return code

    def _run(self, what, function, request, timeout):
        """Starts a request and waits for its result. One thread sleeps on the library's descriptor; the others wait for that thread."""
        end = None if timeout is None else time.monotonic() + min(timeout, 10 ** 8)
        with self._turn:
            self._check(self._begin(function, request))
            self._go_on()
            while request.result is None:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise self._failed(-_errno.ETIMEDOUT, what)
                if self._sleeping or self._closing:
                    self._turn.wait(left)
                else:
                    self._sleep(left)
            if request.result:
                raise self._failed(request.result, what)

    def _go_on(self):
        _c.poll(self._handle)
        self._tell_others()

    def _tell_others(self):
        """Wakes all waiting threads so that they check their requests. The thread in _sleep() also computes a new timeout."""
        self._turn.notify_all()
        if self._sleeping:
            os.eventfd_write(self._wake, 1)

    def _sleep(self, left):
        wait = _c.prepare(self._handle)
        if left is not None and (wait < 0 or wait > left * 1000):
            wait = min(left * 1000, 60_000)
        self._sleeping = True
        self._lock.release()
        try:
            poller = select.poll()
            poller.register(_c.fd(self._handle), select.POLLIN)
            poller.register(self._wake, select.POLLIN)
            poller.poll(None if wait < 0 else wait)
        finally:
            self._lock.acquire()
            self._sleeping = False
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            # Another waiting thread takes over the sleep on the descriptor.
            self._turn.notify_all()
        _c.poll(self._handle)

    def open(self, device, read_only=False, migration=False, timeout=None):
        """Opens a device and returns a Device. `device`: its name on the server. `timeout`: seconds; None: only queue_timeout."""
        handle, name = ctypes.c_void_p(), _text(device)
        flags = (_c.READ_ONLY if read_only else 0) | (_c.MIGRATION if migration else 0)
        try:
            self._run(device, lambda done, user: _c.device_open(self._handle, name, flags, done, user, ctypes.byref(handle)),
                      _Request(), timeout)
        except BaseException:
            if handle:
                self._abandon(handle)
            raise
        return Device(self, device, handle)

    def _list_paths(self):
        found, path = [], _c.Path()
        while self._handle and _c.get_path(self._handle, len(found), path, ctypes.sizeof(path)) == 0:
            found.append(PathStatus(path))
        return found

    def paths(self):
        """Returns a list with a PathStatus for each path; empty if the session is closed."""
        with self._lock:
            return self._list_paths()

    def stats(self):
        """Returns the counters of the session as Stats."""
        stats = _c.Stats()
        with self._lock:
            if not self._handle:
                raise _error(-_errno.ESHUTDOWN, "the session is closed")
            self._close_abandoned()
            self._check(_c.get_stats(self._handle, stats, ctypes.sizeof(stats)))
        return Stats(stats)

    def add_path(self, path, port=1234):
        """Adds a path and starts to connect it. IO on the other paths continues."""
        with self._lock:
            if not self._handle:
                raise _error(-_errno.ESHUTDOWN, "the session is closed")
            self._add_path(path, port)
            self._go_on()

    def close(self, timeout=30):
        """Waits up to `timeout` seconds for requests in flight and disconnects. Requests that are still pending then fail."""
        milliseconds = _milliseconds(timeout)
        with self._turn:
            self._closing = True
            while self._sleeping:  # the sleeping thread uses descriptors that _release() closes
                os.eventfd_write(self._wake, 1)
                self._turn.wait()
            if self._handle:
                _c.close(self._handle, milliseconds)
                self._release()
            self._turn.notify_all()


class Device(_Closing):
    """An open device, returned by Session.open()."""

    def __init__(self, session, name, handle):
        self.name, self._session, self._handle = name, session, handle

    def __del__(self, _warn=warnings.warn):
        handle, self._handle = self._handle, None
        if handle and self._session._handle:
            self._session._abandon(handle)
            _warn(f"unclosed device {self.name!r}", ResourceWarning, source=self)

    @property
    def size(self):
        """Size in bytes. A resize on the server may change it while the device is open."""
        return self.info.size

    @property
    def info(self):
        """Current properties and state of the device, a DeviceInfo."""
        info = _c.Info()
        with self._session._lock:
            self._require_open()
            _c.device_info(self._handle, info, ctypes.sizeof(info))
        return DeviceInfo(info)

    def _require_open(self):
        if not self._handle or not self._session._handle:
            raise _error(-_errno.ENODEV, f"{self.name} is closed")

    def _run(self, what, function, request, timeout):
        def begin(done, user):
            self._require_open()
            return function(done, user)
        self._session._run(f"{self.name}: {what}", begin, request, timeout)

    def read_into(self, buffer, offset, timeout=None):
        """Reads from `offset` until the buffer is full. The buffer must be writable and contiguous."""
        at = (request := _Request(buffer, flags=1)).buffer  # PyBUF_WRITABLE
        self._run(f"read {at.len} bytes at {offset}",
                  lambda done, user: _c.read(self._handle, at.buf, at.len, _unsigned(offset), done, user), request, timeout)

    def read(self, length, offset, timeout=None):
        """Returns `length` bytes at `offset` as a bytearray."""
        if _unsigned(length) and self._session._handle and length > (size := self.size):
            raise OSError(_errno.EINVAL, f"{self.name}: read: {length} bytes are requested, but the device has {size}")
        data = bytearray(length)
        self.read_into(data, offset, timeout)
        return data

    def write(self, buffer, offset, fua=False, timeout=None):
        """Writes the whole buffer at `offset`. With `fua` the data is durable on return, otherwise after the next flush()."""
        at = (request := _Request(buffer)).buffer
        self._run(f"write {at.len} bytes at {offset}",
                  lambda done, user: _c.write(self._handle, at.buf, at.len, _unsigned(offset), _c.FUA if fua else 0, done, user), request,
                  timeout)

    def flush(self, timeout=None):
        """Makes all writes durable that completed before this call."""
        self._run("flush", lambda done, user: _c.flush(self._handle, done, user), _Request(), timeout)

    def discard(self, length, offset, fua=False, timeout=None):
        """Discards blocks that are no longer needed; their content is undefined afterwards."""
        flags = _c.FUA if fua else 0
        self._run(f"discard {length} bytes at {offset}",
                  lambda done, user: _c.discard(self._handle, _unsigned(length), _unsigned(offset), flags, done, user), _Request(), timeout)

    def zero(self, length, offset, fua=False, unmap=True, timeout=None):
        """Makes blocks read as zeros; with unmap=False they stay allocated."""
        flags = (_c.FUA if fua else 0) | (0 if unmap else _c.NO_UNMAP)
        self._run(f"zero {length} bytes at {offset}",
                  lambda done, user: _c.zero(self._handle, _unsigned(length), _unsigned(offset), flags, done, user), _Request(), timeout)

    def close(self, timeout=30):
        """Waits up to `timeout` seconds for requests that the server is executing, then closes the device."""
        session, milliseconds = self._session, _milliseconds(timeout)
        with session._turn:
            handle, self._handle = self._handle, None
            if handle and session._handle:
                _c.device_close(handle, milliseconds)
                session._tell_others()
