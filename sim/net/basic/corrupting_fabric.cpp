#include "sim/net/basic/corrupting_fabric.hpp"

#include <algorithm>

#include "core/proto/limits.hpp"
#include "core/wire/imm.hpp"

namespace rtrs::sim {

namespace {

void put(std::span<std::byte> bytes, const CorruptingFabric::Plan& plan) {
  for (std::uint32_t i = 0; i < plan.size && plan.at + i < bytes.size(); ++i)
    bytes[plan.at + i] = static_cast<std::byte>(plan.value >> 8 * i);
}

bool has_imm(const WorkRequest& work) {
  return work.op == WorkRequest::Op::write_imm || work.op == WorkRequest::Op::send_imm;
}

}  // namespace

const char* name_of(Lie lie) noexcept {
  switch (lie) {
#define RTRS_SIM_LIE(name) \
  case Lie::name:          \
    return #name;
    RTRS_SIM_LIES(RTRS_SIM_LIE)
#undef RTRS_SIM_LIE
    case Lie::count_:
      break;
  }
  return "";
}

const CorruptingFabric::Plan* CorruptingFabric::take(Lie what, const ConKey& key) {
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) {
    return plan.what == what && (what == Lie::reject || (plan.path == key.path && plan.con == key.con));
  });
  if (found == plans_.end()) return nullptr;
  taken_ = *found;
  fatal_ = fatal_ || taken_.fatal;
  if (--found->count == 0) plans_.erase(found);
  ++changed_messages_;
  return &taken_;
}

std::span<const std::byte> CorruptingFabric::changed(Lie what, const ConKey& key,
                                                     std::span<const std::byte> truth) {
  const Plan* plan = take(what, key);
  if (plan == nullptr) return truth;
  bytes_.assign(truth.begin(), truth.end());
  if (plan->size == 0) bytes_.resize(plan->at);
  put(bytes_, *plan);
  return bytes_;
}

// The last part of a request contains the user header followed by the RTRS header.
void CorruptingFabric::corrupt_header(const WorkRequest& work) {
  const Plan* plan = take(Lie::header, work.key);
  if (plan == nullptr || work.part_count == 0) return;
  const LocalPart& part = work.parts[work.part_count - 1U];
  const auto memory = static_cast<Fabric&>(inner_).bytes(part.region);
  const auto header = memory.subspan(part.offset + user_header_, part.length - user_header_);
  if (plan->at + plan->size > header.size()) fatal_ = false;  // a request without this field
  put(header, *plan);
}

unsigned CorruptingFabric::corrupt_response(WorkRequest& work) {
  const ConKey& key = work.key;
  if (work.part_count != 0) corrupt_read_data(work);
  if (work.op == WorkRequest::Op::send_imm) work.inline_bytes = changed(Lie::key, key, work.inline_bytes);
  if (const Plan* plan = take(Lie::response, key)) work.imm ^= static_cast<std::uint32_t>(plan->value);
  if (take(Lie::unanswered, key) != nullptr) {
    fatal_ = false;
    work.op = WorkRequest::Op::write_imm;
    work.inline_bytes = {};
    work.part_count = 0;
    work.imm = wire::encode_hb(wire::ImmType::hb_ack);
  }
  return take(Lie::response_twice, key) != nullptr ? 2 : 1;
}

void CorruptingFabric::corrupt_read_data(WorkRequest& work) {
  if (const Plan* plan = take(Lie::read_data, work.key)) work.remote_addr += plan->value;
}

unsigned CorruptingFabric::apply_plans(WorkRequest& work) {
  const ConKey& key = work.key;
  if (work.op == WorkRequest::Op::send) {
    work.inline_bytes = changed(Lie::message, key, work.inline_bytes);
    return take(Lie::message_twice, key) != nullptr ? 2 : 1;
  } else if (work.op == WorkRequest::Op::send_inv) {
    return take(Lie::no_invalidation, key) != nullptr ? 0 : 1;
  } else if (work.op == WorkRequest::Op::write) {
    corrupt_read_data(work);
  } else if (has_imm(work) && wire::imm_type(work.imm) == wire::ImmType::io_req) {
    corrupt_header(work);
    if (const Plan* plan = take(Lie::request, key)) work.imm ^= static_cast<std::uint32_t>(plan->value);
    return take(Lie::request_twice, key) != nullptr ? 2 : 1;
  } else if (has_imm(work) && (wire::imm_type(work.imm) == wire::ImmType::io_rsp ||
                               wire::imm_type(work.imm) == wire::ImmType::io_rsp_w_inv)) {
    return corrupt_response(work);
  }
  return 1;
}

std::size_t CorruptingFabric::post(std::span<const WorkRequest> requests) noexcept {
  if (plans_.empty()) return inner_.post(requests);
  std::size_t taken = 0;
  for (WorkRequest work : requests) {
    fatal_ = false;
    const unsigned times = apply_plans(work);
    if (fatal_) doomed_.push_back({work.key, taken_.what});
    for (unsigned time = 0; time < times; ++time) {
      if (inner_.post(std::span(&work, 1)) == 0 && time == 0) {
        if (fatal_) doomed_.pop_back();
        return taken;
      }
      work.signalled = false;  // the user gets no completion of the second copy
      if (work.op == WorkRequest::Op::write_imm && wire::imm_type(work.imm) != wire::ImmType::io_req)
        work.part_count = 0;  // without data, because the copy could overwrite data of another request
    }
    ++taken;
  }
  return taken;
}

}  // namespace rtrs::sim
