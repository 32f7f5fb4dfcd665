// Prints the settings for docs/man, one per line: key, expected values, default and meaning, separated by
// tabs.
#include <cstdio>

#include "tools/urtrsd/config/config_values.hpp"

int main() {
  using namespace rtrs::daemon;
  for (const Setting& setting : settings())
    std::printf("%s\t%s\t%s\t%s\n", setting.key().c_str(), setting.expected().c_str(),
                setting.default_value().c_str(), std::string(setting->help).c_str());
}
