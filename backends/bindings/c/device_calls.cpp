// Device functions of urtrs.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "backends/bindings/c/session.hpp"
#include "backends/platform/system/clock.hpp"

using namespace rtrs;
using wire::rnbd::Opcode;

namespace {

constexpr unsigned kOpenFlags = URTRS_READ_ONLY | URTRS_MIGRATION;

BlockRequest request_of(Opcode opcode, const void* data, std::uint64_t length, std::uint64_t offset,
                        unsigned flags) {
  BlockRequest request;
  request.opcode = opcode;
  request.offset = offset;
  request.length = length;
  // The cast is safe, because a write only reads its data.
  request.data = static_cast<std::byte*>(const_cast<void*>(data));
  request.fua = (flags & URTRS_FUA) != 0;
  request.nounmap = (flags & URTRS_NO_UNMAP) != 0;
  return request;
}

const char* name_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::read:
      return "read";
    case Opcode::write:
      return "write";
    case Opcode::flush:
      return "flush";
    case Opcode::discard:
      return "discard";
    default:
      return "zero";
  }
}

std::string what_of(const urtrs_device& device, Opcode opcode) {
  return device.name + ": " + name_of(opcode);
}

bool carries(Opcode opcode) {
  return opcode == Opcode::read || opcode == Opcode::write;
}

// Checks a request before memory is allocated for it. Returns why no device, or not this open device, could
// execute the request; empty if the request is valid.
std::string why_impossible(const urtrs_device& device, const BlockRequest& request, unsigned flags) {
  const bool whole = request.opcode == Opcode::read || request.opcode == Opcode::flush;
  unsigned known = whole ? 0 : URTRS_FUA;
  if (request.opcode == Opcode::write_zeroes) known |= URTRS_NO_UNMAP;
  if ((flags & ~known) != 0) return "it does not have those flags";
  if (carries(request.opcode) && request.data == nullptr && request.length != 0) return "no memory is given";
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (request.length > kMost || request.offset > kMost - request.length) return "no device is so large";
  const std::uint64_t size = device.geometry.nsectors * wire::rnbd::kSectorBytes;
  if (size == 0 || request.length <= size) return {};
  return std::to_string(request.length) + " bytes are requested, but the device has " + std::to_string(size);
}

int begin(urtrs_device* device, Opcode opcode, const void* data, std::uint64_t length, std::uint64_t offset,
          unsigned flags, urtrs_callback callback, void* user) {
  if (device == nullptr) return -EINVAL;
  urtrs_session& session = *device->session;
  return c::answered(session, [&] {
    const BlockRequest request = request_of(opcode, data, length, offset, flags);
    std::string wrong = why_impossible(*device, request, flags);
    if (callback == nullptr) wrong = "no callback is given";
    if (!wrong.empty()) return session.fail(-EINVAL, what_of(*device, opcode) + ": " + wrong);
    const int error = session.submit(*device, request, callback, user);
    return error == 0 ? 0 : session.fail_with_words(error, what_of(*device, opcode));
  });
}

int carry_out(urtrs_device& device, BlockRequest request, int timeout_ms) {
  urtrs_session& session = *device.session;
  std::byte* const data = request.data;
  urtrs_session::Memory memory;
  if (timeout_ms >= 0 && carries(request.opcode) && request.length != 0) {
    memory.reset(new std::byte[request.length]);
    if (request.opcode == Opcode::write) std::memcpy(memory.get(), data, request.length);
    request.data = memory.get();
  }
  urtrs_session::Waiter waiter;
  std::uint32_t slot = 0;
  int error = session.submit(device, request, urtrs_session::Waiter::on_done, &waiter, memory, &slot);
  if (error == 0) {
    error = session.wait(timeout_ms, [&waiter] { return waiter.done; });
    if (error == 0) {
      error = waiter.error;
      if (error == 0 && memory && request.opcode == Opcode::read)
        std::memcpy(data, memory.get(), request.length);
    } else {
      session.requests[slot].callback = nullptr;
    }
  }
  // Clears the message that a callback may have stored during the wait.
  session.message.clear();
  return error == 0 ? 0 : session.fail_with_words(error, what_of(device, request.opcode));
}

int call(urtrs_device* device, Opcode opcode, const void* data, std::uint64_t length, std::uint64_t offset,
         unsigned flags, int timeout_ms) {
  if (device == nullptr) return -EINVAL;
  urtrs_session& session = *device->session;
  return c::answered(session, [&] {
    if (const int refused = session.refuse_wait(); refused != 0) return refused;
    const BlockRequest request = request_of(opcode, data, length, offset, flags);
    if (const std::string wrong = why_impossible(*device, request, flags); !wrong.empty())
      return session.fail(-EINVAL, what_of(*device, opcode) + ": " + wrong);
    return carry_out(*device, request, timeout_ms);
  });
}

}  // namespace

extern "C" {

int urtrs_device_open_async(urtrs_session* session, const char* name, unsigned flags, urtrs_callback callback,
                            void* user, urtrs_device** device) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    if (name == nullptr || callback == nullptr || device == nullptr)
      return session->fail(-EINVAL, "name, callback or place for the device is missing");
    if ((flags & ~kOpenFlags) != 0 || flags == kOpenFlags)
      return session->fail(-EINVAL, std::string(name) + ": flags of an open are one of two, or none");
    return session->map(name, flags, callback, user, *device);
  });
}

int urtrs_device_open(urtrs_session* session, const char* name, unsigned flags, int timeout_ms,
                      urtrs_device** device) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    if (const int refused = session->refuse_wait(); refused != 0) return refused;
    // Checked before the open starts: a started open keeps a pointer to the waiter, which ends with this
    // call.
    if (device == nullptr) return session->fail(-EINVAL, "no place for the device is given");
    urtrs_session::Waiter waiter;
    urtrs_device* opened = nullptr;
    const int begun =
        urtrs_device_open_async(session, name, flags, urtrs_session::Waiter::on_done, &waiter, &opened);
    if (begun != 0) return begun;
    int error = session->wait(timeout_ms, [&waiter] { return waiter.done; });
    if (error == 0) error = waiter.error;
    session->message.clear();
    opened->opened = nullptr;
    if (error == 0) {
      *device = opened;
      return 0;
    }
    session->fail_with_words(error, opened->name);
    const std::string sentence = session->message;
    urtrs_device_close(opened, 0);
    return session->fail(error, sentence);
  });
}

int urtrs_device_close(urtrs_device* device, int timeout_ms) {
  if (device == nullptr) return 0;
  urtrs_session& session = *device->session;
  return c::answered(session, [&] {
    if (const int refused = session.refuse_wait(); refused != 0) return refused;
    const std::string what = device->name + ": close";
    session.client->unmap(*session.fabric, platform::steady_now(), device->handle);
    const int waited = session.wait(timeout_ms, [&] {
      return session.client->closed() || session.client->state(device->handle) == rnbd::DeviceState::unmapped;
    });
    session.forget(*device);
    session.message.clear();
    return waited == 0 ? 0 : session.fail_with_words(waited, what);
  });
}

int urtrs_device_get_info(const urtrs_device* device, urtrs_device_info* info, size_t size) {
  if (device == nullptr) return -EINVAL;
  // The session is being freed, and this call comes from one of its last callbacks.
  if (!device->session->client) return -ESHUTDOWN;
  const BlockClient& client = *device->session->client;
  const rnbd::Geometry& geometry = device->geometry;
  urtrs_device_info filled{};
  filled.size = geometry.nsectors * wire::rnbd::kSectorBytes;
  filled.is_open = client.state(device->handle) == rnbd::DeviceState::open ? 1 : 0;
  filled.error = device->refused;
  if (filled.size != 0) {
    filled.block_size = geometry.logical_block_size;
    filled.physical_block_size = geometry.physical_block_size;
    filled.max_io_size = client.session().max_io_size();
    filled.discard_granularity = geometry.discard_granularity;
    filled.writable = client.writable(device->handle) ? 1 : 0;
    filled.can_discard = geometry.max_discard_sectors != 0 ? 1 : 0;
    filled.can_zero = geometry.max_write_zeroes_sectors != 0 ? 1 : 0;
    filled.write_cache = geometry.write_cache ? 1 : 0;
  }
  return c::fill(info, filled, size);
}

int urtrs_read(urtrs_device* device, void* data, size_t length, uint64_t offset, int timeout_ms) {
  return call(device, Opcode::read, data, length, offset, 0, timeout_ms);
}
int urtrs_write(urtrs_device* device, const void* data, size_t length, uint64_t offset, unsigned flags,
                int timeout_ms) {
  return call(device, Opcode::write, data, length, offset, flags, timeout_ms);
}
int urtrs_flush(urtrs_device* device, int timeout_ms) {
  return call(device, Opcode::flush, nullptr, 0, 0, 0, timeout_ms);
}
int urtrs_discard(urtrs_device* device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms) {
  return call(device, Opcode::discard, nullptr, length, offset, flags, timeout_ms);
}
int urtrs_zero(urtrs_device* device, uint64_t length, uint64_t offset, unsigned flags, int timeout_ms) {
  return call(device, Opcode::write_zeroes, nullptr, length, offset, flags, timeout_ms);
}

int urtrs_read_async(urtrs_device* device, void* data, size_t length, uint64_t offset,
                     urtrs_callback callback, void* user) {
  return begin(device, Opcode::read, data, length, offset, 0, callback, user);
}
int urtrs_write_async(urtrs_device* device, const void* data, size_t length, uint64_t offset, unsigned flags,
                      urtrs_callback callback, void* user) {
  return begin(device, Opcode::write, data, length, offset, flags, callback, user);
}
int urtrs_flush_async(urtrs_device* device, urtrs_callback callback, void* user) {
  return begin(device, Opcode::flush, nullptr, 0, 0, 0, callback, user);
}
int urtrs_discard_async(urtrs_device* device, uint64_t length, uint64_t offset, unsigned flags,
                        urtrs_callback callback, void* user) {
  return begin(device, Opcode::discard, nullptr, length, offset, flags, callback, user);
}
int urtrs_zero_async(urtrs_device* device, uint64_t length, uint64_t offset, unsigned flags,
                     urtrs_callback callback, void* user) {
  return begin(device, Opcode::write_zeroes, nullptr, length, offset, flags, callback, user);
}

}  // extern "C"
