// A fabric that lies for its user: what a script asks for is changed on its way out. The user keeps the
// protocol and does not know. The fabric behind it must outlive it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"

namespace rtrs::sim {

// X(name): what is changed, and how.
#define RTRS_SIM_LIES(X)                                                              \
  X(connect)       /* bytes of CON_REQ: `size` at `at`; size 0: cut off at `at` */    \
  X(accept)        /* of CON_RSP that accepts */                                      \
  X(reject)        /* of CON_RSP that rejects */                                      \
  X(message)       /* of INFO_REQ, INFO_RSP and fences */                             \
  X(key)           /* of RKEY_RSP */                                                  \
  X(header)        /* of the RTRS header of an IO request */                          \
  X(request)       /* bits of the immediate of a request, inverted */                 \
  X(response)      /* of a response */                                                \
  X(request_twice) /* the message goes out twice */                                   \
  X(response_twice)                                                                   \
  X(unanswered)      /* an acknowledgement of a heartbeat instead of a response */    \
  X(read_data)       /* READ data goes `value` bytes further */                       \
  X(no_invalidation) /* the key of a READ is not invalidated, the response says so */ \
  X(message_twice)   /* INFO_REQ, INFO_RSP or a fence goes out twice */               \
  X(no_receives)     /* receives that should be posted are not */

enum class Lie : std::uint8_t {
#define RTRS_SIM_LIE(name) name,
  RTRS_SIM_LIES(RTRS_SIM_LIE)
#undef RTRS_SIM_LIE
      count_,
};
const char* name_of(Lie) noexcept;

class LyingFabric final : public ForwardingFabric {
 public:
  struct Plan {
    Lie what = Lie::connect;
    std::uint32_t path = 0;  // of the session: only messages of this path (rejections: of any)
    std::uint32_t con = 0;   // and connection
    std::uint32_t at = 0;    // byte
    std::uint32_t size = 0;  // bytes, little endian, at most 8
    std::uint64_t value = 0;
    std::uint32_t count = 1;  // of messages
  };
  // `user_header`: length of the user header of every request, bytes.
  LyingFabric(Fabric& inner, std::uint32_t user_header)
      : ForwardingFabric(inner), user_header_(user_header) {}
  void plan(const Plan& plan) { plans_.push_back(plan); }
  // Messages changed so far.
  std::uint64_t told() const noexcept { return told_; }

  void connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
               std::span<const std::byte> data) override {
    inner_.connect(key, address, params, changed(Lie::connect, key, data));
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> data) override {
    inner_.accept(request, key, params, changed(Lie::accept, key, data));
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    inner_.reject(request, changed(Lie::reject, ConKey{}, data));
  }
  void post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept override {
    if (take(Lie::no_receives, key) == nullptr) inner_.post_receive(key, count, bytes_each);
  }
  std::size_t post(std::span<const WorkRequest>) noexcept override;

 private:
  // The plan for such a message, used up by one; null: none.
  const Plan* take(Lie what, const ConKey& key);
  std::span<const std::byte> changed(Lie what, const ConKey& key, std::span<const std::byte> truth);
  // How often the work is to be posted.
  unsigned bend(WorkRequest&);
  unsigned bend_response(WorkRequest&);
  void bend_data(WorkRequest&);
  void bend_header(const WorkRequest&);

  std::uint32_t user_header_;
  std::vector<Plan> plans_;
  Plan taken_;
  std::vector<std::byte> bytes_;
  std::uint64_t told_ = 0;
};

}  // namespace rtrs::sim
