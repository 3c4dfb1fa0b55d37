#include "core/whole_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::core {
namespace {

class WholeFileTest : public testing::Test {
 protected:
  WholeFileTest() : path(testing::TempDir() + "/whole-file-" + std::to_string(::getpid())) {}
  ~WholeFileTest() override { std::filesystem::remove(path); }
  const std::string path;
};

TEST_F(WholeFileTest, ReadsARegularFileAlsoThroughALink) {
  std::ofstream(path) << std::string(40'000, 'x');
  EXPECT_EQ(read_whole_file(path, 40'000), std::string(40'000, 'x'));
  EXPECT_EQ(read_whole_file(path, 39'999).error(), "is larger than 39999 bytes");
  const std::string link = path + "-link";
  std::filesystem::create_symlink(path, link);
  EXPECT_TRUE(read_whole_file(link, 40'000));
  std::filesystem::remove(link);
}

TEST_F(WholeFileTest, RefusesWhatIsNotARegularFileWithoutWaitingForIt) {
  EXPECT_EQ(read_whole_file(path, 10).error(), "cannot be read: No such file or directory");
  EXPECT_EQ(read_whole_file(testing::TempDir(), 10).error(), "cannot be read: Is a directory");
  EXPECT_EQ(read_whole_file("/dev/zero", 10).error(), "is not a regular file");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // no process ever writes to it
  EXPECT_EQ(read_whole_file(path, 10).error(), "is not a regular file");
}

}  // namespace
}  // namespace sluice::core
