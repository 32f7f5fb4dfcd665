#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "tools/dev/netns-faults.d/load/history.hpp"

namespace rtrs::real {

HistoryWriter::~HistoryWriter() {
  if (file_ >= 0) ::close(file_);
}

int HistoryWriter::open(const std::string& file, std::uint32_t client, std::uint64_t seed,
                        std::uint32_t cells) {
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) return errno;
  put("urtrs-history 1 " + std::to_string(client) + " " + std::to_string(seed) + " " + std::to_string(cells) +
      "\n");
  return error_;
}

void HistoryWriter::begin(bool write, std::uint32_t id, std::uint32_t first, std::uint32_t count, Time at) {
  put((write ? "w " : "r ") + std::to_string(id) + " " + std::to_string(first) + " " + std::to_string(count) +
      " " + std::to_string(at) + "\n");
}

void HistoryWriter::answer(std::uint32_t id, Outcome outcome, int error,
                           std::span<const std::uint32_t> values, Time at) {
  std::string line = "a " + std::to_string(id);
  if (outcome == Outcome::ok) line += " ok ";
  if (outcome == Outcome::peer) line += " peer " + std::to_string(error) + " ";
  if (outcome == Outcome::gone) line += " gone " + std::to_string(error) + " ";
  line += std::to_string(at);
  for (const std::uint32_t value : values) line += value == kBroken ? " x" : " " + std::to_string(value);
  put(line + "\n");
}

void HistoryWriter::end(Time at) {
  put("end " + std::to_string(at) + "\n");
}

void HistoryWriter::put(const std::string& line) {
  std::size_t done = 0;
  while (done < line.size() && error_ == 0) {
    const ssize_t count = ::write(file_, line.data() + done, line.size() - done);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) error_ = errno;
  }
}

}  // namespace rtrs::real
