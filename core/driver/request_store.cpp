#include "core/driver/request_store.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs {

void RequestStore::store(Nanos now, std::uint16_t chunk, unsigned place, ConKey key,
                         const wire::IoRequest& request, wire::Bytes header) {
  RTRS_ASSERT(header.size() == request.usr_len && header.size() <= header_bytes_);
  chunks_[chunk].items[place] = {request, key, now};
  std::copy(header.begin(), header.end(), headers_.get() + header_at(chunk, place));
}

}  // namespace rtrs
