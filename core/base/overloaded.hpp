// Builds a variant visitor from one function per alternative. A missing alternative is a compile error,
// unless one function is generic.
#pragma once

namespace rtrs {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace rtrs
