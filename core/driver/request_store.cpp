#include "core/driver/request_store.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs {

void RequestStore::store(Nanos now, std::uint16_t chunk, unsigned place, ConKey key,
                         const wire::IoRequest& request, wire::Bytes header) {
  RTRS_ASSERT(header.size() == request.usr_len && header.size() <= header_bytes_);
  StoredRequest& stored = chunks_[chunk].items[place];
  stored.key = key;
  stored.arrived = now;
  stored.direction = request.direction;
  stored.usr_len = request.usr_len;
  stored.data_len = request.data_len;
  stored.desc = request.has_descriptor ? request.desc : wire::Descriptor{};
  std::copy(header.begin(), header.end(), headers_.get() + header_at(chunk, place));
}

}  // namespace rtrs
