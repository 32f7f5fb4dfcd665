// Cost of the TCP fabric's iWARP layer: `bench_iwarp [crc] [IOS]`. An IO is a 4 KiB write with immediate in
// one direction and an immediate in the other. 32 IOs are in one buffer, like in one poll round. To count the
// instructions of the receiving side (or of the sending side, with measured_send):
//   valgrind --tool=callgrind --toggle-collect='*measured_receive*' bench_iwarp
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/iwarp/stream.hpp"
#include "core/iwarp/writer.hpp"

namespace {

using namespace rtrs::iwarp;

constexpr unsigned kBatch = 32;
constexpr std::size_t kIo = 4096;
constexpr std::uint64_t kBase = 0x7f0000000000;

class BenchMemory final : public Memory {
 public:
  BenchMemory() : bytes_(kBatch * kIo) {}
  Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n, MutableBytes& place) noexcept override {
    if (key != 1) return Fault::unknown_key;
    const Fault fault = judge_range(to, n, kBase, bytes_.size());
    if (fault == Fault::none) place = {bytes_.data() + (to - kBase), n};
    return fault;
  }
  std::optional<MutableBytes> take_receive() noexcept override { return MutableBytes(); }
  Fault invalidate(std::uint32_t) noexcept override { return Fault::bad_invalidation; }

 private:
  std::vector<std::byte> bytes_;
};

struct End {
  explicit End(bool crc, Role role)
      : staging(kMaxFpduBytes),
        arena(kBatch * 128),
        pieces(kBatch * 4),
        events(kBatch * 2),
        stream({.role = role, .crc = crc, .staging = staging}),
        writer(crc),
        out(arena, pieces) {}
  std::vector<std::byte> staging;
  std::vector<std::byte> arena;
  std::vector<Bytes> pieces;
  std::vector<Event> events;
  BenchMemory memory;
  Stream stream;
  Writer writer;
  Outgoing out;
};

__attribute__((noinline)) std::size_t measured_receive(End& end, Bytes buffer) {
  Events events(end.events);
  const std::size_t taken = end.stream.feed(buffer, end.memory, events);
  return taken == buffer.size() ? events.all().size() : 0;
}

__attribute__((noinline)) bool measured_send(End& end, Bytes payload) {
  end.out.clear();
  bool good = true;
  for (unsigned i = 0; i < kBatch; ++i)
    good &= payload.empty() ? end.writer.write_immediate(0, 0, {}, i, end.out)
                            : end.writer.write_immediate(1, kBase + i * kIo, {&payload, 1}, i, end.out);
  return good;
}

std::vector<std::byte> gathered(const End& end) {
  std::vector<std::byte> buffer;
  for (const Bytes& piece : end.out.pieces()) buffer.insert(buffer.end(), piece.begin(), piece.end());
  return buffer;
}

}  // namespace

int main(int argc, char** argv) {
  const bool crc = argc > 1 && std::string_view(argv[1]) == "crc";
  const char* const count = argc > 1 ? argv[argc - 1] : "";
  const unsigned long wanted = std::strtoul(count, nullptr, 10);
  const unsigned long ios = wanted != 0 ? wanted : 32'000;
  End client(crc, Role::initiator);
  End server(crc, Role::responder);
  const std::vector<std::byte> payload(kIo, std::byte{0x5a});
  unsigned long done = 0;
  for (; done < ios; done += kBatch) {
    if (!measured_send(client, payload)) return 1;
    const auto requests = gathered(client);
    if (measured_receive(server, requests) < kBatch) return 1;
    if (!measured_send(server, {})) return 1;
    const auto answers = gathered(server);
    if (measured_receive(client, answers) < kBatch) return 1;
  }
  std::printf("%lu IOs%s\n", done, crc ? " with CRC" : "");
  return 0;
}
