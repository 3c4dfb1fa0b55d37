#include "app/suite/tap.h"

#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

std::string written(const std::function<void(Tap&)>& use) {
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* const file = ::open_memstream(&bytes, &size);
  {
    Tap tap(file);
    use(tap);
  }
  std::fclose(file);
  std::string text(bytes, size);
  std::free(bytes);
  return text;
}

TEST(Tap, Points) {
  EXPECT_EQ(written([](Tap& tap) {
              tap.ok("one");
              tap.skip("two", "on this database");
              tap.comment("a\nb");
              tap.not_ok("three", {{"message", "no"}});
              tap.plan();
              EXPECT_EQ(tap.count(), 3u);
              EXPECT_EQ(tap.failed(), 1u);
            }),
            "TAP version 13\n"
            "ok 1 - one\n"
            "ok 2 - two # SKIP on this database\n"
            "# a\n# b\n"
            "not ok 3 - three\n"
            "  ---\n"
            "  message: \"no\"\n"
            "  ...\n"
            "1..3\n");
}

TEST(Tap, Descriptions) {
  EXPECT_EQ(tap_description("GET /a#b"), "GET /a\\#b");
  EXPECT_EQ(tap_description("a\nb\tc\\"), "a b c\\\\");
  EXPECT_EQ(tap_description("3 films # TODO"), "- 3 films \\# TODO");
}

TEST(Tap, YamlOfOneLineAndOfSeveral) {
  EXPECT_EQ(yaml_entry("at", "f \"x\": 1"), "  at: \"f \\\"x\\\": 1\"\n");
  EXPECT_EQ(yaml_entry("body", "a\n\n b\n"), "  body: |\n    a\n    \n     b\n");
  EXPECT_EQ(yaml_entry("body", "...\n---\n"), "  body: |\n    ...\n    ---\n");
  EXPECT_EQ(yaml_entry("body", "a\n\x01"), "  body: \"a\\n\\u0001\"\n");
  EXPECT_EQ(yaml_entry("body", " a\nb"), "  body: \" a\\nb\"\n");
  EXPECT_EQ(yaml_entry("body", ""), "  body: \"\"\n");
}

TEST(Tap, BailOut) {
  EXPECT_EQ(written([](Tap& tap) { tap.bail_out("interrupted"); }), "TAP version 13\nBail out! interrupted\n");
}

}  // namespace
}  // namespace sluice::app::suite
