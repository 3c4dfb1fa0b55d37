#include "app/config/reference.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "app/config/load.h"

namespace sluice::app::config {
namespace {

// Reads a file of the project, relative to its root.
std::string project_file(const std::string& path) {
  std::string here = __FILE__;
  std::ifstream file(here.substr(0, here.find("src/app/config/")) + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Reference, ThePageIsWhatTheDeclarationsSay) {
  EXPECT_EQ(project_file("docs/guide/configuration.md"), reference())
      << "run: sluice reference > docs/guide/configuration.md";
}

TEST(Reference, ItsExampleIsRight) {
  auto config = parse(Source("example.toml", reference_example()), [](std::string_view) { return std::nullopt; });
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->options.endpoints.size(), 2u);
  EXPECT_NE(reference().find(reference_example()), std::string::npos);
}

TEST(Reference, TablesOptionsBoundsAndDefaults) {
  std::string page = reference();
  for (const char* part : {"## `[server]`\n", "## `[database.NAME]`\n", "## `[[endpoint]]`\n",
                           "## `[endpoint.params.NAME]`\n", "| `cores` | integer, 0 to 1024 | `0` |",
                           "| `url` | string | required |", "| `header_limit` | size, 1KiB to 63KiB | `\"16KiB\"` |",
                           "| `returns` | `\"rows\"`, `\"object\"`, `\"file\"` | `\"rows\"` |",
                           "| `timeout` | duration, 1ms to 1d |  |"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(page.find("## `[[upstream]]`"), std::string::npos);
}

}  // namespace
}  // namespace sluice::app::config
