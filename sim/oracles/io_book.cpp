#include "sim/oracles/io_book.hpp"

#include <algorithm>

namespace rtrs::sim {

std::optional<std::string> IoBook::check(std::uint32_t sectors, bool actual_windows,
                                         const std::vector<bool>& spoiled) const {
  struct Register {
    std::vector<RegisterWrite> writes;
    std::vector<RegisterRead> reads;
  };
  std::vector<Register> registers(sectors);
  for (std::size_t number = 1; number < ios_.size(); ++number) {
    const BookedIo& io = ios_[number];
    for (std::uint32_t index = 0; index < io.sectors && io.lba + index < sectors; ++index) {
      Register& one = registers[io.lba + index];
      if (io.direction == Direction::write) {
        Tick end = io.window_end;
        if (actual_windows && end != kOpenEnd) end = std::max(end, io.last_effect);
        one.writes.push_back(
            {static_cast<std::uint32_t>(number), io.invoked, io.good ? io.answered : kOpenEnd, end});
      } else if (io.good) {
        one.reads.push_back({values_[io.values + index], io.invoked, io.answered});
      }
    }
  }
  for (std::uint32_t lba = 0; lba < sectors; ++lba) {
    if (spoiled[lba]) continue;
    if (const char* why = broken_register(registers[lba].writes, registers[lba].reads))
      return "sector " + std::to_string(lba) + ": " + why;
  }
  return std::nullopt;
}

}  // namespace rtrs::sim
