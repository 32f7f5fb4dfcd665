// Runs the fabric contract on the verbs backend over in-memory adapters, for each adapter profile and each
// way to invalidate a key that the profile supports.
#include <sys/socket.h>

#include "conformance/contract/contract.hpp"
#include "conformance/contract/verbs_pair.hpp"
#include "sim/net/adapters/test_no_problems.hpp"

namespace rtrs::conformance {
namespace {

using verbs::Invalidation;
using verbs::Posting;

constexpr int kIdleMs = 2;

template <mock_hca::Profile (*Of)(), Invalidation How, int Family = AF_INET, bool ThreadDomains = false,
          Posting Post = Posting::send>
std::unique_ptr<FabricPair> make_pair() {
  mock_hca::Profile profile = Of();
  profile.gives_up_after = milliseconds(50);
  static std::uint64_t seed = 0;
  mock_hca::reset({profile}, ++seed);
  mock_hca::tick_by_itself(true);
  verbs::VerbsOptions options;
  options.invalidation = How;
  options.thread_domains = ThreadDomains;
  options.posting = Post;
  return VerbsPair::open(verbs_address(Family), options, kIdleMs);
}
template <mock_hca::Profile (*Of)()>
std::unique_ptr<FabricPair> make_calling() {
  return make_pair<Of, Invalidation::automatic, AF_INET, false, Posting::calls>();
}
// An adapter whose library rejects type 1 binds in ibv_post_send().
mock_hca::Profile binds_alone() {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.type_1_in_chain = mock_hca::Profile::Type1Chain::refuses;
  return profile;
}
std::string here() {
  return {};
}

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

mock_hca::Profile hostile_mlx5() {
  return mock_hca::hostile(mock_hca::mlx5());
}
mock_hca::Profile hostile_rxe() {
  return mock_hca::hostile(mock_hca::rxe());
}

using mock_hca::bnxt_re;
using mock_hca::hfi1;
using mock_hca::irdma;
using mock_hca::mlx5;
using mock_hca::rxe;
INSTANTIATE_TEST_SUITE_P(
    MockHca, FabricContract,
    ::testing::Values(
        FabricCase{"rxe", make_pair<rxe, Invalidation::automatic>, here},
        FabricCase{"rxe6", make_pair<rxe, Invalidation::automatic, AF_INET6>, here},
        FabricCase{"rxe_registration", make_pair<rxe, Invalidation::registration>, here},
        FabricCase{"mlx5", make_pair<mlx5, Invalidation::automatic>, here},
        FabricCase{"mlx5_binds_alone", make_pair<binds_alone, Invalidation::automatic>, here},
        FabricCase{"mlx5_registration", make_pair<mlx5, Invalidation::registration>, here},
        FabricCase{"mlx5_thread_domains", make_pair<mlx5, Invalidation::automatic, AF_INET, true>, here},
        FabricCase{"mlx5_calls", make_calling<mlx5>, here}, FabricCase{"rxe_calls", make_calling<rxe>, here},
        FabricCase{"irdma", make_pair<irdma, Invalidation::automatic>, here},
        FabricCase{"bnxt_re", make_pair<bnxt_re, Invalidation::automatic>, here},
        FabricCase{"bnxt_re_registration", make_pair<bnxt_re, Invalidation::registration>, here},
        FabricCase{"hostile_mlx5", make_pair<hostile_mlx5, Invalidation::automatic>, here},
        FabricCase{"hostile_rxe", make_pair<hostile_rxe, Invalidation::registration>, here},
        FabricCase{"hfi1", make_pair<hfi1, Invalidation::automatic>, here}),
    case_name);

}  // namespace
}  // namespace rtrs::conformance
