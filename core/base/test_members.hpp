// Number of members of an aggregate, for tests which check that a field list is complete.
#pragma once
#include <cstddef>
#include <utility>

namespace rtrs::test {

struct Anything {
  template <class T>
  operator T() const;  // never called: used only in unevaluated operands
};

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires {
    T{(static_cast<void>(I), Anything{})...};
  };
}

// Number of members of the aggregate T.
template <class T, std::size_t N = 0>
consteval std::size_t members() {
  if constexpr (takes<T>(std::make_index_sequence<N + 1>{})) {
    return members<T, N + 1>();
  } else {
    return N;
  }
}

}  // namespace rtrs::test
