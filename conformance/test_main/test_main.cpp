// The main function of test programs. One program holds the tests of a folder; CTest runs it once for each
// `urtrs_test` of that folder, with the names of the source files whose tests to run.
//
//     core_proto_tests --files=client_requests_test.cpp,client_keys_test.cpp
//
// Without --files all tests run, and the options of GoogleTest work as usual.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kOption = "--files=";

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> names;
  std::istringstream words{std::string(list)};
  for (std::string name; std::getline(words, name, ',');) {
    names.push_back(name);
  }
  return names;
}

// GoogleTest filter for all tests in the given source files; empty if there are none.
std::string filter_for(const std::vector<std::string>& files) {
  std::string filter;
  const auto* unit_test = testing::UnitTest::GetInstance();
  for (int s = 0; s < unit_test->total_test_suite_count(); ++s) {
    const auto* suite = unit_test->GetTestSuite(s);
    for (int t = 0; t < suite->total_test_count(); ++t) {
      const auto* test = suite->GetTestInfo(t);
      const std::string_view path = test->file();
      const auto name = path.substr(path.rfind('/') + 1);
      if (std::find(files.begin(), files.end(), name) != files.end()) {
        filter += std::string(filter.empty() ? "" : ":") + suite->name() + "." + test->name();
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) {
    return RUN_ALL_TESTS();
  }
  const std::string_view option = argv[1];
  if (argc > 2 || !option.starts_with(kOption)) {
    std::fprintf(stderr,
                 "unknown option %s: this program takes --files=NAME,... and the options of GoogleTest\n",
                 argv[argc - 1]);
    return 2;
  }
  const auto filter = filter_for(split(option.substr(kOption.size())));
  if (filter.empty()) {
    std::fprintf(stderr, "no test stands in %s\n", option.substr(kOption.size()).data());
    return 1;
  }
  testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}
