// The Keeper carries out what tools/lib/control/mapping decides: it starts and stops the processes that serve
// sessions, calls them through their control sockets, and writes the state file. Use it only in the thread of
// the event loop.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/mapping/supervisor.hpp"
#include "tools/lib/control/rpc/async_client.hpp"
#include "tools/urtrs-mapd/options.hpp"
#include "tools/urtrs-mapd/process.hpp"
#include "tools/urtrs-mapd/session_failure.hpp"
#include "tools/urtrs-mapd/session_report.hpp"

namespace rtrs::mapd {

class Keeper {
 public:
  // Receives nullopt for success, or the error, whose hint may be empty.
  using Then = std::function<void(std::optional<rpc::Error>)>;

  Keeper(boost::asio::io_context&, const Options&, const mapping::Wishes&, mapping::Supervisor::Options);

  // Takes over processes that already run, and starts missing ones.
  void begin();
  // Stops all processes, then calls `then`. No other function may be called after this.
  void end_all(std::function<void()> then);

  void map(const std::string& session, const mapping::SessionWish&, const std::string& device,
           mapping::DeviceWish, Then then);
  void unmap(const std::string& session, const std::string& device, bool force, Then then);
  // Adds or removes a path of a session.
  void change_path(const mapping::PathChangeRequested&, Then then);
  // Retries without waiting for the next attempt: reopens a device that was rejected, or restarts a process
  // that ended.
  void remap(const std::string& session, const std::string& device, Then then);

  const mapping::Supervisor& machine() const noexcept { return machine_; }
  SessionFiles files_of(const std::string& session) const { return {options_.folder, session}; }
  // Returns the state of the device that the process of the session last reported; zeros if it has reported
  // none.
  SeenDevice seen(const std::string& session, const std::string& device) const;
  // Returns the process id for a session; 0 if no process runs.
  pid_t process_of(const std::string& session) const;
  // Explains why the session is not connected; empty if it is connected or the reason is unknown.
  std::string trouble(const std::string& session) const;

 private:
  struct Served {
    explicit Served(boost::asio::io_context& context) : look(context) {}
    std::unique_ptr<Process> process;
    std::unique_ptr<rpc::AsyncClient> link;
    boost::asio::steady_timer look;  // time of the next query of the process state
    bool looking = false;            // a query is pending
    std::map<std::string, SeenDevice> seen;
    Trouble trouble;
    std::string refusal;  // error text for the device that was last rejected
    rpc::Error path_refusal{};
  };

  void give(const mapping::Input&);
  void carry_out(const mapping::Start&);
  void carry_out(const mapping::End&);
  void carry_out(const mapping::Map&);
  void carry_out(const mapping::Cancel&);
  void carry_out(const mapping::Unmap&);
  void carry_out(const mapping::ChangePath&);
  void carry_out(const mapping::Save&);
  void carry_out(const mapping::Done&);
  std::vector<std::string> command_of(const std::string& session) const;
  Process::Gone gone(const std::string& session);
  // Calls `method` on the control socket of the process that serves the session.
  using Answered = std::function<void(const tl::expected<nlohmann::json, rpc::Error>&)>;
  void ask(const std::string& session, const char* method, const nlohmann::json& parameters, Answered then);
  void look_at(const std::string& session);
  void schedule_check(const std::string& session);
  void on_shown(const std::string& session, const nlohmann::json& shown);
  void forget_unused();
  void arm();
  Served& served(const std::string& session);
  Nanos now() const;
  rpc::Error explain(int error, const std::string& session, const std::string& device,
                     const char* doing) const;
  rpc::Error explain_path(int error, const std::string& session, const std::string& path,
                          const char* doing) const;
  rpc::Error save_error(int error, const std::string& device, const char* doing) const;
  mapping::Ticket wait(Then then, const std::string& session, const std::string& device, const char* doing);

  struct Waiter {
    Then then;
    std::string session;
    std::string device;
    const char* doing;
  };

  boost::asio::io_context& context_;
  Options options_;
  bool lost_;  // the state file was damaged, so the requested sessions and devices are unknown
  mapping::Supervisor machine_;
  boost::asio::steady_timer tick_;
  std::map<std::string, Served> served_;
  std::map<mapping::Ticket, Waiter> waiters_;
  mapping::Ticket tickets_ = 0;
  int save_error_ = 0;
  std::optional<mapping::Saved> saved_;  // result of the last Save action
  std::function<void()> ended_;          // callback of end_all()
};

}  // namespace rtrs::mapd
