// Thread domains, and the parent domains that objects of one thread are made in.
#include <algorithm>
#include <cerrno>

#include "conformance/mock_hca/world.hpp"

namespace rtrs::mock_hca {
namespace {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  if (wanted == nullptr || wanted->comp_mask != 0) return errno = EINVAL, nullptr;
  if (world().falls_short(context)) return nullptr;
  auto* thread = new ThreadDomain;
  thread->context = context;
  world().thread_domains.insert(thread);
  return thread;
}

int dealloc_td(ibv_td* one) {
  const std::scoped_lock lock(world().lock);
  auto* thread = static_cast<ThreadDomain*>(one);
  if (thread->users != 0) {
    world().problem("a thread domain was given back with " + std::to_string(thread->users) +
                    " domains over it");
    return EBUSY;
  }
  world().thread_domains.erase(thread);
  const int answer = world().given_back(one->context);
  delete thread;
  return answer;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  if (wanted == nullptr || wanted->pd == nullptr || wanted->comp_mask != 0) return errno = EINVAL, nullptr;
  if (world().falls_short(context)) return nullptr;
  auto* domain = new Domain;
  domain->context = context;
  domain->within = static_cast<Domain*>(wanted->pd);
  ++domain->within->users;
  domain->thread = static_cast<ThreadDomain*>(wanted->td);
  if (domain->thread != nullptr) ++domain->thread->users;
  world().domains.insert(domain);
  return domain;
}

}  // namespace

void offer_thread_domains(Context& context) {
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs_context* const extension = verbs_get_ctx(&context);
  extension->sz = sizeof(verbs_context);
  extension->alloc_td = alloc_td;
  extension->dealloc_td = dealloc_td;
  extension->alloc_parent_domain = alloc_parent_domain;
}

void leave_parents(Domain& domain) {
  if (domain.within != nullptr) --domain.within->users;
  if (domain.thread != nullptr) --domain.thread->users;
}

const ibv_pd* protection_of(const ibv_pd* domain) {
  const Domain* const within = static_cast<const Domain*>(domain)->within;
  return within == nullptr ? domain : within;
}

std::size_t queue_pairs_of_threads() {
  const std::scoped_lock lock(world().lock);
  const auto& pairs = world().queue_pairs;
  return static_cast<std::size_t>(std::count_if(pairs.begin(), pairs.end(), [](const auto& one) {
    return static_cast<const Domain*>(one.second->pd)->thread != nullptr;
  }));
}

}  // namespace rtrs::mock_hca
