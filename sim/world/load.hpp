// The applications on top of the clients: they submit random or scripted requests and check the results.
#pragma once
#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/watch.hpp"

namespace rtrs::sim {

class Load : private Part {
 public:
  Load(Cluster& cluster, Books& books, Watch& watch) : Part(cluster), books_(books), watch_(watch) {}

  void submit_due(std::uint32_t index);
  void finished(ClientNode&, std::uint32_t index, const IoCompletion&);
  // Updates the number of IOs that the client's application on disks has in flight.
  void disk_result(ClientNode&);
  // Number of scripted requests that wait for a buffer of their application.
  std::size_t backlog() const;
  bool nothing_in_flight() const;

 private:
  bool submit_one(ClientNode&, std::uint32_t index);
  WantedRequest draw_request();
  void submit(ClientNode&, std::uint32_t index, AppBuffer&, const WantedRequest&);
  AppBuffer* free_buffer(ClientNode&);
  // Fails the run if the request must not fail with this result now.
  void check_failure(const ClientNode&, std::uint32_t io, Errc result);
  void check_read(AppBuffer&, BookedIo&, std::uint32_t io);
  void add_to_history(const ClientNode&, const BookedIo&, std::uint32_t io, const IoCompletion&,
                      const AppBuffer&, bool unmapped);
  void act_on_disks(ClientNode&);
  void disk_steps_due(ClientNode&);

  Books& books_;
  Watch& watch_;
};

}  // namespace rtrs::sim
