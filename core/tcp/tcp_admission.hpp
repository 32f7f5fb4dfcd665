// Who wants to connect: sockets that listen, clients whose connect request is not whole or not answered, and
// sockets that are kept for a last word. All bounded in number and time, none ever waited for.
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
  std::uint32_t host = 0;     // digest of its address
  std::uint32_t request = 0;  // 0: not whole yet
  std::uint64_t number = 0;   // in the order of coming
  Nanos deadline = kNever;
  iwarp::GreetingReader reader{iwarp::GreetingKind::request};
  bool recognised = false;  // whether it comes with a guard is known
};

// The other end gets time to read what was said last.
struct LastWord final : Watched {
  LastWord() noexcept : Watched(Kind::last_word) {}
  Nanos deadline = kNever;
  std::size_t patience = 256U << 10U;  // octets that are still read
};

class Admission {
 public:
  // `whole` is told of each request that is whole; take() then gives it. `say` writes to the log. What is
  // closed is put into `graveyard`, because it may be named once more in the same round.
  // What one call may receive goes to `inbox`, which is shared.
  Admission(const TcpOptions&, Poller&, TcpStats&, iwarp::MutableBytes inbox,
            std::vector<std::unique_ptr<Watched>>& graveyard,
            std::function<void(LogLevel, const std::string&)> say);

  // A round begins: handshakes of guards may take time again.
  void begin_round() noexcept { handshakes_ = 0; }
  Errc listen(const PathAddress&);
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::size_t half_open() const noexcept { return half_open_.size(); }
  [[nodiscard]] std::size_t last_words() const noexcept { return last_words_.size(); }
  // As the limit of each address counts them.
  [[nodiscard]] std::size_t half_open_by_host() const noexcept;

  // --- what was named ---
  void accept_clients(Listener&);
  // The number of the request if it is whole now, else 0.
  std::uint32_t read(HalfOpen&);
  void drain(LastWord&) noexcept;
  // Closes what is overdue. Returns when it wants to be asked again.
  Nanos expire(Nanos now);

  [[nodiscard]] const HalfOpen* find(std::uint32_t request) const noexcept;
  std::unique_ptr<HalfOpen> take(std::uint32_t request) noexcept;
  // Rejects a request and keeps the socket until that is read.
  void refuse(HalfOpen&, iwarp::Bytes private_data) noexcept;
  void keep_for_last_word(Socket) noexcept;

 private:
  bool accept_one(Listener&);
  // False: not known yet, or it was closed.
  bool recognise(HalfOpen&);
  void refuse_for(HalfOpen&, const std::string& why);
  // No octets came, or not yet.
  void note_silence(HalfOpen&, int error);
  void add(Socket, Transport::Client&&);
  void note_turned_away(std::string client);
  // Closes a half-open client or a last word. False: there is none.
  bool free_one();
  bool turn_away(Listener&);
  // Closes it because of a limit, which the log names.
  void give_way(HalfOpen&, const std::string& limit);
  void close_one_of_the_crowd(const std::string& limit);
  void close(HalfOpen&);
  void close_last_word() noexcept;
  void pause(Listener&) noexcept;
  void tell(Nanos now);

  const TcpOptions& options_;
  Poller& poller_;
  TcpStats& stats_;
  iwarp::MutableBytes inbox_;
  unsigned handshakes_ = 0;  // that were worked on in this round
  std::vector<std::unique_ptr<Watched>>& graveyard_;
  std::function<void(LogLevel, const std::string&)> say_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Nanos paused_until_ = kNever;

  // By number, so that the order in which they are gone through does not depend on where they are.
  std::unordered_map<std::uint64_t, std::unique_ptr<HalfOpen>> half_open_;
  std::unordered_map<std::uint32_t, HalfOpen*> requests_;
  std::unordered_map<std::uint32_t, unsigned> of_host_;
  std::deque<std::unique_ptr<LastWord>> last_words_;
  std::uint64_t next_number_ = 0;
  std::uint32_t next_request_ = 0;

  // Not told yet.
  std::uint64_t closed_ = 0;
  std::uint64_t turned_away_ = 0;
  std::string last_closed_;
  std::string last_turned_away_;
  Nanos next_report_ = 0;
};

}  // namespace rtrs::tcp
