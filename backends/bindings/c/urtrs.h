/* urtrs.h: client for the block devices of an RNBD server, for C and for languages that can call C. Installed as
 * <urtrs/urtrs.h>; library liburtrs-c (pkg-config urtrs-c, CMake urtrs::c). docs/c_interface.md is an introduction.
 *
 * A session connects to one server over one or more paths and opens devices of that server. If a path fails, the
 * library fails its requests over to the other paths and reconnects the path in the background. If the server
 * restarts, the library reopens the session's devices.
 *
 * Errors are negative errno values such as -ENOENT. urtrs_strerror() returns the text of an error code;
 * urtrs_session_message() returns a message that says why the session's last call failed.
 *
 * Threads. Only one thread at a time may use a session and its devices; a program with several threads needs a lock
 * around each call. Different sessions are independent. The library starts threads only to resolve host names and to
 * read changed TLS files; with host_names off it starts none. The library sets no signal handlers and prints nothing.
 * Opening a tcp session raises the process's soft limit of file descriptors to the hard limit, so the program must not
 * use select(2). A session belongs to the process that created it: in a child of fork(2), calls on the session return
 * -EBADF, and urtrs_session_free() does nothing.
 *
 * Callbacks run only inside urtrs_session_poll(), urtrs_session_wait(), urtrs_session_free() and blocking calls. The
 * callback of a request runs exactly once. A callback may start further requests. Inside a callback, functions that
 * block, poll, close or free return -EDEADLK.
 *
 * Memory. The caller owns the data buffer of a request. The buffer must stay valid until the callback runs; until then
 * the program must not modify the buffer, nor read from it if the request is a read. The library copies strings that it
 * receives. urtrs_session_free() frees a session with all its devices.
 *
 * Blocking calls take `timeout_ms` in milliseconds; a negative value means no timeout. Two limits apply even without a
 * timeout: a request fails if no path is connected for `queue_timeout`, and so does opening a device that takes longer
 * than that. If `timeout_ms` is 0 or more, the library copies the data, so that the caller may reuse its buffer after
 * -ETIMEDOUT. The server may still execute a request that has timed out.
 *
 * ABI. Within one SONAME nothing is removed. Structures may grow at their end, so functions that fill a structure take
 * its size in bytes. An older library sets the members that it does not know to 0.
 */
#ifndef URTRS_URTRS_H
#define URTRS_URTRS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, such as "0.1.0". */
const char *urtrs_version(void);
/* Returns the text of an error code; "success" for 0. Never NULL, valid forever, callable from any thread. */
const char *urtrs_strerror(int error);

/* --- sessions --- */

typedef struct urtrs_session urtrs_session;

/* Creates a session without connecting it. The caller owns it, see urtrs_session_free(). `name`: 1 to 254 bytes without
 * '/', '.' and control characters, unique on the server. Errors: -EINVAL (invalid name), -ENOMEM. */
int urtrs_session_new(const char *name, urtrs_session **session);
/* Sets an option; call before urtrs_session_open(). Errors: -EINVAL (unknown setting or invalid value; the message
 * lists the valid settings or values), -EBUSY (the session is open). `value` is text and must not be empty.
 *   fabric                 "tcp" (default), or "verbs" for RDMA, which requires a build with verbs
 *   host_names             "on" (default), or "off": paths have only numeric addresses, and the library starts no thread
 * The connection options of nbdkit-urtrs (see nbdkit-urtrs --help) are settings too, with the same names, values and
 * defaults, except provider, tls, auth_keys and auth_identity. The most common ones, with their defaults in parentheses:
 *   crc                    tcp: "on" requests a checksum after each message (off)
 *   rdma_device, rdma_retry_count, rdma_ack_timeout, rdma_tos ...    verbs only
 *   tls_keys, tls_identity             tcp with TLS: file of pre-shared keys; key to use if the file has several
 *   tls_cert, tls_key, tls_ca, tls_crl, tls_server_name    tcp with TLS: PEM files, and the server's expected name.
 *                                      If a file changes, the library reads it again before a path connects. If the
 *                                      library cannot read it, the earlier content stays in use. With host_names off,
 *                                      the call that connects the path reads the file and may block
 *   connections            IO connections per path, 1 or more (2)
 *   queue_timeout          time that a request waits without a path, and that a device may take to open (2m); or "never"
 *   request_timeout        time that the server may take to answer a request ("never")
 *   heartbeat_interval, heartbeat_missed    a path without traffic is lost after heartbeat_missed + 1 to + 2 intervals
 *                                           (5s, 5)
 *   reconnect_min, reconnect_max            shortest and longest pause between connection attempts (500ms, 30s)
 *   max_reconnect_attempts                  failed attempts in a row before the path is given up (-1: no limit)
 * Times have a unit: "500ms", "30s", "2m". Three older spellings are accepted for one more release: io_connections for
 * connections; 1 and 0 for on and off; and NAME_ms for a time in milliseconds, where -1 means never
 * (queue_timeout_ms 0: requests do not wait).
 */
int urtrs_session_set(urtrs_session *session, const char *setting, const char *value);
/* Adds a path, before or after urtrs_session_open(). `destination` is the server's address: "10.0.0.1", "fd00::1" or a
 * host name; "10.0.0.1:7" and "[fd00::1]:7" override `port`. `port` 0 means 1234. `source` is an address of this host;
 * NULL: the system chooses it. Errors: -EINVAL (malformed address), -EEXIST (the session already has this path),
 * -ENOSPC (the session already has 128 paths, the maximum). */
int urtrs_session_add_path(urtrs_session *session, const char *source, const char *destination, uint16_t port);
/* Starts to connect all paths and returns without waiting for a connection. Errors: -EINVAL (the session has no path; a
 * TLS file has invalid content; tls_keys has several keys and tls_identity is not set), -ENOENT or -EACCES (a TLS file
 * cannot be read), -EBUSY (the session was opened before), -EMFILE (no file descriptor is left), -ENOMEM. */
int urtrs_session_open(urtrs_session *session);
/* Closes the session: requests that were not sent yet fail with -ESHUTDOWN, sent requests complete, then the devices are
 * closed and the paths disconnect. -ETIMEDOUT: the close is still in progress; call again to wait longer. */
int urtrs_session_close(urtrs_session *session, int timeout_ms);
/* Frees the session and its devices. Allowed at any time: if the session is not closed, its connections are aborted and
 * the callbacks of pending requests run with -ECANCELED. After the return, the library uses no buffer of the caller.
 * Returns 0, also for NULL. Inside a callback the function frees nothing and returns -EDEADLK. */
int urtrs_session_free(urtrs_session *session);
/* Returns the error message of the last call on the session or its devices; "" if that call succeeded. Query functions
 * such as urtrs_session_get_stats() leave the message unchanged. Never NULL; valid until the session's next call. */
const char *urtrs_session_message(const urtrs_session *session);

/* --- event loop: for programs with an event loop; see the example polled.c of docs/c_interface.md --- */

/* Returns a file descriptor that is readable when urtrs_session_poll() has work to do; -1 before urtrs_session_open().
 * The session owns the descriptor. */
int urtrs_session_fd(const urtrs_session *session);
/* Call before each poll(2) on urtrs_session_fd(). Returns the timeout for poll(2): the longest sleep in milliseconds.
 * 0: do not sleep, call urtrs_session_poll() at once. -1: no limit. */
int urtrs_session_prepare(urtrs_session *session);
/* Sends, receives, and runs due timers and callbacks; does not wait. Returns the number of callbacks that ran, or a
 * negative errno. */
int urtrs_session_poll(urtrs_session *session);
/* Sleeps and polls until at least one callback has run. Returns the number of callbacks that ran, -ETIMEDOUT if none ran
 * in time, -EINTR after a signal, or -ESHUTDOWN if the session is completely closed. */
int urtrs_session_wait(urtrs_session *session, int timeout_ms);

/* --- devices --- */

typedef struct urtrs_device urtrs_device;
typedef void (*urtrs_callback)(void *user, int error);

#define URTRS_READ_ONLY 1U  /* open for reading only; without this flag, the session becomes the device's only writer */
#define URTRS_MIGRATION 2U  /* open as a second writer while a virtual machine migrates; excludes URTRS_READ_ONLY */
#define URTRS_FUA 1U        /* write, discard, zero: the change is durable when the request completes */
#define URTRS_NO_UNMAP 2U   /* zero: the blocks stay allocated */

/* Opens a device by its name on the server. Waits until a path is connected. Sets `device` only on success. Errors from
 * the server: -ENOENT (no such device), -EPERM (another session is the writer), -EACCES (the device is read-only).
 * Errors from this library: -EEXIST (this session has the device open), -EIO (the library has given up all paths),
 * -ENOTCONN (the session is not open), -ETIMEDOUT (after `timeout_ms` or queue_timeout, whichever is shorter). */
int urtrs_device_open(urtrs_session *session, const char *name, unsigned flags, int timeout_ms, urtrs_device **device);
/* Like urtrs_device_open(), but returns at once; the callback gets the result. If the function returns 0, `device` is
 * set and accepts requests, which wait until the device is open. Call urtrs_device_close() even if the callback gets an
 * error. If the function fails, the callback never runs. */
int urtrs_device_open_async(urtrs_session *session, const char *name, unsigned flags, urtrs_callback callback, void *user,
                            urtrs_device **device);
/* Closes a device: requests that were not sent yet fail with -ENODEV, sent requests complete. The handle is invalid
 * afterwards, even after an error other than -EDEADLK and -EBADF. Returns 0 for NULL. */
int urtrs_device_close(urtrs_device *device, int timeout_ms);

/* Sizes and granularities are in bytes; they are 0 until the device is first open. Flags are 0 or 1. */
struct urtrs_device_info {
  uint64_t size;
  uint32_t block_size; /* logical block; offsets and lengths of requests must be multiples of block_size */
  uint32_t physical_block_size;
  uint32_t max_io_size; /* maximum data of one message; the library splits larger requests */
  uint32_t discard_granularity;
  int is_open; /* 0 while the library reopens the device, for example after a server restart; requests wait */
  int writable;
  int can_discard;
  int can_zero;
  int write_cache; /* writes need a flush, or URTRS_FUA, to be durable */
  int error;       /* negative errno if the server refused the last attempt to open the device; else 0 */
};
/* Fills `info`; `size` is sizeof(struct urtrs_device_info). Errors: -EINVAL, -ESHUTDOWN (the session is being freed). */
int urtrs_device_get_info(const urtrs_device *device, struct urtrs_device_info *info, size_t size);

/* --- requests ---
 * Offsets and lengths are in bytes and must be multiples of block_size. Errors: -EINVAL (not whole blocks; longer than
 * the device; unknown flag), -EIO (beyond the end of the device; no path for queue_timeout; for a flush: the server lost
 * acknowledged writes), -EPERM (the device was opened read-only), -EOPNOTSUPP (the device cannot discard or zero),
 * -ENODEV (the device is closed), -ESHUTDOWN (the session is closed), -ETIMEDOUT, and any other errno from the server.
 * The server may execute requests that are in flight together in any order. A flush makes the writes durable that
 * completed before the flush was started. */

int urtrs_read(urtrs_device *device, void *data, size_t length, uint64_t offset, int timeout_ms);
int urtrs_write(urtrs_device *device, const void *data, size_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_flush(urtrs_device *device, int timeout_ms);
int urtrs_discard(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_zero(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);

/* Start a request. If the function returns 0, the callback runs later, exactly once, with 0 or a negative errno. If the
 * function returns an error, the callback never runs. -EAGAIN: the session has 65,536 requests in flight, the maximum. */
int urtrs_read_async(urtrs_device *device, void *data, size_t length, uint64_t offset, urtrs_callback callback, void *user);
int urtrs_write_async(urtrs_device *device, const void *data, size_t length, uint64_t offset, unsigned flags,
                      urtrs_callback callback, void *user);
int urtrs_flush_async(urtrs_device *device, urtrs_callback callback, void *user);
int urtrs_discard_async(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, urtrs_callback callback,
                        void *user);
int urtrs_zero_async(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, urtrs_callback callback,
                     void *user);

/* --- status --- */

struct urtrs_stats {
  uint64_t reads, writes, read_bytes, write_bytes; /* successful messages and their data bytes; a request may be split */
  uint64_t errors;         /* messages that failed */
  uint64_t failovers;      /* messages that were resent over another path */
  uint32_t under_way;      /* requests in flight: started, but their callback has not run */
  uint32_t paths;          /* number of paths, see urtrs_session_get_path() */
  uint32_t connected_paths;
  uint32_t devices;
};
int urtrs_session_get_stats(const urtrs_session *session, struct urtrs_stats *stats, size_t size);

struct urtrs_path {
  const char *source; /* "": chosen by the system. All strings are valid until the session's next call */
  const char *destination;
  const char *state;  /* connecting, connected, draining, waiting, closing, closed, absent */
  const char *reason; /* why the path was last lost or rejected, see docs/reasons.md; "none" while connected */
  uint16_t port;
  uint32_t attempt;   /* connection attempts since the path was last connected */
  uint32_t in_flight; /* messages that were sent over this path and wait for the answer */
  uint64_t requests;  /* messages completed over this path */
  uint64_t reconnects;
  const char *last_cause; /* if reason is "attempts_exhausted": reason of the last failed attempt; else "none" */
};
/* Fills `path`; `size` is sizeof(struct urtrs_path). `index`: 0 to urtrs_stats.paths - 1. Errors: -EINVAL, -ENOENT (no
 * such path). */
int urtrs_session_get_path(const urtrs_session *session, uint32_t index, struct urtrs_path *path, size_t size);

/* Sets the callback for state changes of paths. The callback runs like other callbacks, and gets the index of the path.
 * NULL removes the callback. */
typedef void (*urtrs_path_callback)(void *user, uint32_t index);
int urtrs_session_on_path(urtrs_session *session, urtrs_path_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
