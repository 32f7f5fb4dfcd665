/* polled ADDRESS PORT DEVICE: reads the first MiB of a remote device with many requests at once, in its own event loop. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <urtrs/urtrs.h>

#define PARTS 16
#define PART 65536

static char data[PARTS * PART];
static int outstanding;
static int failed;

static void on_done(void *user, int error) {
  --outstanding;
  if (error == 0) return;
  failed = 1;
  fprintf(stderr, "polled: %s: %s\n", (const char *)user, urtrs_strerror(error));
}

/* Waits for an event and handles it. A program with further descriptors adds them to `wanted`. */
static void turn(urtrs_session *session) {
  struct pollfd wanted = {0, POLLIN, 0};
  wanted.fd = urtrs_session_fd(session);
  poll(&wanted, 1, urtrs_session_prepare(session));
  urtrs_session_poll(session);
}

/* Returns the port number; 0 if `text` is not a valid port. */
static uint16_t port_of(const char *text) {
  char *end;
  const unsigned long port = strtoul(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && port <= 65535 ? (uint16_t)port : 0;
}

int main(int argc, char **argv) {
  const uint16_t port = argc == 4 ? port_of(argv[2]) : 0;
  urtrs_session *session;
  urtrs_device *device;
  int i;
  if (port == 0) {
    fprintf(stderr, "usage: polled ADDRESS PORT DEVICE\n");
    return 2;
  }
  if (urtrs_session_new("polled-c", &session) != 0) return 1;
  failed = urtrs_session_add_path(session, NULL, argv[1], port) != 0 || urtrs_session_open(session) != 0 ||
           urtrs_device_open_async(session, argv[3], URTRS_READ_ONLY, on_done, argv[3], &device) != 0;
  if (failed) fprintf(stderr, "polled: %s\n", urtrs_session_message(session));
  for (outstanding = failed ? 0 : 1; outstanding > 0;) turn(session);
  for (i = 0; i < PARTS && !failed; ++i) {
    failed = urtrs_read_async(device, data + i * PART, PART, (uint64_t)i * PART, on_done, argv[3]) != 0;
    if (!failed) ++outstanding;
  }
  while (outstanding > 0) turn(session);
  urtrs_session_close(session, 30000);
  urtrs_session_free(session);
  return failed;
}
