// Tests how relative file names in `urtrs export add` are made absolute.
#include "tools/urtrs/command/export_words.hpp"

#include <gtest/gtest.h>

namespace rtrs::admin::export_words_test {
namespace {

TEST(ExportWords, RelativeFilesBecomeAbsolute) {
  EXPECT_EQ(with_absolute_source("a=x.img", "/home/alice"), "a=/home/alice/x.img");
  EXPECT_EQ(with_absolute_source("a=./x.img,ro,delay_ms=5", "/home/alice"),
            "a=/home/alice/./x.img,ro,delay_ms=5");
  EXPECT_EQ(with_absolute_source("a=b=c.img", "/"), "a=/b=c.img");
  EXPECT_EQ(with_absolute_source("a=x,,y.img,ro", "/srv/1,2"), "a=/srv/1,,2/x,,y.img,ro");
}

TEST(ExportWords, OtherWordsAreNotChanged) {
  for (const char* word : {"a=/srv/x.img", "a=mem:1G", "a=nbd://host/x", "a=nbd+unix:///x?socket=s",
                           "a=", "a=,ro", "=x.img", "x.img", ""})
    EXPECT_EQ(with_absolute_source(word, "/home/alice"), word);
  EXPECT_EQ(with_absolute_source("a=x.img", ""), "a=x.img") << "the folder is unknown";
}

}  // namespace
}  // namespace rtrs::admin::export_words_test
