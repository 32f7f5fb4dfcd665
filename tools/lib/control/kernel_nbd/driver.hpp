// Carries out what keeper.hpp decides, in a process that has CAP_SYS_ADMIN. Everything is on the thread of
// the event loop.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tools/lib/control/kernel_nbd/keeper.hpp"
#include "tools/lib/control/kernel_nbd/kernel.hpp"
#include "tools/lib/control/kernel_nbd/open_export.hpp"
#include "tools/lib/control/rpc/async_client.hpp"

namespace rtrs::kernel_nbd {

// Where things are; a test has others.
struct Places {
  std::string blocks = "/sys/block";
  std::function<tl::expected<std::unique_ptr<Kernel>, int>()> open = open_kernel;
  std::function<tl::expected<std::unique_ptr<LostConnections>, int>()> watch = watch_kernel;
};

class Driver {
 public:
  // `severity` is one of syslog(3).
  using Log = std::function<void(int severity, const std::string& line)>;

  Driver(boost::asio::io_context&, Places, Keeper::Options, Log);
  ~Driver();

  // Takes over what is attached.
  void begin();

 private:
  // From within as well: then it is for when the actions of the input before are carried out.
  void give(const Input&);
  void carry_out(const List&);
  void carry_out(const Open&);
  void carry_out(const HandOver&);
  void carry_out(const Close&);
  void carry_out(const LookAtSize&);
  void carry_out(const Resize&);
  void carry_out(const Detach&);
  void carry_out(const Tell&);
  // False: the kernel cannot be asked, and why is told once.
  bool has_kernel();
  // The next has_kernel() asks anew.
  void forget_kernel();
  void await_news();
  void arm();

  boost::asio::io_context& context_;
  Places places_;
  Log log_;
  Keeper machine_;
  std::deque<Input> inputs_;  // not given yet
  bool gives_ = false;
  boost::asio::steady_timer tick_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<LostConnections> lost_;
  boost::asio::posix::stream_descriptor news_;
  int kernel_error_ = 0;
  std::map<Serial, OpenExport> opened_;
  std::map<std::string, std::unique_ptr<rpc::AsyncClient>> links_;  // by control socket
};

// "/run/urtrs/nbd-SESSION.sock": the control socket of the same nbdkit; empty: it has none that is known.
std::string control_of(const std::string& socket);

}  // namespace rtrs::kernel_nbd
