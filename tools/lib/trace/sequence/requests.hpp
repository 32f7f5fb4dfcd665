// Follows each request from the application over the network to storage and back.
#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/kept.hpp"
#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

class RequestFollower {
 public:
  // Holds the requests in flight, and those that `kept` needs. Both must outlive this object.
  RequestFollower(const Story& story, const Kept& kept) : story_(story), kept_(kept) {}
  // Call for each step in order. `sender_io`: request of the step that sent the message.
  void on(Step& step, std::size_t number, Index sender_io);
  int in_flight() const noexcept { return in_flight_; }
  // Moves the requests and their spans to the story, and renumbers them in its steps.
  void finish(Story& story);

 private:
  struct Followed {
    Request request;
    unsigned uses = 0;  // places in permits_, arrived_ and delivered_
    bool closed = false;
    bool of_server = false;  // only the server recorded it
  };
  struct Holder {
    Index io = kNone;
    std::uint32_t generation = 0;
  };
  using Permits = std::map<std::pair<Index, std::uint16_t>, Holder>;  // by machine and permit
  // Requests and their storage spans, by machine, chunk and serial.
  using Delivered = std::map<std::tuple<Index, std::uint16_t, std::uint16_t>, std::pair<Index, Index>>;

  Followed* find(Index io);  // nullptr if it was dropped
  Index open(const Step& step, std::uint16_t permit, bool write, std::uint32_t bytes);
  Index open(const Step& step, std::uint16_t permit);
  void close(Index io);
  void use(Index io);
  void release(Index io);
  void drop_unneeded();
  Permits::iterator free_permit(Permits::iterator at);
  void arrive(Index connection, std::uint16_t chunk, Index io);
  void deliver(Index machine, std::uint16_t chunk, std::uint16_t serial, Index io);
  Delivered::iterator leave_storage(Delivered::iterator at);
  void forget(const Machine& owner);
  void resume(const Step& step, const Machine& machine);
  Index answered(const Step& step, const Machine& machine) const;
  void client(Step& step, const Machine& machine);
  void server(Step& step, Index sender_io);
  void end_former(const Step& step, std::uint16_t chunk);
  bool is_open_at(Index connection, Index machine, Index io) const;
  Index known(Index connection, std::uint16_t chunk) const;

  const Story& story_;
  const Kept& kept_;
  Index at_ = kNone;
  std::int64_t time_ = 0;
  int in_flight_ = 0;
  Index next_io_ = 0, next_span_ = 0;
  std::unordered_map<Index, Followed> requests_;
  std::unordered_map<Index, StorageSpan> spans_;
  std::vector<Index> unused_;  // requests that may be dropped
  Permits permits_;
  std::map<std::pair<Index, std::uint16_t>, Index> arrived_;  // requests by connection and chunk
  Delivered delivered_;
};

}  // namespace rtrs::tools::sequence
