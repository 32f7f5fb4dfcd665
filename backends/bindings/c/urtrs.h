/* urtrs.h: block devices of an RNBD server, for C and for languages that can call C. Installed as <urtrs/urtrs.h>,
 * library liburtrs-c (pkg-config urtrs-c, CMake urtrs::c). docs/c_interface.md is an introduction.
 *
 * A session connects to one server over one or more paths, and opens devices of that server. A lost path is reconnected
 * automatically; meanwhile requests use the other paths. After a restart of the server, the library reopens its
 * devices.
 *
 * Errors are negative errno values such as -ENOENT. urtrs_strerror() returns their text, and urtrs_session_message() a
 * sentence about the last call of the session.
 *
 * Threads. The library starts threads only to resolve host names of paths (see host_names). It sets no signal handlers
 * and prints nothing. Only one thread at a time may use a session and its devices: with several threads, put a lock
 * around each call. Different sessions are independent. Opening a session raises the process's soft limit of file
 * descriptors to the hard limit, so the program must not use select(2). A session belongs to the process that created
 * it: in a child of fork(2) its functions return -EBADF, and urtrs_session_free() does nothing.
 *
 * Callbacks run only inside urtrs_session_poll(), urtrs_session_wait() and blocking calls, exactly once per request.
 * They may start further requests. Functions that block, close or free return -EDEADLK inside a callback.
 *
 * Memory. The data buffer of a request must stay valid, and must not be accessed, until its callback has run.
 * Strings passed to a function are copied. urtrs_session_free() frees a session with all its devices.
 *
 * Blocking calls take `timeout_ms`; a negative value means no timeout. Even then a request fails if no path is
 * connected for `queue_timeout`, and opening a device fails if it takes longer than that. With a timeout of 0 or more,
 * data is copied through memory of the library, so that the caller may reuse its buffer after -ETIMEDOUT. The server
 * may still execute the request afterwards.
 *
 * Within one SONAME nothing is removed. Structures may grow at their end, so functions that fill a structure take its
 * size. Members unknown to an older library are set to 0.
 */
#ifndef URTRS_URTRS_H
#define URTRS_URTRS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *urtrs_version(void);
/* Text of a return value; "success" for 0. Never NULL, always valid, callable from any thread. */
const char *urtrs_strerror(int error);

/* --- sessions --- */

typedef struct urtrs_session urtrs_session;

/* `name`: 1 to 254 characters, without '/', '.' and control characters, unique on the server. Errors: -EINVAL,
 * -ENOMEM. */
int urtrs_session_new(const char *name, urtrs_session **session);
/* Call before urtrs_session_open(). Errors: -EINVAL (unknown setting or invalid value; the message lists the valid
 * ones), -EBUSY (the session is open). Text values must not be empty.
 *   fabric                 tcp (default) or verbs, which needs RDMA and a build with verbs
 *   host_names             on (default); off: only numeric addresses, and no thread is ever started
 * and all connection options of nbdkit-urtrs (nbdkit-urtrs --help) except provider, tls, auth_keys and auth_identity,
 * with the same names, values and defaults, such as
 *   crc                    tcp: on requests a checksum after each message
 *   rdma_device, rdma_retry_count, rdma_ack_timeout, rdma_tos ...    verbs
 *   tls_keys, tls_identity             tcp with TLS: file of pre-shared keys, and the key to use if it has several
 *   tls_cert, tls_key, tls_ca, tls_crl, tls_server_name    tcp with TLS: certificates, PEM files. If a file changes, it is read
 *                                      again before a path connects; if it cannot be read, the earlier content stays in
 *                                      use. With host_names off the thread of the call reads the files
 *   connections            IO connections per path, 1 or more (2)
 *   queue_timeout          how long a request waits without a path, and how long a device may take to open (2m); "never"
 *   request_timeout        how long the server may take to answer (never)
 *   heartbeat_interval, heartbeat_missed    a path is lost after heartbeat_missed + 1 to + 2 silent intervals (5s, 5)
 *   reconnect_min, reconnect_max            pause between connection attempts (500ms, 30s)
 *   max_reconnect_attempts                  in a row, for each path (-1: no limit)
 * Times are "500ms", "30s", "2m". Accepted for one more release: io_connections for connections; 1 and 0 for on
 * and off; and times with _ms behind their names in milliseconds, -1 for never (queue_timeout_ms 0: requests do not wait).
 */
int urtrs_session_set(urtrs_session *session, const char *setting, const char *value);
/* A path of the server: "10.0.0.1", "fd00::1" or a host name; "10.0.0.1:7" and "[fd00::1]:7" set the port. `source` is
 * an address of this host, or NULL. `port` 0: 1234. May be called before and after urtrs_session_open(). Errors:
 * -EINVAL (malformed address), -EEXIST (the session has this path), -ENOSPC (the session has the maximum of 128
 * paths). */
int urtrs_session_add_path(urtrs_session *session, const char *source, const char *destination, uint16_t port);
/* Starts to connect and returns at once. Errors: -EINVAL (no path; a TLS file has invalid content; several keys and no
 * tls_identity), -ENOENT, -EACCES (a TLS file cannot be read), -EBUSY (called before), -EMFILE (no file descriptor
 * left), -ENOMEM. */
int urtrs_session_open(urtrs_session *session);
/* Closes the session: requests that were not sent yet fail with -ESHUTDOWN, sent requests complete, devices are closed.
 * -ETIMEDOUT: not finished yet; the call may be repeated. */
int urtrs_session_close(urtrs_session *session, int timeout_ms);
/* Frees the session. Allowed at any time, even without a close: connections are then aborted, and pending callbacks run
 * with -ECANCELED. Afterwards no memory of the caller is in use. Returns 0. Inside a callback it frees nothing and
 * returns -EDEADLK. NULL is ignored. */
int urtrs_session_free(urtrs_session *session);
/* Error message of the last call on the session or its devices; "" after success. Calls that only query, such as
 * urtrs_session_get_stats(), do not change it. Valid until the next call. Never NULL. */
const char *urtrs_session_message(const urtrs_session *session);

/* --- event loop: for programs with an event loop; see the example polled.c of docs/c_interface.md --- */

/* Readable when urtrs_session_poll() has work to do. -1 before urtrs_session_open(). Owned by the session. */
int urtrs_session_fd(const urtrs_session *session);
/* Call before each sleep with poll(2) on that descriptor. Returns the maximum sleep in milliseconds. 0: do not sleep,
 * call urtrs_session_poll() first. -1: no limit. */
int urtrs_session_prepare(urtrs_session *session);
/* Sends, receives, runs timers and callbacks; never blocks. Returns the number of callbacks, or a negative errno. */
int urtrs_session_poll(urtrs_session *session);
/* Runs one turn of an event loop: sleeps until there is work, then does the work. Returns the number of callbacks,
 * -ETIMEDOUT if nothing happened in time, -EINTR after a signal, or -ESHUTDOWN if the session is completely closed. */
int urtrs_session_wait(urtrs_session *session, int timeout_ms);

/* --- devices --- */

typedef struct urtrs_device urtrs_device;
typedef void (*urtrs_callback)(void *user, int error);

#define URTRS_READ_ONLY 1U  /* open: without it, this session becomes the only writer */
#define URTRS_MIGRATION 2U  /* open: allow a second writer while a virtual machine migrates */
#define URTRS_FUA 1U        /* write, discard, zero: durable before it completes */
#define URTRS_NO_UNMAP 2U   /* zero: the blocks stay allocated */

/* Opens a device by its name on the server. If no path is connected, waits for one. Sets `device` only if the result is
 * 0. Errors of the server: -ENOENT (no such device), -EPERM (another session writes), -EACCES (the device is read-only).
 * Errors of this library: -EEXIST (the device is open in this session), -EIO (no path will be retried), -ENOTCONN (the
 * session is not open), -ETIMEDOUT (after `timeout_ms` or queue_timeout, whichever is shorter). */
int urtrs_device_open(urtrs_session *session, const char *name, unsigned flags, int timeout_ms, urtrs_device **device);
/* Like urtrs_device_open(), but does not block: the callback gets the result. If the function returns 0, `device` is
 * set at once and accepts requests, which wait for the open. Close the device even if the callback gets an error. */
int urtrs_device_open_async(urtrs_session *session, const char *name, unsigned flags, urtrs_callback callback, void *user,
                            urtrs_device **device);
/* Closes a device: waiting requests fail with -ENODEV, sent requests complete. The handle is invalid afterwards,
 * whatever the result, except -EDEADLK. */
int urtrs_device_close(urtrs_device *device, int timeout_ms);

/* Sizes are in bytes, and 0 until the device is open. */
struct urtrs_device_info {
  uint64_t size;
  uint32_t block_size; /* offsets and lengths are multiples of it */
  uint32_t physical_block_size;
  uint32_t max_io_size; /* larger requests are split */
  uint32_t discard_granularity;
  int is_open; /* 0 while the device is being reopened after a server restart: requests wait */
  int writable;
  int can_discard;
  int can_zero;
  int write_cache; /* writes need a flush, or URTRS_FUA, to be durable */
  int error;       /* 0, or the errno with which the server refuses to reopen it */
};
/* Fills `size` bytes: sizeof(struct urtrs_device_info). */
int urtrs_device_get_info(const urtrs_device *device, struct urtrs_device_info *info, size_t size);

/* --- requests ---
 * Offsets and lengths are in bytes and whole blocks. Errors: -EINVAL (not whole blocks; longer than the device), -EIO
 * (beyond the end; no path for queue_timeout; for a flush: the server lost acknowledged writes), -EPERM (the device was
 * opened read-only), -EOPNOTSUPP (the device cannot discard or zero), -ENODEV (the device is closed), -ESHUTDOWN (the
 * session is closed), -ETIMEDOUT, and any other errno of the server. Requests in flight at the same time have no order.
 * A flush covers the writes that completed before the flush was started. */

int urtrs_read(urtrs_device *device, void *data, size_t length, uint64_t offset, int timeout_ms);
int urtrs_write(urtrs_device *device, const void *data, size_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_flush(urtrs_device *device, int timeout_ms);
int urtrs_discard(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_zero(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);

/* If the result is 0, the callback runs later, exactly once; otherwise never. -EAGAIN: too many requests in flight. */
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
  uint64_t reads, writes, read_bytes, write_bytes; /* successful messages, and their bytes */
  uint64_t errors;
  uint64_t failovers;      /* requests sent again over another path */
  uint32_t under_way;      /* requests whose callback is due */
  uint32_t paths;          /* see urtrs_session_get_path() */
  uint32_t connected_paths;
  uint32_t devices;
};
int urtrs_session_get_stats(const urtrs_session *session, struct urtrs_stats *stats, size_t size);

struct urtrs_path {
  const char *source; /* "" if none was given; strings are valid until the next call of the session */
  const char *destination;
  const char *state;  /* connecting, connected, draining, waiting, closing, closed, absent */
  const char *reason; /* reason of the last loss or rejection, see docs/reasons.md; "none" if connected */
  uint16_t port;
  uint32_t attempt;   /* attempts since it was last connected */
  uint32_t in_flight;
  uint64_t requests;  /* completed over this path */
  uint64_t reconnects;
  const char *last_cause; /* for reason attempts_exhausted: reason of the last failed attempt; else "none" */
};
/* `index`: 0 to urtrs_stats.paths - 1; -ENOENT: no such path. */
int urtrs_session_get_path(const urtrs_session *session, uint32_t index, struct urtrs_path *path, size_t size);

/* Called when path `index` has changed its state, like other callbacks. NULL: no callback. */
typedef void (*urtrs_path_callback)(void *user, uint32_t index);
int urtrs_session_on_path(urtrs_session *session, urtrs_path_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
