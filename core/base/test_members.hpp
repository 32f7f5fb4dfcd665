// How many members an aggregate has, for tests that no field list forgets one.
#pragma once
#include <cstddef>
#include <utility>

namespace rtrs::test {

struct Anything {
  template <class T>
  operator T() const;  // only named in unevaluated operands
};

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires {
    T{(static_cast<void>(I), Anything{})...};
  };
}

// Of the aggregate T.
template <class T, std::size_t N = 0>
consteval std::size_t members() {
  if constexpr (takes<T>(std::make_index_sequence<N + 1>{})) {
    return members<T, N + 1>();
  } else {
    return N;
  }
}

}  // namespace rtrs::test
