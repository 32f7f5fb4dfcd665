// Carries out the actions of Keeper (keeper.hpp), in a process that has CAP_SYS_ADMIN. All functions and
// callbacks run on the thread of the event loop.
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

// Access to the kernel; tests replace it.
struct Places {
  std::string blocks = "/sys/block";
  std::function<tl::expected<std::unique_ptr<Kernel>, int>()> open = open_kernel;
  std::function<tl::expected<std::unique_ptr<LostConnections>, int>()> watch = watch_kernel;
};

class Driver {
 public:
  // `severity` is a level of syslog(3).
  using Log = std::function<void(int severity, const std::string& line)>;

  Driver(boost::asio::io_context&, Places, Keeper::Options, Log);
  ~Driver();

  // Starts, and takes over all devices that are already attached.
  void begin();

 private:
  // Passes an input to the state machine and carries out the resulting actions. If an action calls give(),
  // the new input is queued until all actions of the current input are carried out.
  void give(const Input&);
  void carry_out(const List&);
  void carry_out(const Open&);
  void carry_out(const HandOver&);
  void carry_out(const Close&);
  void carry_out(const QuerySize&);
  void carry_out(const Resize&);
  void carry_out(const Detach&);
  void carry_out(const Tell&);
  // Opens the netlink sockets if they are closed. If that fails, logs the cause once and returns false.
  bool has_kernel();
  // Closes the netlink sockets; the next has_kernel() opens them again.
  void forget_kernel();
  void wait_for_kernel_events();
  void arm();

  boost::asio::io_context& context_;
  Places places_;
  Log log_;
  Keeper machine_;
  std::deque<Input> inputs_;  // inputs that give() has not processed yet
  bool gives_ = false;
  boost::asio::steady_timer tick_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<LostConnections> lost_;
  boost::asio::posix::stream_descriptor news_;
  int kernel_error_ = 0;
  std::map<Serial, OpenExport> opened_;
  // Connections to nbdkit, by control socket.
  std::map<std::string, std::unique_ptr<rpc::AsyncClient>> links_;
};

// Returns the path of the control socket of the nbdkit whose NBD socket is `socket`
// ("/run/urtrs/nbd-SESSION.sock"); an empty string if `socket` has another form.
std::string control_of(const std::string& socket);

}  // namespace rtrs::kernel_nbd
