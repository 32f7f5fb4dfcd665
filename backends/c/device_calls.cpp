// The functions of urtrs.h on devices.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/c/session.hpp"
#include "backends/system/clock.hpp"

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
  // A write only reads it.
  request.data = static_cast<std::byte*>(const_cast<void*>(data));
  request.fua = (flags & URTRS_FUA) != 0;
  request.nounmap = (flags & URTRS_NO_UNMAP) != 0;
  return request;
}

bool flags_fit(Opcode opcode, unsigned flags) {
  unsigned known = opcode == Opcode::read || opcode == Opcode::flush ? 0 : URTRS_FUA;
  if (opcode == Opcode::write_zeroes) known |= URTRS_NO_UNMAP;
  return (flags & ~known) == 0;
}

int begin(urtrs_device* device, Opcode opcode, const void* data, std::uint64_t length, std::uint64_t offset,
          unsigned flags, urtrs_callback callback, void* user) {
  const bool carries = opcode == Opcode::read || opcode == Opcode::write;
  if (device == nullptr || callback == nullptr || !flags_fit(opcode, flags) ||
      (carries && data == nullptr && length != 0))
    return -EINVAL;
  return c::guarded([&] {
    return device->session->submit(*device, request_of(opcode, data, length, offset, flags), callback, user);
  });
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

int carry_out(urtrs_device& device, Opcode opcode, void* data, std::uint64_t length, std::uint64_t offset,
              unsigned flags, int timeout_ms) {
  urtrs_session& session = *device.session;
  const bool carries = opcode == Opcode::read || opcode == Opcode::write;
  urtrs_session::Memory memory;
  if (timeout_ms >= 0 && carries && length != 0) {
    memory.reset(new std::byte[length]);
    if (opcode == Opcode::write) std::memcpy(memory.get(), data, length);
  }
  urtrs_session::Waiter waiter;
  std::uint32_t slot = 0;
  int error = session.submit(device, request_of(opcode, memory ? memory.get() : data, length, offset, flags),
                             urtrs_session::Waiter::on_done, &waiter, memory, &slot);
  if (error == 0) {
    error = session.wait(timeout_ms, [&waiter] { return waiter.done; });
    if (error == 0) {
      error = waiter.error;
      if (error == 0 && memory && opcode == Opcode::read) std::memcpy(data, memory.get(), length);
    } else {
      session.requests[slot].callback = nullptr;
    }
  }
  if (error == 0) return 0;
  const std::string paths = session.describe_paths();
  return session.fail(error, device.name + ": " + name_of(opcode) + ": " + urtrs_strerror(error) +
                                 (paths.empty() ? "" : " (" + paths + ")"));
}

int call(urtrs_device* device, Opcode opcode, const void* data, std::uint64_t length, std::uint64_t offset,
         unsigned flags, int timeout_ms) {
  const bool carries = opcode == Opcode::read || opcode == Opcode::write;
  if (device == nullptr || !flags_fit(opcode, flags) || (carries && data == nullptr && length != 0))
    return -EINVAL;
  if (device->session->in_callback) return -EDEADLK;
  return c::guarded(
      [&] { return carry_out(*device, opcode, const_cast<void*>(data), length, offset, flags, timeout_ms); });
}

}  // namespace

extern "C" {

int urtrs_device_open_async(urtrs_session* session, const char* name, unsigned flags, urtrs_callback callback,
                            void* user, urtrs_device** device) {
  if (session == nullptr || name == nullptr || callback == nullptr || device == nullptr ||
      (flags & ~kOpenFlags) != 0 || flags == kOpenFlags)
    return -EINVAL;
  return c::guarded([&] { return session->map(name, flags, callback, user, *device); });
}

int urtrs_device_open(urtrs_session* session, const char* name, unsigned flags, int timeout_ms,
                      urtrs_device** device) {
  if (session != nullptr && session->in_callback) return -EDEADLK;
  // Before anything begins, for it would end in the waiter of a call that is over.
  if (device == nullptr) return -EINVAL;
  urtrs_session::Waiter waiter;
  urtrs_device* opened = nullptr;
  const int begun =
      urtrs_device_open_async(session, name, flags, urtrs_session::Waiter::on_done, &waiter, &opened);
  if (begun != 0) return begun;
  return c::guarded([&] {
    int error = session->wait(timeout_ms, [&waiter] { return waiter.done; });
    if (error == 0) error = waiter.error;
    if (error == 0) {
      *device = opened;
      return 0;
    }
    const std::string paths = session->describe_paths();
    session->fail(error,
                  opened->name + ": " + urtrs_strerror(error) + (paths.empty() ? "" : " (" + paths + ")"));
    const std::string sentence = session->message;
    urtrs_device_close(opened, 0);
    return session->fail(error, sentence);
  });
}

int urtrs_device_close(urtrs_device* device, int timeout_ms) {
  if (device == nullptr) return 0;
  urtrs_session& session = *device->session;
  if (session.in_callback) return -EDEADLK;
  return c::guarded([&] {
    session.client->unmap(*session.fabric, steady_now(), device->handle);
    const int waited = session.wait(timeout_ms, [&] {
      return session.client->closed() || session.client->state(device->handle) == rnbd::DeviceState::unmapped;
    });
    session.forget(*device);
    return waited;
  });
}

int urtrs_device_get_info(const urtrs_device* device, urtrs_device_info* info, size_t size) {
  if (device == nullptr || info == nullptr || size == 0) return -EINVAL;
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
  std::memcpy(info, &filled, std::min(size, sizeof filled));
  return 0;
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
