/* urtrs.h: block devices of an RNBD server, for programs in C and for what can call C. Installed as <urtrs/urtrs.h>, library
 * liburtrs-c (pkg-config urtrs-c, CMake urtrs::c). docs/c_interface.md is an introduction.
 *
 * A session leads over one or more paths to one server; devices of that server are opened over it. A path that is lost comes
 * back by itself, and requests go on over the others meanwhile. After a restart of the server its devices are opened again.
 *
 * Errors are negative errno values, -ENOENT say; urtrs_strerror() has words for them, and urtrs_session_message() a
 * sentence about the last call of the session.
 *
 * Threads. The library starts none, but for the lookup of a host that a path names (see host_names). It sets no signal
 * handlers and writes nothing. A session, with all its devices, belongs to one thread at a time: whoever uses it from several
 * puts a lock around each call. Different sessions have nothing in common. Opening one raises the soft limit of file
 * descriptors of the process to the hard one, so the program must not use select(2). A session stays with the process that
 * made it: in a child of fork(2) its functions answer -EBADF, and urtrs_session_free() leaves it alone.
 *
 * Callbacks run inside urtrs_session_poll(), urtrs_session_wait() and the calls that wait, never at another time, each
 * exactly once for its request. They may begin further requests. Everything that waits, closes or frees answers -EDEADLK
 * inside a callback.
 *
 * Memory. What a request reads into or writes from belongs to the library until its callback ran. Strings that are given to
 * a function are copied. A session is freed by urtrs_session_free(), and with it all its devices.
 *
 * Calls that wait take `timeout_ms`: below 0 means as long as it takes. Even then a request ends: when no path is connected
 * for `queue_timeout_ms`, it fails. So does the opening of a device when it has not ended within that time. With a timeout of
 * 0 or more, data goes through memory of the library, so that the caller's is its own again after -ETIMEDOUT; the request
 * itself may still act at the server.
 *
 * Within one SONAME nothing is taken away: structures grow at their end, which is why functions that fill one take its size.
 * What an older library does not know is 0.
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
/* Words for what a function returned; of 0, "success". Never NULL, valid for ever, from any thread. */
const char *urtrs_strerror(int error);

/* --- sessions --- */

typedef struct urtrs_session urtrs_session;

/* `name`: 1 to 254 characters, without '/', '.' and control characters, unique at the server. Errors: -EINVAL, -ENOMEM. */
int urtrs_session_new(const char *name, urtrs_session **session);
/* Before urtrs_session_open(). Errors: -EINVAL (no such setting, or not such a value: the message has those that there are),
 * -EBUSY (it is open). A text is not empty.
 *   fabric                 tcp (default) or verbs, which needs RDMA and a build with it
 *   crc                    tcp: 1 asks for a checksum behind each message
 *   host_names             1 (default); 0: paths are addresses in figures, and no thread is ever started
 *   rdma_device            verbs: "mlx5_0"; otherwise whichever has the address
 *   tls_keys, tls_identity             tcp, encrypted: file of pre-shared keys, and which of them; has to be named if
 *                                      there are several
 *   tls_cert, tls_key, tls_ca, tls_crl, tls_server_name    tcp, encrypted: by certificates, PEM files
 *                                      Files of TLS that changed are read again before a path is connected; what was
 *                                      read before stays in use while they cannot be. With host_names 0 the thread
 *                                      of the call reads them
 *   io_connections         of each path, 1 or more (2)
 *   queue_timeout_ms       how long a request waits for a path, or for a device that the server refuses to open again for a
 *                          reason that may pass, and the opening of a device for its end (120000); -1: for ever; 0: a request
 *                          not at all, an opening 30 s
 *   request_timeout_ms     how long the server may take to answer (-1)
 *   heartbeat_interval_ms, heartbeat_missed   a path is lost when the server is silent for so long (5000, 5)
 *   reconnect_min_ms, reconnect_max_ms        between attempts to connect (500, 30000)
 *   max_reconnect_attempts                    in a row, for each path (-1: no end)
 */
int urtrs_session_set(urtrs_session *session, const char *setting, const char *value);
/* A path of the server: "10.0.0.1", "fd00::1" or a host name; "10.0.0.1:7" and "[fd00::1]:7" have their port. `source` is an
 * address of this host, or NULL. `port` 0: 1234. Before and after urtrs_session_open(). Errors: -EINVAL: no address has this
 * form; -EEXIST: the session has it; -ENOSPC: it has 8, more are not possible. */
int urtrs_session_add_path(urtrs_session *session, const char *source, const char *destination, uint16_t port);
/* Begins to connect and returns at once. Errors: -EINVAL (no path; a file of TLS has not what it should; several keys and no
 * tls_identity), -ENOENT, -EACCES (a file of TLS cannot be read), -EBUSY (it was called before), what the system has not (-EMFILE: no
 * descriptor is left; -ENOMEM). */
int urtrs_session_open(urtrs_session *session);
/* Ends all: requests that are not at the server fail with -ESHUTDOWN, what is there ends, devices are closed. -ETIMEDOUT: not
 * all has ended yet; the call may be made again. */
int urtrs_session_close(urtrs_session *session, int timeout_ms);
/* At any time, without a close as well: then connections are cut, and the callbacks that are due run with -ECANCELED; after
 * it nothing of the caller's memory is in use. 0; -EDEADLK, and nothing is freed, inside a callback. NULL: does nothing. */
int urtrs_session_free(urtrs_session *session);
/* What was wrong with the last call of the session or of its devices; "" when it went well. Calls that only tell something,
 * such as urtrs_session_get_stats(), leave it. Valid until the next call. Never NULL. */
const char *urtrs_session_message(const urtrs_session *session);

/* --- waiting: for programs with an event loop; see the example polled.c of docs/c_interface.md --- */

/* Readable when urtrs_session_poll() has something to do. -1 before urtrs_session_open(). Owned by the session. */
int urtrs_session_fd(const urtrs_session *session);
/* To be called before each sleep: for how many milliseconds at most, with poll(2) on that descriptor. 0: not at all, poll
 * first. -1: no end. */
int urtrs_session_prepare(urtrs_session *session);
/* Sends, receives, runs timers and callbacks, and never waits. The number of callbacks, or a negative errno. */
int urtrs_session_poll(urtrs_session *session);
/* Sleeps until there is something to do, and does it: one turn of an event loop. The number of callbacks; -ETIMEDOUT when
 * nothing came in time; -EINTR after a signal; -ESHUTDOWN when the session was closed and has ended. */
int urtrs_session_wait(urtrs_session *session, int timeout_ms);

/* --- devices --- */

typedef struct urtrs_device urtrs_device;
typedef void (*urtrs_callback)(void *user, int error);

#define URTRS_READ_ONLY 1U  /* open: otherwise this session is the only writer */
#define URTRS_MIGRATION 2U  /* open: a second writer for the moment in which a virtual machine moves */
#define URTRS_FUA 1U        /* write, discard, zero: durable before it completes */
#define URTRS_NO_UNMAP 2U   /* zero: the blocks stay allocated */

/* Opens a device by its name at the server; waits for a server too. `device` is set only where the answer is 0. Errors: of
 * the server, -ENOENT (no such device), -EPERM (another session writes), -EACCES (it is read-only); -EEXIST (it is open in
 * this session); -EIO (all paths gave up), -ENOTCONN (the session is not open), -ETIMEDOUT (of `timeout_ms` or
 * queue_timeout_ms, whichever is shorter). */
int urtrs_device_open(urtrs_session *session, const char *name, unsigned flags, int timeout_ms, urtrs_device **device);
/* The same without waiting: the callback tells how it ended. `device` is set at once where the answer is 0, takes requests,
 * which wait, and is to be closed also where the callback tells of an error. */
int urtrs_device_open_async(urtrs_session *session, const char *name, unsigned flags, urtrs_callback callback, void *user,
                            urtrs_device **device);
/* Requests that wait fail with -ENODEV, those at the server end. The handle is dead whatever is returned, -EDEADLK
 * excepted. */
int urtrs_device_close(urtrs_device *device, int timeout_ms);

/* Sizes in bytes. Those of a device that was not opened yet are 0. */
struct urtrs_device_info {
  uint64_t size;
  uint32_t block_size; /* offsets and lengths are multiples of it */
  uint32_t physical_block_size;
  uint32_t max_io_size; /* larger requests are split */
  uint32_t discard_granularity;
  int is_open; /* 0 while it is being opened again after a restart of the server: requests wait */
  int writable;
  int can_discard;
  int can_zero;
  int write_cache; /* what was written needs a flush, or URTRS_FUA, to be durable */
  int error;       /* 0, or why the server does not open it again */
};
/* Fills `size` bytes: sizeof(struct urtrs_device_info). */
int urtrs_device_get_info(const urtrs_device *device, struct urtrs_device_info *info, size_t size);

/* --- requests ---
 * Offsets and lengths in bytes, whole blocks. Errors: -EINVAL (not whole blocks; more than the device has), -EIO (beyond the
 * end; no path for queue_timeout_ms; or, of a flush, acknowledged writes that the server lost), -EPERM (a change, and it was
 * opened read-only), -EOPNOTSUPP (it cannot discard or zero), -ENODEV (the device is closed), -ESHUTDOWN (the session is),
 * -ETIMEDOUT, of the server any other. There is no order between requests that are under way together; a flush covers the
 * writes that completed before it was begun. */

int urtrs_read(urtrs_device *device, void *data, size_t length, uint64_t offset, int timeout_ms);
int urtrs_write(urtrs_device *device, const void *data, size_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_flush(urtrs_device *device, int timeout_ms);
int urtrs_discard(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);
int urtrs_zero(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms);

/* Where the answer is 0 the callback runs later, exactly once; where it is not, never. -EAGAIN: too many are under way. */
int urtrs_read_async(urtrs_device *device, void *data, size_t length, uint64_t offset, urtrs_callback callback, void *user);
int urtrs_write_async(urtrs_device *device, const void *data, size_t length, uint64_t offset, unsigned flags,
                      urtrs_callback callback, void *user);
int urtrs_flush_async(urtrs_device *device, urtrs_callback callback, void *user);
int urtrs_discard_async(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, urtrs_callback callback,
                        void *user);
int urtrs_zero_async(urtrs_device *device, uint64_t length, uint64_t offset, unsigned flags, urtrs_callback callback,
                     void *user);

/* --- what goes on --- */

struct urtrs_stats {
  uint64_t reads, writes, read_bytes, write_bytes; /* messages that ended well, and their data */
  uint64_t errors;
  uint64_t failovers;      /* requests sent again over another path */
  uint32_t under_way;      /* requests whose callback is due */
  uint32_t paths;          /* see urtrs_session_get_path() */
  uint32_t connected_paths;
  uint32_t devices;
};
int urtrs_session_get_stats(const urtrs_session *session, struct urtrs_stats *stats, size_t size);

struct urtrs_path {
  const char *source; /* "" where none was given; strings are valid until the next call of the session */
  const char *destination;
  const char *state;  /* connecting, connected, draining, waiting, closing, closed, absent */
  const char *reason; /* why it was last lost or refused, a code of docs/reasons.md; "none" when it is connected */
  uint16_t port;
  uint32_t attempt;   /* since it was last connected */
  uint32_t in_flight;
  uint64_t requests;  /* completed over it */
  uint64_t reconnects;
  const char *last_cause; /* of the reason attempts_exhausted: why the last attempt failed; else "none" */
};
/* `index` from 0 below urtrs_stats.paths; -ENOENT: there is none. */
int urtrs_session_get_path(const urtrs_session *session, uint32_t index, struct urtrs_path *path, size_t size);

/* Path `index` changed its state. Runs as other callbacks do; NULL: nobody is told. */
typedef void (*urtrs_path_callback)(void *user, uint32_t index);
int urtrs_session_on_path(urtrs_session *session, urtrs_path_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
