#include "tools/lib/trace/judge/law_messages.hpp"

#include <cerrno>
#include <type_traits>

namespace rtrs::trace {

static_assert(std::is_trivially_copyable_v<LawMessage>);

std::uint32_t LawMessageStore::write(const LawMessage* messages) {
  if (file_ == nullptr && error_ == 0) {
    file_.reset(std::tmpfile());
    last_read_.resize(8);
    if (file_ == nullptr) error_ = errno;
  }
  const auto offset = static_cast<off_t>(blocks_ * std::uint64_t{sizeof(Block)});
  if (error_ == 0 && (::fseeko(file_.get(), offset, SEEK_SET) != 0 ||
                      std::fwrite(messages, sizeof(Block), 1, file_.get()) != 1))
    error_ = errno;
  return blocks_++;
}

const LawMessage& LawMessageStore::read(std::uint32_t block, std::size_t at) {
  Read& read = last_read_[block % last_read_.size()];
  if (read.block != block) {
    const auto offset = static_cast<off_t>(block * std::uint64_t{sizeof(Block)});
    if (error_ == 0 && (::fseeko(file_.get(), offset, SEEK_SET) != 0 ||
                        std::fread(&read.messages, sizeof(Block), 1, file_.get()) != 1))
      error_ = errno != 0 ? errno : EIO;
    read.block = block;
  }
  return read.messages[at];
}

void LawMessages::add(LawMessageStore& store, const LawMessage& message) {
  constexpr std::size_t kBlock = LawMessageStore::kBlock;
  // The last message stays in memory, because back() may change it.
  if (store.held_ >= store.most_ && held_.size() >= kBlock) {
    const std::size_t whole = held_.size() / kBlock * kBlock;
    for (std::size_t at = 0; at < whole; at += kBlock) blocks_.push_back(store.write(&held_[at]));
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(whole));
    held_.shrink_to_fit();
    store.held_ -= whole;
  }
  held_.push_back(message);
  ++store.held_;
}

LawMessage LawMessages::at(LawMessageStore& store, std::size_t index) const {
  constexpr std::size_t kBlock = LawMessageStore::kBlock;
  const std::size_t block = index / kBlock;
  return block < blocks_.size() ? store.read(blocks_[block], index % kBlock)
                                : held_[index - blocks_.size() * kBlock];
}

}  // namespace rtrs::trace
