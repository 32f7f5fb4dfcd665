#include "sim/world/lies.hpp"

#include <array>
#include <span>
#include <utility>

namespace rtrs::sim {
namespace {

// One way to violate the protocol. `fatal`: the peer must end the connection, whatever its state.
struct Form {
  Lie what;
  std::uint32_t at = 0, size = 0;
  std::uint64_t value = 0;
  bool fatal = false;
};

constexpr std::uint64_t kNoSuchKey = 0xdeadbeef;
constexpr std::uint64_t kRandomBit = 0;  // stands for a random bit of an immediate

constexpr std::array kOfClient{
    Form{Lie::connect, 2, 2, 0},    // magic number
    Form{Lie::connect, 4, 2, 256},  // version
    Form{Lie::connect, 6, 2, 1},    // number of the connection
    Form{Lie::connect, 6, 2, 3},
    Form{Lie::connect, 8, 2, 0},  // number of connections
    Form{Lie::connect, 8, 2, 4097},
    Form{Lie::connect, 10, 2, 900},  // reconnect counter
    Form{Lie::connect, 28, 8, 1},    // path
    Form{Lie::connect, 40, 0},
    Form{Lie::message, 0, 2, 7, true},  // type of INFO_REQ or fence
    Form{Lie::message, 1, 0, 0, true},
    Form{Lie::message_twice},
    Form{Lie::header, 0, 1, 1},  // type
    Form{Lie::header, 0, 1, 9, true},
    Form{Lie::header, 2, 2, 0},  // length of the user header
    Form{Lie::header, 2, 2, 25},
    Form{Lie::header, 2, 2, 0xffff, true},
    Form{Lie::header, 6, 2, 2, true},      // number of descriptors of a READ
    Form{Lie::header, 16, 4, kNoSuchKey},  // descriptor of a READ
    Form{Lie::header, 20, 4, 0, true},
    Form{Lie::header, 20, 4, 16385, true},
    Form{Lie::header, 20, 4, 0xffffffff, true},
    Form{Lie::request, 0, 0, kRandomBit},
    Form{Lie::request, 0, 0, kRandomBit},
    Form{Lie::request, 0, 0, 0x10000000, true},  // type of the immediate
    Form{Lie::request, 0, 0, 0x70000000, true},
    Form{Lie::request_twice},
    Form{Lie::no_receives},
};

constexpr std::array kOfServer{
    Form{Lie::accept, 0, 2, 0},      // magic number
    Form{Lie::accept, 2, 2, 768},    // version
    Form{Lie::accept, 4, 2, 65432},  // errno
    Form{Lie::accept, 6, 2, 0},      // queue depth
    Form{Lie::accept, 6, 2, 16},
    Form{Lie::accept, 8, 8, 0},  // sizes
    Form{Lie::accept, 8, 8, 0x1ffffffff},
    Form{Lie::accept, 20, 0},
    Form{Lie::reject, 1, 0},
    Form{Lie::reject, 4, 2, 0},  // errno
    Form{Lie::reject, 4, 2, 1},
    Form{Lie::reject, 4, 2, 32767},
    Form{Lie::message, 0, 2, 9, true},  // type of INFO_RSP or of the response to a fence
    Form{Lie::message, 7, 0, 0, true},
    Form{Lie::message, 2, 2, 0},  // number of runs of INFO_RSP
    Form{Lie::message, 2, 2, 0xffff},
    Form{Lie::message, 8, 8, 64},  // address, key and length of a run
    Form{Lie::message, 16, 4, kNoSuchKey},
    Form{Lie::message, 20, 4, 0},
    Form{Lie::message, 20, 4, 0xffff},
    Form{Lie::message_twice},
    Form{Lie::key, 0, 2, 3},  // RKEY_RSP
    Form{Lie::key, 2, 2, 6},
    Form{Lie::key, 4, 4, kNoSuchKey},
    Form{Lie::key, 7, 0},
    Form{Lie::response, 0, 0, kRandomBit},
    Form{Lie::response, 0, 0, 0x40000},           // use of the permit
    Form{Lie::response, 0, 0, 0x60000000, true},  // type of the immediate
    Form{Lie::response, 0, 0, 0x30000000},
    Form{Lie::response_twice},
    Form{Lie::unanswered},
    Form{Lie::no_invalidation, 0, 0, 0, true},
    Form{Lie::read_data, 0, 0, 1U << 30},
    Form{Lie::no_receives},
};

}  // namespace

CorruptingFabric::Plan draw_lie(ChoiceSource& choice, bool by_server, std::uint32_t paths,
                                std::uint32_t cons) {
  const auto draw = [&choice](std::size_t n) {
    return choice.draw(static_cast<std::uint32_t>(n), Label::late_fault);
  };
  const std::span<const Form> forms = by_server ? std::span<const Form>(kOfServer) : kOfClient;
  const Form& form = forms[draw(forms.size())];
  // Requests and responses are changed on IO connections; few of them use the service connection.
  const bool setup = form.what == Lie::connect || form.what == Lie::accept || form.what == Lie::reject;
  const bool service = form.what == Lie::message || form.what == Lie::message_twice;
  const std::uint32_t con = service ? 0 : setup ? draw(cons) : 1 + draw(cons - 1);
  CorruptingFabric::Plan plan{form.what, draw(paths), con, form.at, form.size, form.value};
  plan.fatal = form.fatal;
  const bool immediate = form.what == Lie::request || form.what == Lie::response;
  // Half of the draws invert one of the upper bits, which contain the chunk number.
  if (immediate && form.value == kRandomBit)
    plan.value = std::uint64_t{1} << (27 - draw(draw(2) == 0 ? 6 : 28));
  plan.count = 1 + draw(3);
  return plan;
}

void draw_liar(ChoiceSource& choice, Scenario& s) {
  const ScopedGroup group(choice, Label::option);
  std::uint32_t& weight = s.faults.weight[static_cast<unsigned>(FaultClass::lie)];
  const bool fits = s.workload.disks == 0 && !s.same_identity && !s.other_server && !s.server_changes &&
                    !s.removes_for_good;
  if (std::exchange(weight, 0) == 0 || !fits) return;
  weight = 300;
  remove_block_device(s);
  s.keys = false;
  s.close_gap = kNever;
  s.liar = choice.draw(3, Label::late_fault) == 2 ? 0 : s.clients;
  s.faults.budget = FaultOptions::kUnlimited;
}

}  // namespace rtrs::sim
