// Prints a Markdown table of the adapter work (doorbells, work requests, completions, ...) per 4 KiB request
// at both ends. With two arguments, the number of a table line and a number of requests, it runs only these
// requests, for use under a profiler. With a leading argument `wr`, both ends post with ibv_wr_*().
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "conformance/adapters/counted_io.hpp"

namespace {

using namespace rtrs;
using namespace conformance;
using namespace mock_hca;

struct Line {
  const char* name;
  Load load;
};

constexpr Line kLines[] = {
    {"read, 1 in flight", {Direction::read, Keys::stay, 1, 1}},
    {"read, 32 in flight", {Direction::read, Keys::stay, 32, 1}},
    {"read, 32 in flight over 4 connections", {Direction::read, Keys::stay, 32, 4}},
    {"write, 1 in flight", {Direction::write, Keys::stay, 1, 1}},
    {"write, 32 in flight", {Direction::write, Keys::stay, 32, 1}},
    {"read, type 1, 1 in flight", {Direction::read, Keys::of_chunks, 1, 1}},
    {"read, type 1, 32 in flight", {Direction::read, Keys::of_chunks, 32, 1}},
    {"write, type 1, 1 in flight", {Direction::write, Keys::of_chunks, 1, 1}},
    {"write, type 1, 32 in flight", {Direction::write, Keys::of_chunks, 32, 1}},
    {"read, type 2, 1 in flight", {Direction::read, Keys::of_requests, 1, 1}},
    {"read, type 2, 32 in flight", {Direction::read, Keys::of_requests, 32, 1}},
    {"read between urtrs, 1 in flight", {Direction::read, Keys::stay, 1, 1, false}},
    {"read between urtrs, 32 in flight", {Direction::read, Keys::stay, 32, 1, false}},
};

constexpr unsigned kRequests = 2000, kWarm = 200;

std::array<Profile, 2> adapters() {
  std::array<Profile, 2> both{mlx5(), mlx5()};
  both[1].name = "mlx5_1";
  return both;
}

[[noreturn]] void fail(const Line& line) {
  std::fprintf(stderr, "bench_verbs: %s: the requests fail\n", line.name);
  std::exit(1);
}

void print(const Line& line, const char* end, const Counts& before, const Counts& after) {
  const auto each = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / kRequests;
  };
  std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", line.name, end,
              each(before.doorbells, after.doorbells), each(before.batches, after.batches),
              each(before.work_requests, after.work_requests),
              each(before.receive_calls, after.receive_calls), each(before.receives, after.receives),
              each(before.completions, after.completions), each(before.polls, after.polls),
              each(before.arms, after.arms));
}

void measure(const Line& line, verbs::Posting posting) {
  Load load = line.load;
  load.posting = posting;
  CountedIo io(load, adapters());
  if (!io.ready() || !io.run(kRequests)) fail(line);
  const Counts server = counts(CountedIo::kServer), client = counts(CountedIo::kClient);
  if (!io.run(kRequests)) fail(line);
  print(line, "server", server, counts(CountedIo::kServer));
  print(line, "client", client, counts(CountedIo::kClient));
}

}  // namespace

int main(int argc, char** argv) {
  verbs::Posting posting = verbs::Posting::send;
  if (argc > 1 && std::string_view(argv[1]) == "wr") {
    posting = verbs::Posting::calls;
    --argc, ++argv;
  }
  if (argc == 3) {
    const unsigned number = static_cast<unsigned>(std::atoi(argv[1]));
    if (number >= std::size(kLines)) return 2;
    Load load = kLines[number].load;
    load.posting = posting;
    CountedIo io(load, adapters());
    if (!io.ready() || !io.run(kWarm) || !io.run(static_cast<unsigned>(std::atoi(argv[2]))))
      fail(kLines[number]);
    return 0;
  }
  std::puts(
      "| 4 KiB, keys | end | doorbells | of these ibv_wr_*() | work requests | receive calls | receives | "
      "completions | polls | arms |");
  std::puts("|---|---|---|---|---|---|---|---|---|---|");
  for (const Line& line : kLines) measure(line, posting);
  return 0;
}
