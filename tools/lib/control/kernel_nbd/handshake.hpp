// Client side of the NBD handshake (fixed newstyle, NBD_OPT_GO). Does not use a socket: the caller passes in
// received bytes and sends the returned ones. Negotiates only features that the kernel's NBD client supports,
// because the kernel takes over the connection after the handshake.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::kernel_nbd {

struct Export {
  std::uint64_t bytes = 0;
  std::uint16_t flags = 0;          // NBD transmission flags
  std::uint32_t least_block = 512;  // minimum block size in bytes, a power of two
  bool operator==(const Export&) const = default;
};

class Handshake {
 public:
  // `name`: the export to open.
  explicit Handshake(std::string name) : name_(std::move(name)) {}

  // Processes bytes from the server, which may arrive in pieces of any size. Returns the bytes to send.
  std::string take(std::string_view octets);

  bool is_done() const noexcept { return state_ == State::done; }
  // Returns the reason why the handshake failed, as a human-readable message; empty if it has not failed.
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
  std::uint32_t type_ = 0;    // type of the current reply
  std::uint32_t length_ = 0;  // length of the reply's content, in bytes
  bool has_export_ = false;
  Export export_;
  std::string error_;
};

}  // namespace rtrs::kernel_nbd
