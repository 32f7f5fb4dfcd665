// Part of law_check.cpp: which requests of a session write into the same chunk.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "conformance/spec/immediate.hpp"
#include "tools/lib/trace/judge/law_check.hpp"

namespace rtrs::trace {

// Tracks all recorded writes into each chunk of a session. Tells whether another request may have overwritten
// the request that a server read.
class LawCollector::Chunks {
 public:
  explicit Chunks(const LawCollector& all) : all_(all) {
    for (const auto& [name, ends] : all.named_) {
      bool asked = false;
      for (const std::size_t at : ends) {
        const End& end = all.ends_[at];
        asked = asked || end.client;
        if (end.client) clients_[name.session].push_back(&end);
      }
      // The traces lack the client's end of this connection.
      if (!asked) unknown_.insert(name.session);
    }
  }

  // `wr`: index of a message in `from`, which is the client's end.
  // The same for the data of a READ that `response` ended, received by the client's end `from`: the response
  // to another request of the chunk may have written it.
  bool may_be_of_another(const spec::Uuid& session, const End& from, const Message& response) const {
    if (from.depth == 0) return true;
    const std::uint32_t chunk = chunk_of_response(from, response);
    for (std::size_t wr = from.sent.size(); wr-- > 0;) {
      const Message sent = all_.sent(from, wr);
      if (sent.order < response.order && is_request(sent) &&
          spec::request_buf_id(from.depth, sent.imm) == chunk)
        return may_be_overwritten(session, from, wr);
    }
    return true;
  }

  bool may_be_overwritten(const spec::Uuid& session, const End& from, std::size_t wr) const {
    const Message message = all_.sent(from, wr);
    if (message.op != spec::WireOp::write_imm) return false;
    if (from.depth == 0 || unknown_.contains(session)) return true;
    const auto ends = clients_.find(session);
    const std::uint32_t chunk = spec::request_buf_id(from.depth, message.imm);
    const std::uint64_t over = answered(from, chunk, message.order);
    return std::any_of(ends->second.begin(), ends->second.end(), [&](const End* other) {
      // The order of records in different traces is unknown.
      const bool foreign = other->trace != from.trace || other->machine != from.machine;
      if (foreign || other->depth != from.depth || all_.traces_without_beginning_.contains(other->trace))
        return foreign || other->depth != 0 || !other->sent.empty();
      for (std::size_t at = 0; at < other->sent.size(); ++at) {
        const Message one = all_.sent(*other, at);
        if (one.order != message.order && is_request(one) &&
            spec::request_buf_id(other->depth, one.imm) == chunk && one.order < over &&
            answered(*other, chunk, one.order) > message.order)
          return true;
      }
      return false;
    });
  }

 private:
  static bool is_request(const Message& message) {
    return message.op == spec::WireOp::write_imm && spec::imm_type(message.imm) == spec::kIoReq;
  }
  static std::uint32_t chunk_of_response(const End& end, const Message& response) {
    const std::uint32_t mask = (std::uint32_t{1} << spec::log2up(end.depth)) - 1;
    return spec::response_id(response.imm) & mask;
  }
  // Returns the position, in the trace, of the first response for the chunk on this connection that comes
  // after position `order`. If there is no response, returns the maximum value, because the request may still
  // take effect later.
  std::uint64_t answered(const End& end, std::uint32_t chunk, std::uint64_t order) const {
    for (std::size_t at = 0; at < end.received.size(); ++at) {
      const Message one = all_.received(end, at);
      const unsigned type = spec::imm_type(one.imm);
      const bool answer = (one.op == spec::WireOp::write_imm || one.op == spec::WireOp::send_imm) &&
                          (type == spec::kIoRsp || type == spec::kIoRspInv);
      if (answer && one.order > order && chunk_of_response(end, one) == chunk) return one.order;
    }
    return ~std::uint64_t{0};
  }

  const LawCollector& all_;
  std::map<spec::Uuid, std::vector<const End*>> clients_;
  std::set<spec::Uuid> unknown_;
};

}  // namespace rtrs::trace
