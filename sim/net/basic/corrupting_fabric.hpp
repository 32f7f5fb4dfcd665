// A fabric that violates the protocol on behalf of a script: it changes messages between its user and the
// inner fabric. The user follows the protocol and is not informed. The inner fabric must outlive this object.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"

namespace rtrs::sim {

// X(name): message that is changed, and how.
#define RTRS_SIM_LIES(X)                                                           \
  X(connect)       /* CON_REQ: `size` bytes at `at`; size 0: truncated at `at` */  \
  X(accept)        /* CON_RSP that accepts */                                      \
  X(reject)        /* CON_RSP that rejects */                                      \
  X(message)       /* INFO_REQ, INFO_RSP and fences */                             \
  X(key)           /* RKEY_RSP */                                                  \
  X(header)        /* RTRS header of an IO request */                              \
  X(request)       /* inverts bits of the immediate of a request */                \
  X(response)      /* inverts bits of the immediate of a response */               \
  X(request_twice) /* sends the message twice */                                   \
  X(response_twice)                                                                \
  X(unanswered)      /* sends a heartbeat acknowledgement instead of a response */ \
  X(read_data)       /* writes READ data `value` bytes too far */                  \
  X(no_invalidation) /* leaves the key of a READ valid; the response says so */    \
  X(message_twice)   /* sends INFO_REQ, INFO_RSP or a fence twice */               \
  X(no_receives)     /* does not post receives */

enum class Lie : std::uint8_t {
#define RTRS_SIM_LIE(name) name,
  RTRS_SIM_LIES(RTRS_SIM_LIE)
#undef RTRS_SIM_LIE
      count_,
};
const char* name_of(Lie) noexcept;

class CorruptingFabric final : public ForwardingFabric {
 public:
  struct Plan {
    Lie what = Lie::connect;
    std::uint32_t path = 0;  // index within the session; only messages of this path change (rejections: any)
    std::uint32_t con = 0;   // index of the connection within the path
    std::uint32_t at = 0;    // offset of the first changed byte
    std::uint32_t size = 0;  // number of bytes, 0 to 8; `value` is little-endian
    std::uint64_t value = 0;
    std::uint32_t count = 1;  // number of messages to change
    bool fatal = false;       // the peer must end the connection of each changed message
  };
  // `user_header`: length of the user header of each request, in bytes.
  CorruptingFabric(Fabric& inner, std::uint32_t user_header)
      : ForwardingFabric(inner), user_header_(user_header) {}
  void plan(const Plan& plan) { plans_.push_back(plan); }
  // Number of messages changed so far.
  std::uint64_t changed_messages() const noexcept { return changed_messages_; }
  // A connection on which a message of a fatal plan was posted.
  struct Doomed {
    ConKey key;
    Lie what = Lie::connect;
  };
  const std::vector<Doomed>& doomed() const noexcept { return doomed_; }
  void forget_plans() noexcept { plans_.clear(); }

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
  // Returns the plan for such a message of this connection and decrements its count; nullptr if there is
  // none.
  const Plan* take(Lie what, const ConKey& key);
  std::span<const std::byte> changed(Lie what, const ConKey& key, std::span<const std::byte> truth);
  // Applies the plans to a work request. Returns how many times to post it.
  unsigned apply_plans(WorkRequest&);
  unsigned corrupt_response(WorkRequest&);
  void corrupt_read_data(WorkRequest&);
  void corrupt_header(const WorkRequest&);

  std::uint32_t user_header_;
  std::vector<Plan> plans_;
  Plan taken_;
  std::vector<std::byte> bytes_;
  std::vector<Doomed> doomed_;
  bool fatal_ = false;  // the current work request was changed by a fatal plan
  std::uint64_t changed_messages_ = 0;
};

}  // namespace rtrs::sim
