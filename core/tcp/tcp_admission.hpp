// Clients that are connecting: listening sockets, clients whose connect request is incomplete or unanswered,
// and closed connections whose last message the peer has not read yet. All are bounded in number and time; no
// call waits for them.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/iwarp/greeting.hpp"
#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_watched.hpp"

namespace rtrs::tcp {

struct Listener final : Watched {
  Listener() noexcept : Watched(Kind::listener) {}
};

struct HalfOpen final : Watched {
  HalfOpen() noexcept : Watched(Kind::half_open) {}
  std::string client;
  std::string server;
  std::uint32_t address_pair = 0;
  std::uint32_t host = 0;     // digest of the client's host
  std::uint32_t request = 0;  // request number, see take(); 0: the connect request is incomplete
  std::uint64_t number = 0;   // order of arrival
  Nanos deadline = kNever;
  iwarp::GreetingReader reader{iwarp::GreetingKind::request};
  bool recognised = false;  // true: enough bytes arrived to determine whether the client uses a guard (TLS)
};

// A socket that stays open for a while so that the peer can read the last message.
struct LingeringSocket final : Watched {
  LingeringSocket() noexcept : Watched(Kind::last_word) {}
  Nanos deadline = kNever;
  std::size_t patience = 256U << 10U;  // maximum number of bytes that are read and discarded before the close
};

class Admission {
 public:
  // take() returns complete requests, whose numbers read() reports. `say` writes to the log. Closed objects
  // are moved to `graveyard`, because the same round may still report them as ready. `inbox` is a shared
  // buffer for the data of one receive call.
  Admission(const TcpOptions&, Poller&, TcpStats&, iwarp::MutableBytes inbox,
            std::vector<std::unique_ptr<Watched>>& graveyard,
            std::function<void(LogLevel, const std::string&)> say);

  // Starts a round: resets the limit of handshake steps.
  void begin_round() noexcept { handshakes_ = 0; }
  Errc listen(const PathAddress&);
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::size_t half_open() const noexcept { return half_open_.size(); }
  [[nodiscard]] std::size_t last_words() const noexcept { return last_words_.size(); }
  // Returns the sum of the counters per client address.
  [[nodiscard]] std::size_t half_open_by_host() const noexcept;

  // --- handlers of ready sockets ---
  void accept_clients(Listener&);
  // Returns the number of the request if it is complete now, else 0.
  std::uint32_t read(HalfOpen&);
  void drain(LingeringSocket&) noexcept;
  // Closes everything whose deadline has passed. Returns the time of the next call.
  Nanos expire(Nanos now);

  [[nodiscard]] const HalfOpen* find(std::uint32_t request) const noexcept;
  std::unique_ptr<HalfOpen> take(std::uint32_t request) noexcept;
  // Rejects a request and keeps the socket open until the peer has read the reject.
  void refuse(HalfOpen&, iwarp::Bytes private_data) noexcept;
  void keep_lingering(Socket) noexcept;

 private:
  bool accept_one(Listener&);
  // Determines whether the client uses a guard. Returns false if that is not known yet, or if the client was
  // closed.
  bool recognise(HalfOpen&);
  void refuse_for(HalfOpen&, const std::string& why);
  // Handles a receive call that returned no bytes.
  void note_silence(HalfOpen&, int error);
  void add(Socket, Transport::Client&&);
  void count_dropped_client(std::string client);
  // Closes a half-open client or a socket kept for a last message. Returns false if there is none.
  bool free_one();
  bool accept_and_drop(Listener&);
  // Closes a client because of a limit; logs the limit.
  void give_way(HalfOpen&, const std::string& limit);
  void close_oldest_of_busiest_host(const std::string& limit);
  void close(HalfOpen&);
  void close_oldest_lingering() noexcept;
  void pause(Listener&) noexcept;
  void tell(Nanos now);

  const TcpOptions& options_;
  Poller& poller_;
  TcpStats& stats_;
  iwarp::MutableBytes inbox_;
  unsigned handshakes_ = 0;  // handshake steps in this round
  std::vector<std::unique_ptr<Watched>>& free_at_next_poll_;
  std::function<void(LogLevel, const std::string&)> say_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Nanos paused_until_ = kNever;

  // Keyed by number, so that the order of iteration does not depend on memory addresses.
  std::unordered_map<std::uint64_t, std::unique_ptr<HalfOpen>> half_open_;
  std::unordered_map<std::uint32_t, HalfOpen*> requests_;
  std::unordered_map<std::uint32_t, unsigned> of_host_;
  std::deque<std::unique_ptr<LingeringSocket>> last_words_;
  std::uint64_t next_number_ = 0;
  std::uint32_t next_request_ = 0;

  // Closed and dropped clients that tell() has not logged yet.
  std::uint64_t closed_ = 0;
  std::uint64_t dropped_clients_ = 0;
  std::string last_closed_;
  std::string last_dropped_client_;
  Nanos next_report_ = 0;
};

}  // namespace rtrs::tcp
