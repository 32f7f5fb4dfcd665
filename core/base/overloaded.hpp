// A visitor of a variant made of one function an alternative. One that is missing is a compile error, as long
// as none of them takes anything.
#pragma once

namespace rtrs {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace rtrs
