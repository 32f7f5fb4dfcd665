// Collects what happened to block devices, and explains one of them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/device_event.hpp"
#include "tools/lib/trace/why/facts.hpp"

namespace rtrs::tools::why {

struct DeviceNote {
  Ref ref;
  bool client = false;
  bool trouble = false;  // an error, or the end of the device
  bool open = false;     // the device is open from here on
  std::string text;
};

// The devices of all traces, by name. Follows the records of each trace in order.
class DeviceLog {
 public:
  void on(Index file, unsigned instance, const spec::DeviceEvent&);
  struct Device {
    Index file = kNone;
    bool client = false;
    std::vector<std::uint64_t> numbers;  // handle of a client, or all ids from the server
    std::string name;
    std::vector<DeviceNote> notes;
    bool unmapped = false;
  };
  const std::vector<Device>& devices() const noexcept { return devices_; }

 private:
  static constexpr std::size_t kNoDevice = ~std::size_t{0};
  struct Machine {
    std::map<std::uint64_t, std::string> opening;     // names, by token or request
    std::map<std::uint64_t, std::size_t> by_token;    // devices, by token of an OPEN in flight
    std::map<std::uint16_t, std::uint64_t> requests;  // requests, by operation
    std::map<std::uint64_t, std::string> exports;     // names, by handle
    std::map<std::uint64_t, std::size_t> by_request;  // devices, by request
    std::string mapping;
    std::size_t io = kNoDevice;  // device of the last IoDone
    std::uint16_t io_errno = 0;
    std::uint64_t refused = ~std::uint64_t{0} - 1;  // record in which the last OPEN was refused
  };
  std::size_t device(bool client, const std::string& name);
  std::size_t numbered(bool client, std::uint64_t number) const;
  void note(std::size_t device, const spec::DeviceEvent&, std::string text, bool trouble, bool open = false);
  void on_client(Machine&, const spec::DeviceEvent&);
  void on_io(Machine&, const spec::DeviceEvent&);
  void on_server(Machine&, const spec::DeviceEvent&);
  void on_export(Machine&, const spec::DeviceEvent&);
  void on_request(Machine&, const spec::DeviceEvent&);

  Index file_ = kNone;
  std::map<std::pair<Index, unsigned>, Machine> machines_;
  std::vector<Device> devices_;
};

Answer why_device(const Facts&, const DeviceLog&, const DeviceLog::Device&);
// The answer has no title if there is no device with this number.
Answer why_device(const Facts&, const DeviceLog&, std::uint64_t number, std::optional<Index> file);
// Returns "device 3 ("disk")"; a device that was never mapped has no number.
std::string device_name(const DeviceLog::Device&);

}  // namespace rtrs::tools::why
