/* first_block ADDRESS PORT DEVICE: copies the first 4 KiB of a remote device over the next 4 KiB. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <urtrs/urtrs.h>

#define WAIT_MS 30000

static int copy_first_block(urtrs_session *session, char **argv, uint16_t port) {
  static char block[4096];
  urtrs_device *device;
  int error = urtrs_session_add_path(session, NULL, argv[1], port); /* more paths may follow */
  if (error == 0) error = urtrs_session_open(session);
  if (error == 0) error = urtrs_device_open(session, argv[3], 0, WAIT_MS, &device);
  if (error != 0) return error;
  error = urtrs_read(device, block, sizeof block, 0, WAIT_MS);
  if (error == 0) error = urtrs_write(device, block, sizeof block, 4096, 0, WAIT_MS);
  if (error == 0) error = urtrs_flush(device, WAIT_MS);
  return error;
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
  int error;
  if (port == 0) {
    fprintf(stderr, "usage: first_block ADDRESS PORT DEVICE\n");
    return 2;
  }
  if (urtrs_session_new("first-block-c", &session) != 0) return 1;
  error = copy_first_block(session, argv, port);
  if (error != 0) fprintf(stderr, "first_block: %s\n", urtrs_session_message(session));
  urtrs_session_close(session, WAIT_MS);
  urtrs_session_free(session);
  return error == 0 ? 0 : 1;
}
