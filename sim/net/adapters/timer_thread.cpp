#include <atomic>
#include <chrono>
#include <thread>

#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::mock_hca {

void tick_by_itself(bool on) {
  static constexpr auto kEach = std::chrono::milliseconds(2);
  static std::atomic<bool> goes_on{false};
  static std::thread thread;
  if (on == goes_on) return;
  goes_on = on;
  if (!on) return thread.join();
  thread = std::thread([] {
    while (goes_on) {
      tick();
      std::this_thread::sleep_for(kEach);
    }
  });
}

}  // namespace rtrs::mock_hca
