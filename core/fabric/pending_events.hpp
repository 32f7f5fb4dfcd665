// Events that a fabric reports with its next poll().
#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/fabric/work.hpp"

namespace rtrs {

class PendingEvents {
 public:
  // `bytes`: the peer's bytes of an event that has bytes, see event::bytes_in(). If there is no memory
  // (std::bad_alloc), the list of events stays unchanged.
  void add(const FabricEvent& event, std::string bytes = {}) {
    events_.push_back(Pending{.event = event, .bytes = std::move(bytes)});
  }
  // Reserves memory so that the next add() does not throw.
  void reserve_one() {
    if (events_.size() == events_.capacity()) events_.reserve(2 * events_.size() + 8);
  }
  bool empty() const noexcept { return events_.empty(); }

  // Moves the oldest events to `out` and returns their number. Their bytes are valid until free_bytes().
  std::size_t take(std::span<FabricEvent> out) noexcept {
    std::size_t count = 0;
    while (count < out.size() && taken_ < events_.size()) {
      Pending& next = events_[taken_++];
      out[count] = next.event;
      if (!next.bytes.empty()) {
        shown_bytes_.push_back(std::move(next.bytes));
        *event::bytes_in(out[count]) = std::as_bytes(std::span(std::as_const(shown_bytes_.back())));
      }
      ++count;
    }
    if (taken_ == events_.size()) {
      events_.clear();
      taken_ = 0;
    }
    return count;
  }
  bool has_bytes() const noexcept { return !shown_bytes_.empty(); }
  // Frees the bytes of the events that take() returned before.
  void free_bytes() noexcept { shown_bytes_.clear(); }

  // Drops the events of a connection that is closed here, except completed invalidations, because their keys
  // are revoked whether or not the connection exists.
  void drop(const ConKey& key) noexcept {
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    std::erase_if(events_, [&key](const Pending& one) {
      return event::is_of(one.event, key) && !std::holds_alternative<event::ChunkInvalidated>(one.event);
    });
  }

 private:
  struct Pending {
    FabricEvent event;
    std::string bytes;
  };
  std::vector<Pending> events_;
  std::size_t taken_ = 0;                // events at the front of events_ that take() has returned
  std::deque<std::string> shown_bytes_;  // a deque never moves its strings, to which the events refer
};

}  // namespace rtrs
