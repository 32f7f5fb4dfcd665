// External program that uses only installed files.
#include <cstdio>
#include <urtrs/core/driver/client.hpp>
#include <urtrs/core/record/recorder.hpp>

int main() {
  rtrs::Recorder recorder;
  const rtrs::Client client({}, &recorder);
  std::printf("a client that was not opened: link %s\n", client.link_up() ? "up" : "down");
  return client.link_up() ? 1 : 0;
}
