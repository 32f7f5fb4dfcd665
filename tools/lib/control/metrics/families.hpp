// Writes metrics in the Prometheus text format.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/driver/service_times.hpp"

namespace rtrs::metrics {

// Pairs of name and value. Values are passed through tools::printable().
using Labels = std::vector<std::pair<std::string, std::string>>;

// Metrics with the same name form one family. Families keep the order in which they were first added.
class Families {
 public:
  void gauge(const char* name, const char* help, double value, Labels labels = {});
  void counter(const char* name, const char* help, std::uint64_t value, Labels labels = {});
  // Adds a histogram in seconds. The limit of each bucket is a power of two in nanoseconds, so that it is
  // also a bucket limit of the server's histogram.
  void histogram(const char* name, const char* help, const ServiceTimes::Times&, Labels labels);
  std::string text() const;

 private:
  struct Family {
    std::string name;
    std::string help;
    const char* type;
    std::string lines;
  };
  Family& family(const char* name, const char* help, const char* type);

  std::vector<Family> all_;
};

}  // namespace rtrs::metrics
