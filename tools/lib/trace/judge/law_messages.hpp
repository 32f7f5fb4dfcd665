// Messages that one end of a connection sent or received, for the law check. If all ends together have more
// than fit into memory, the oldest messages are in a file without a name.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "conformance/spec/event.hpp"

namespace rtrs::trace {

struct LawMessage {
  spec::WireOp op = spec::WireOp::write;
  std::uint32_t imm = 0;
  std::uint32_t length = 0;
  bool known = true;  // true if `length` is known
  std::uint32_t head_size = 0;
  std::uint64_t head = 0;   // digest of the head, which the protocol machines parse
  std::uint64_t data = 0;   // digest of the bytes outside the head; 0: none
  std::uint64_t order = 0;  // position of the message's record among all records
  std::uint64_t seq = 0;    // number of the record in its trace
  std::uint64_t time = 0;
  // Client: data of the READ that this response ended; its length is 0 if it was not recorded.
  std::uint32_t read_length = 0;
  std::uint32_t read_head_size = 0;
  std::uint64_t read_head = 0;
  std::uint64_t read_data = 0;
};

// Shared by all lists of a law check.
class LawMessageStore {
 public:
  // `most`: messages in memory, besides some of each list.
  explicit LawMessageStore(std::size_t most) : most_(most) {}
  int error() const noexcept { return error_; }  // errno of the first failure; 0: none

 private:
  friend class LawMessages;
  static constexpr std::size_t kBlock = 64;
  using Block = std::array<LawMessage, kBlock>;
  struct Close {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  struct Read {
    std::uint32_t block = ~std::uint32_t{0};
    Block messages;
  };
  std::uint32_t write(const LawMessage* messages);
  const LawMessage& read(std::uint32_t block, std::size_t at);

  const std::size_t most_;
  std::size_t held_ = 0;  // messages in memory
  std::uint32_t blocks_ = 0;
  int error_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<Read> last_read_;  // by block modulo its size; empty without a file
};

class LawMessages {
 public:
  std::size_t size() const noexcept { return blocks_.size() * LawMessageStore::kBlock + held_.size(); }
  bool empty() const noexcept { return size() == 0; }
  LawMessage& back() noexcept { return held_.back(); }
  void add(LawMessageStore& store, const LawMessage& message);
  LawMessage at(LawMessageStore& store, std::size_t index) const;

 private:
  std::vector<std::uint32_t> blocks_;  // of the file, with the first messages
  std::vector<LawMessage> held_;
};

}  // namespace rtrs::trace
