"""Block devices of an RNBD server: `pydoc urtrs`, docs/c_interface.md.

    with urtrs.Session("backup", ["10.0.0.1", "10.0.1.1"]) as session:
        with session.open("disk0", read_only=True) as device:
            first = device.read(4096, 0)

It stands on liburtrs-c by ctypes alone. Data is not copied: read_into() fills any writable buffer, write() takes any buffer
(bytes, bytearray, memoryview, array, mmap, NumPy). Offsets and lengths are in bytes, whole blocks of the device.

Errors are OSError with the errno of the library, hence FileNotFoundError, PermissionError, TimeoutError where they fit.
Without a timeout a call takes as long as it takes; Ctrl-C ends it at any time. After a timeout or Ctrl-C a request may still
act, and its buffer stays in use until the server answered or the session is closed.

Several threads may use one session: each waits for its own request, and requests of all are under way together.
"""
import contextlib
import ctypes
import errno as _errno
import os
import select
import threading
import time

__all__ = ["Device", "DeviceInfo", "PathStatus", "Session", "Stats", "version"]

_READ_ONLY, _MIGRATION, _FUA, _NO_UNMAP = 1, 2, 1, 2

_lib = ctypes.CDLL(os.environ.get("URTRS_LIBRARY", "liburtrs-c.so.0"))
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


def _structure(name, *members):
    """Members as pairs of a type and names."""
    return type(name, (ctypes.Structure,), {"_fields_": [(one, kind) for kind, names in members for one in names.split()]})


_Info = _structure("_Info", (ctypes.c_uint64, "size"),
                   (ctypes.c_uint32, "block_size physical_block_size max_io_size discard_granularity"),
                   (ctypes.c_int, "is_open writable can_discard can_zero write_cache error"))
_Stats = _structure("_Stats", (ctypes.c_uint64, "reads writes read_bytes write_bytes errors failovers"),
                    (ctypes.c_uint32, "under_way paths connected_paths devices"))
_Path = _structure("_Path", (ctypes.c_char_p, "source destination state reason"), (ctypes.c_uint16, "port"),
                   (ctypes.c_uint32, "attempt in_flight"), (ctypes.c_uint64, "requests reconnects"))
# Py_buffer of the stable interface of CPython.
_PyBuffer = _structure("_PyBuffer", (ctypes.c_void_p, "buf obj"), (ctypes.c_ssize_t, "len itemsize"),
                       (ctypes.c_int, "readonly ndim"), (ctypes.c_void_p, "format shape strides suboffsets internal"))
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None


def _declare(name, *arguments, result=ctypes.c_int):
    function = getattr(_lib, name)
    function.argtypes, function.restype = arguments, result
    return function


_P, _S, _I, _U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
_version = _declare("urtrs_version", result=_S)
_strerror = _declare("urtrs_strerror", _I, result=_S)
_new = _declare("urtrs_session_new", _S, ctypes.POINTER(_P))
_set = _declare("urtrs_session_set", _P, _S, _S)
_add_path = _declare("urtrs_session_add_path", _P, _S, _S, ctypes.c_uint16)
_open = _declare("urtrs_session_open", _P)
_close = _declare("urtrs_session_close", _P, _I)
_free = _declare("urtrs_session_free", _P)
_message = _declare("urtrs_session_message", _P, result=_S)
_fd = _declare("urtrs_session_fd", _P)
_prepare = _declare("urtrs_session_prepare", _P)
_poll = _declare("urtrs_session_poll", _P)
_get_stats = _declare("urtrs_session_get_stats", _P, ctypes.POINTER(_Stats), ctypes.c_size_t)
_get_path = _declare("urtrs_session_get_path", _P, ctypes.c_uint32, ctypes.POINTER(_Path), ctypes.c_size_t)
_device_open = _declare("urtrs_device_open_async", _P, _S, _U, _Callback, _P, ctypes.POINTER(_P))
_device_close = _declare("urtrs_device_close", _P, _I)
_device_info = _declare("urtrs_device_get_info", _P, ctypes.POINTER(_Info), ctypes.c_size_t)
_read = _declare("urtrs_read_async", _P, _P, ctypes.c_size_t, ctypes.c_uint64, _Callback, _P)
_write = _declare("urtrs_write_async", _P, _P, ctypes.c_size_t, ctypes.c_uint64, _U, _Callback, _P)
_flush = _declare("urtrs_flush_async", _P, _Callback, _P)
_discard = _declare("urtrs_discard_async", _P, ctypes.c_uint64, ctypes.c_uint64, _U, _Callback, _P)
_zero = _declare("urtrs_zero_async", _P, ctypes.c_uint64, ctypes.c_uint64, _U, _Callback, _P)


def version():
    """Of the library, "0.1.0"."""
    return _version().decode()


def _unsigned(value, bits=64):  # ctypes would take what is left of one that does not fit
    if not 0 <= value < 1 << bits:
        raise OverflowError(f"{value} is given where 0 to {(1 << bits) - 1} is possible")
    return value


def _error(code, what):
    return OSError(-code, f"{what}: {_strerror(code).decode()}")


class _Values:
    """What a structure of the library says, as attributes."""

    def __init__(self, structure):
        for name, *_ in structure._fields_:
            value = getattr(structure, name)
            setattr(self, name, value.decode() if isinstance(value, bytes) else value)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class DeviceInfo(_Values):
    """size, block_size, physical_block_size, max_io_size, discard_granularity, is_open, writable, can_discard, can_zero,
    write_cache, error: as struct urtrs_device_info."""


class Stats(_Values):
    """reads, writes, read_bytes, write_bytes, errors, failovers, under_way, paths, connected_paths, devices: as struct
    urtrs_stats."""


class PathStatus(_Values):
    """source, destination, state, reason, port, attempt, in_flight, requests, reconnects: as struct urtrs_path."""


class _Request:
    """A call of the library under way, and the buffer that it uses."""

    def __init__(self, *owner, flags=0):
        self.buffer, self.result = None, None
        if owner:
            self.buffer = _PyBuffer()
            _get_buffer(*owner, self.buffer, flags)

    def release(self):
        if self.buffer is not None:
            _release_buffer(self.buffer)
            self.buffer = None


class Session:
    """A session with one server. `paths`: "10.0.0.1", "SOURCE@DESTINATION"; settings are those of urtrs_session_set(), such as
    queue_timeout_ms=5000. Connecting goes on by itself; open() of a device waits for it."""

    def __init__(self, name, paths, port=1234, **settings):
        self._lock = threading.Lock()  # around each call of the library
        self._turn = threading.Condition(self._lock)
        self._requests, self._last, self._sleeping = {}, 0, False
        self._closing, self._wake = False, None
        self._on_done = _Callback(self._finish)
        self._handle = _P()
        code = _new(os.fsencode(name), ctypes.byref(self._handle))
        if code:
            raise _error(code, f"a session cannot have the name {name!r}")
        try:
            for setting, value in settings.items():
                self._check(_set(self._handle, setting.encode(), str(int(value) if isinstance(value, bool) else value)
                                 .encode()))
            for path in [paths] if isinstance(paths, str) else paths:
                source, _, destination = path.rpartition("@")
                self._check(_add_path(self._handle, source.encode() or None, destination.encode(), _unsigned(port, 16)))
            self._check(_open(self._handle))
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except BaseException:
            self._release()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self._release()

    def _release(self):
        _free(self._handle)
        self._handle = None
        for request in self._requests.values():
            request.release()
        self._requests.clear()
        if self._wake is not None:
            os.close(self._wake)
            self._wake = None

    def _check(self, code):
        if code < 0:
            raise OSError(-code, _message(self._handle).decode() or _strerror(code).decode())

    def _finish(self, key, code):
        """Runs inside _poll(), that is with the lock."""
        request = self._requests.pop(key, None)
        if request is not None:
            request.result = code
            request.release()

    def _begin(self, function, request):
        """Calls function(callback, user) with the lock held."""
        if not self._handle:
            request.release()
            raise _error(-_errno.ESHUTDOWN, "the session is closed")
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
        """Begins a request and waits for it. One of the threads that wait sleeps for all of them."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._turn:
            code = self._begin(function, request)
            if code:
                raise _error(code, what)
            self._go_on()
            while request.result is None:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise _error(-_errno.ETIMEDOUT, what)
                if self._sleeping or self._closing:
                    self._turn.wait(left)
                else:
                    self._sleep(left)
        if request.result:
            raise _error(request.result, what)

    def _go_on(self):
        _poll(self._handle)
        self._tell_others()

    def _tell_others(self):
        """They look whether their request is done; who sleeps also for how long it may."""
        self._turn.notify_all()
        if self._sleeping:
            os.eventfd_write(self._wake, 1)

    def _sleep(self, left):
        wait = _prepare(self._handle)
        if left is not None and (wait < 0 or wait > left * 1000):
            wait = left * 1000
        self._sleeping = True
        self._lock.release()
        try:
            poller = select.poll()
            poller.register(_fd(self._handle), select.POLLIN)
            poller.register(self._wake, select.POLLIN)
            poller.poll(None if wait < 0 else wait)
        finally:
            self._lock.acquire()
            self._sleeping = False
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            # The next of them sleeps when this one is done.
            self._turn.notify_all()
        _poll(self._handle)

    def open(self, device, read_only=False, migration=False, timeout=None):
        """A Device of the server, by its name there."""
        handle, request = _P(), _Request()
        flags = (_READ_ONLY if read_only else 0) | (_MIGRATION if migration else 0)
        try:
            self._run(device, lambda done, user: _device_open(self._handle, os.fsencode(device), flags, done, user,
                                                              ctypes.byref(handle)), request, timeout)
        except BaseException as error:
            lost = ", ".join(f"{path.destination}: {path.reason}" for path in self.paths() if path.reason != "none")
            with self._lock:
                if handle and self._handle:
                    _device_close(handle, 0)
            if lost and isinstance(error, OSError):
                raise OSError(error.errno, f"{error.strerror} ({lost})") from None
            raise
        return Device(self, device, handle)

    def paths(self):
        """A PathStatus of each path; none of a session that is closed."""
        found, path = [], _Path()
        with self._lock:
            while self._handle and _get_path(self._handle, len(found), path, ctypes.sizeof(path)) == 0:
                found.append(PathStatus(path))
        return found

    def stats(self):
        """Stats of the session."""
        stats = _Stats()
        with self._lock:
            if not self._handle:
                raise _error(-_errno.ESHUTDOWN, "the session is closed")
            self._check(_get_stats(self._handle, stats, ctypes.sizeof(stats)))
        return Stats(stats)

    def add_path(self, path, port=1234):
        """One more path, while IO goes on."""
        source, _, destination = path.rpartition("@")
        with self._lock:
            if not self._handle:
                raise _error(-_errno.ESHUTDOWN, "the session is closed")
            self._check(_add_path(self._handle, source.encode() or None, destination.encode(), _unsigned(port, 16)))
            self._go_on()

    def close(self, timeout=30):
        """Waits up to `timeout` seconds for what is under way, and tells the server; what is left then fails."""
        with self._turn:
            self._closing = True
            while self._sleeping:  # it uses descriptors of the session
                os.eventfd_write(self._wake, 1)
                self._turn.wait()
            if self._handle:
                _close(self._handle, int(timeout * 1000))
                self._release()
            self._turn.notify_all()


class Device:
    """A device that is open: see Session.open()."""

    def __init__(self, session, name, handle):
        self.name, self._session, self._handle = name, session, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def size(self):
        """In bytes; it may change while the device is open."""
        return self.info.size

    @property
    def info(self):
        """A DeviceInfo, as it is now."""
        info = _Info()
        with self._session._lock:
            self._require_open()
            _device_info(self._handle, info, ctypes.sizeof(info))
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
        """Fills a writable buffer that is one piece of memory."""
        at = (request := _Request(buffer, flags=1)).buffer  # PyBUF_WRITABLE
        self._run(f"read {at.len} bytes at {offset}",
                  lambda done, user: _read(self._handle, at.buf, at.len, _unsigned(offset), done, user), request, timeout)

    def read(self, length, offset, timeout=None):
        """Those bytes, as a bytearray."""
        data = bytearray(length)
        self.read_into(data, offset, timeout)
        return data

    def write(self, buffer, offset, fua=False, timeout=None):
        """Writes a buffer; with `fua` it is durable afterwards, without it after the next flush()."""
        at = (request := _Request(buffer)).buffer
        self._run(f"write {at.len} bytes at {offset}",
                  lambda done, user: _write(self._handle, at.buf, at.len, _unsigned(offset), _FUA if fua else 0, done, user), request,
                  timeout)

    def flush(self, timeout=None):
        """What was written before is durable afterwards."""
        self._run("flush", lambda done, user: _flush(self._handle, done, user), _Request(), timeout)

    def discard(self, length, offset, fua=False, timeout=None):
        """The blocks are no longer needed; what they read as is the server's to choose."""
        self._run(f"discard {length} bytes at {offset}",
                  lambda done, user: _discard(self._handle, _unsigned(length), _unsigned(offset), _FUA if fua else 0, done, user), _Request(),
                  timeout)

    def zero(self, length, offset, fua=False, unmap=True, timeout=None):
        """The blocks read as zeroes; with unmap=False they stay allocated."""
        flags = (_FUA if fua else 0) | (0 if unmap else _NO_UNMAP)
        self._run(f"zero {length} bytes at {offset}",
                  lambda done, user: _zero(self._handle, _unsigned(length), _unsigned(offset), flags, done, user), _Request(), timeout)

    def close(self, timeout=30):
        """Lets what is at the server end."""
        session = self._session
        with session._turn:
            handle, self._handle = self._handle, None
            if handle and session._handle:
                _device_close(handle, int(timeout * 1000))
                session._tell_others()
