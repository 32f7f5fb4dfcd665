// Metrics in the text format of Prometheus.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/driver/service_times.hpp"

namespace rtrs::metrics {

// Names and values. A value is shown as tools::printable() has it.
using Labels = std::vector<std::pair<std::string, std::string>>;

// Metrics of one name are one family, in the order of their first one.
class Families {
 public:
  void gauge(const char* name, const char* help, double value, Labels labels = {});
  void counter(const char* name, const char* help, std::uint64_t value, Labels labels = {});
  // In seconds. Each bucket ends at a power of two of nanoseconds, where those of the server end too.
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
