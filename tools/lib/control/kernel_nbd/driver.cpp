#include "tools/lib/control/kernel_nbd/driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace rtrs::kernel_nbd {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds kOpenPatience{5};
constexpr std::chrono::seconds kLookPatience{5};
constexpr std::string_view kNbdPrefix = "nbd-";

Nanos now() {
  return static_cast<Nanos>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now().time_since_epoch())
                                .count());
}

std::uint64_t size_in(const json& shown, const std::string& name) {
  try {
    for (const json& device : shown.at("devices"))
      if (device.at("mapping_path") == name) return device.at("size_bytes");
  } catch (const json::exception&) {
    return 0;  // invalid responses are not logged here, because urtrs-mapd logs them
  }
  return 0;
}

}  // namespace

std::string control_of(const std::string& socket) {
  const std::filesystem::path path(socket);
  const std::string name = path.filename();
  if (!name.starts_with(kNbdPrefix)) return {};
  return path.parent_path() / ("client-map-" + name.substr(kNbdPrefix.size()));
}

Driver::Driver(boost::asio::io_context& context, Places places, Keeper::Options how, Log log)
    : context_(context),
      places_(std::move(places)),
      log_(std::move(log)),
      machine_(how),
      tick_(context),
      news_(context) {}

Driver::~Driver() {
  forget_kernel();
}

void Driver::begin() {
  give(Tick{});
}

void Driver::give(const Input& input) {
  inputs_.push_back(input);
  if (gives_) return;
  gives_ = true;
  while (!inputs_.empty()) {
    const Input next = std::move(inputs_.front());
    inputs_.pop_front();
    for (const Action& action : machine_.on(next, now()))
      std::visit([this](const auto& one) { carry_out(one); }, action);
  }
  gives_ = false;
  arm();
}

void Driver::arm() {
  const Nanos next = machine_.next_tick();
  const Nanos at = now();
  tick_.expires_after(std::chrono::nanoseconds(next > at ? next - at : 0));
  tick_.async_wait([this](const boost::system::error_code& stopped) {
    if (!stopped) give(Tick{});
  });
}

bool Driver::has_kernel() {
  if (kernel_ && lost_) return true;
  int error = 0;
  // Opens the event listener before the kernel interface, so that no event is missed.
  if (auto watch = places_.watch(); !watch)
    error = watch.error();
  else
    lost_ = std::move(*watch);
  if (auto kernel = error == 0 ? places_.open() : tl::unexpected(error); !kernel)
    error = kernel.error();
  else
    kernel_ = std::move(*kernel);
  if (error == 0) {
    kernel_error_ = 0;
    news_.assign(lost_->fd());
    wait_for_kernel_events();
    give(NewsMissed{});
    return true;
  }
  forget_kernel();
  if (std::exchange(kernel_error_, error) != error)
    log_(4, fmt::format("cannot open netlink to the kernel's NBD client: {} (errno {}); retrying",
                        std::strerror(error), error));
  return false;
}

void Driver::forget_kernel() {
  if (news_.is_open()) news_.release();  // the descriptor belongs to libnl
  lost_.reset();
  kernel_.reset();
}

void Driver::wait_for_kernel_events() {
  news_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this, asked = lost_.get()](const boost::system::error_code& error) {
                     if (error || asked != lost_.get()) return;
                     const LostConnections::News news = lost_->read();
                     wait_for_kernel_events();  // comes first, because give() may call forget_kernel()
                     if (news.missed) give(NewsMissed{});
                     for (const unsigned index : news.lost) give(Lost{index});
                   });
}

void Driver::carry_out(const List&) {
  std::erase_if(links_, [](const auto& one) { return one.second->is_over(); });
  std::vector<Attached> all = attached_devices(places_.blocks);
  // While no device is attached, the netlink sockets stay closed, so that they do not cause the nbd module to
  // be loaded. The module can be unloaded while they are closed. After the module is loaded again, its
  // netlink family has another number and no listeners.
  if (all.empty())
    forget_kernel();
  else if (!has_kernel())
    return;
  give(Listed{std::move(all)});
}

void Driver::carry_out(const Open& open) {
  open_export(context_, open.socket, open.name, kOpenPatience,
              [this, serial = open.serial](OpenResult opened) {
                if (!opened) return give(NotOpened{serial, opened.error().why, opened.error().is_dead});
                const Export what = opened->what;
                opened_.insert_or_assign(serial, std::move(*opened));
                give(Opened{serial, what});
              });
}

void Driver::carry_out(const HandOver& one) {
  const auto found = opened_.find(one.serial);
  if (found == opened_.end()) return;
  const int error =
      kernel_ ? kernel_->hand_over(one.index, identity_of(one.what), found->second.fd.get()) : ENOTCONN;
  opened_.erase(found);  // closes this process's copy of the descriptor; the kernel has its own, or has
                         // refused the device
  if (error == ENOENT) forget_kernel();  // the nbd module was reloaded
  give(HandedOver{one.index, error});
}

void Driver::carry_out(const Close& close) {
  opened_.erase(close.serial);
}

void Driver::carry_out(const QuerySize& look) {
  const std::string control = control_of(look.socket);
  if (control.empty()) return;
  auto& link = links_[control];
  if (!link || link->is_over()) {
    auto made = rpc::AsyncClient::connect(context_, control);
    if (!made) {
      links_.erase(control);
      return;
    }
    link = std::move(*made);
  }
  link->call("client.show", json::object(), kLookPatience,
             [this, look](const tl::expected<json, rpc::Error>& answered) {
               if (answered) give(SizeReported{look.index, size_in(*answered, look.name)});
             });
}

void Driver::carry_out(const Resize& resize) {
  give(Resized{resize.index,
               kernel_ ? kernel_->resize(resize.index, identity_of(resize.what), resize.bytes) : ENOTCONN});
}

void Driver::carry_out(const Detach& detach) {
  const std::vector<Attached> all = attached_devices(places_.blocks);
  const bool there = std::any_of(all.begin(), all.end(), [&](const Attached& one) {
    return one.index == detach.index && one.what == detach.what;
  });
  if (!there || !kernel_) return;
  if (const int error = kernel_->detach(detach.index); error != 0)
    log_(3, fmt::format("/dev/nbd{} cannot be detached: {} (errno {})", detach.index, std::strerror(error),
                        error));
}

void Driver::carry_out(const Tell& tell) {
  log_(tell.grade == Tell::Grade::error ? 3 : tell.grade == Tell::Grade::warning ? 4 : 6, tell.line);
}

}  // namespace rtrs::kernel_nbd
