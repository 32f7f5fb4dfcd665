"""ctypes declarations of liburtrs-c (urtrs.h), used by the module urtrs."""
import ctypes
import os

READ_ONLY, MIGRATION, FUA, NO_UNMAP = 1, 2, 1, 2

lib = ctypes.CDLL(os.environ.get("URTRS_LIBRARY", "liburtrs-c.so.0"))
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


def _structure(name, *members):
    """Returns a ctypes.Structure. Each of `members` is a pair: a type, and the names of the fields of that type, separated by spaces."""
    return type(name, (ctypes.Structure,), {"_fields_": [(one, kind) for kind, names in members for one in names.split()]})


Info = _structure("Info", (ctypes.c_uint64, "size"),
                  (ctypes.c_uint32, "block_size physical_block_size max_io_size discard_granularity"),
                  (ctypes.c_int, "is_open writable can_discard can_zero write_cache error"))
Stats = _structure("Stats", (ctypes.c_uint64, "reads writes read_bytes write_bytes errors failovers"),
                   (ctypes.c_uint32, "under_way paths connected_paths devices"))
Path = _structure("Path", (ctypes.c_char_p, "source destination state reason"), (ctypes.c_uint16, "port"),
                  (ctypes.c_uint32, "attempt in_flight"), (ctypes.c_uint64, "requests reconnects"), (ctypes.c_char_p, "last_cause"))
# Layout of Py_buffer in CPython's stable ABI.
PyBuffer = _structure("PyBuffer", (ctypes.c_void_p, "buf obj"), (ctypes.c_ssize_t, "len itemsize"),
                      (ctypes.c_int, "readonly ndim"), (ctypes.c_void_p, "format shape strides suboffsets internal"))
get_buffer = ctypes.pythonapi.PyObject_GetBuffer
get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
release_buffer = ctypes.pythonapi.PyBuffer_Release
release_buffer.argtypes, release_buffer.restype = [ctypes.POINTER(PyBuffer)], None


def _declare(name, *arguments, result=ctypes.c_int):
    function = getattr(lib, name)
    function.argtypes, function.restype = arguments, result
    return function


_P, _S, _I, _U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
version = _declare("urtrs_version", result=_S)
strerror = _declare("urtrs_strerror", _I, result=_S)
new = _declare("urtrs_session_new", _S, ctypes.POINTER(_P))
set_setting = _declare("urtrs_session_set", _P, _S, _S)
add_path = _declare("urtrs_session_add_path", _P, _S, _S, ctypes.c_uint16)
open_session = _declare("urtrs_session_open", _P)
close = _declare("urtrs_session_close", _P, _I)
free = _declare("urtrs_session_free", _P)
message = _declare("urtrs_session_message", _P, result=_S)
fd = _declare("urtrs_session_fd", _P)
prepare = _declare("urtrs_session_prepare", _P)
poll = _declare("urtrs_session_poll", _P)
get_stats = _declare("urtrs_session_get_stats", _P, ctypes.POINTER(Stats), ctypes.c_size_t)
get_path = _declare("urtrs_session_get_path", _P, ctypes.c_uint32, ctypes.POINTER(Path), ctypes.c_size_t)
device_open = _declare("urtrs_device_open_async", _P, _S, _U, Callback, _P, ctypes.POINTER(_P))
device_close = _declare("urtrs_device_close", _P, _I)
device_info = _declare("urtrs_device_get_info", _P, ctypes.POINTER(Info), ctypes.c_size_t)
read = _declare("urtrs_read_async", _P, _P, ctypes.c_size_t, ctypes.c_uint64, Callback, _P)
write = _declare("urtrs_write_async", _P, _P, ctypes.c_size_t, ctypes.c_uint64, _U, Callback, _P)
flush = _declare("urtrs_flush_async", _P, Callback, _P)
discard = _declare("urtrs_discard_async", _P, ctypes.c_uint64, ctypes.c_uint64, _U, Callback, _P)
zero = _declare("urtrs_zero_async", _P, ctypes.c_uint64, ctypes.c_uint64, _U, Callback, _P)
