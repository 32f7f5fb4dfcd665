// The client's side of the NBD handshake (fixed newstyle, NBD_OPT_GO), without a socket: octets in, octets
// out. It asks for nothing that the kernel's NBD client does not speak, so that the kernel can go on from
// there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::kernel_nbd {

struct Export {
  std::uint64_t bytes = 0;
  std::uint16_t flags = 0;
  std::uint32_t least_block = 512;  // bytes
  bool operator==(const Export&) const = default;
};

class Handshake {
 public:
  // `name` of the export.
  explicit Handshake(std::string name) : name_(std::move(name)) {}

  // What came from the server, in pieces of any size. Returns what to send.
  std::string take(std::string_view octets);

  bool is_done() const noexcept { return state_ == State::done; }
  // A sentence, once it cannot be done any more.
  const std::string& error() const noexcept { return error_; }
  const Export& result() const noexcept { return export_; }

 private:
  enum class State : std::uint8_t { greeting, reply, content, done };
  std::string greeted();
  void replied();
  void answered();
  void fail(std::string why);
  std::uint64_t number(std::size_t at, std::size_t octets) const;

  std::string name_;
  std::string have_;
  State state_ = State::greeting;
  std::uint32_t type_ = 0;    // of the reply
  std::uint32_t length_ = 0;  // of its content
  bool has_export_ = false;
  Export export_;
  std::string error_;
};

}  // namespace rtrs::kernel_nbd
