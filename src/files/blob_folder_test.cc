#include "files/blob_folder.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::files {
namespace {

using Temporaries = BlobFolder::Temporaries;

constexpr std::string_view hash_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class BlobFolderTest : public ::testing::TestWithParam<Temporaries> {
 protected:
  BlobFolderTest() {
    path_ = ::testing::TempDir() + "blobs-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    path_ += "/store";
  }
  ~BlobFolderTest() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }

  std::shared_ptr<BlobFolder> open() { return BlobFolder::open(path_, GetParam()); }
  // All files in the folder, including temporary ones.
  std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) found.insert(std::filesystem::relative(entry.path(), path_).string());
    }
    return found;
  }
  std::string content(const std::string& name) const {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string put(const std::shared_ptr<BlobFolder>& folder, std::string_view bytes) {
    BlobFolder::Incoming incoming(folder);
    EXPECT_TRUE(incoming.append(bytes));
    auto blob = incoming.finish();
    EXPECT_TRUE(blob);
    return blob ? blob->hash : "";
  }

  std::string path_;
};

INSTANTIATE_TEST_SUITE_P(Both, BlobFolderTest, ::testing::Values(Temporaries::unnamed, Temporaries::named),
                         [](const auto& one) { return one.param == Temporaries::named ? "Named" : "Unnamed"; });

TEST_P(BlobFolderTest, AFileIsCalledByWhatItHolds) {
  const auto folder = open();
  BlobFolder::Incoming incoming(folder);
  ASSERT_TRUE(incoming.append("a"));
  ASSERT_TRUE(incoming.append(""));
  ASSERT_TRUE(incoming.append("bc"));
  const auto blob = incoming.finish();
  ASSERT_TRUE(blob);
  EXPECT_EQ(blob->hash, hash_of_abc);
  EXPECT_EQ(blob->size, 3u);
  EXPECT_TRUE(http::is_blob_hash(blob->hash));
  EXPECT_EQ(content(path_of_blob(blob->hash)), "abc");
}

TEST_P(BlobFolderTest, NoBytesAreAFileToo) {
  EXPECT_EQ(put(open(), ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(files().size(), 1u);
}

TEST_P(BlobFolderTest, TheSameIsOneFile) {
  const auto folder = open();
  put(folder, "abc");
  // The same holds for another process or another core.
  EXPECT_EQ(put(open(), "abc"), hash_of_abc);
  EXPECT_EQ(files(), std::set<std::string>{path_of_blob(hash_of_abc)});
}

TEST_P(BlobFolderTest, ManyAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto folder = open();
      for (int k = 0; k < 20; ++k) put(folder, "the content " + std::to_string(k));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto found = files();
  EXPECT_EQ(found.size(), 20u);
  for (const std::string& name : found) EXPECT_TRUE(content(name).starts_with("the content ")) << name;
}

TEST_P(BlobFolderTest, WhatIsNotFinishedLeavesNothing) {
  const auto folder = open();
  {
    BlobFolder::Incoming incoming(folder);
    ASSERT_TRUE(incoming.append(std::string(100'000, 'x')));
  }
  EXPECT_TRUE(files().empty());
}

TEST_P(BlobFolderTest, AProcessThatIsKilledLeavesNothingThatCanBeServed) {
  const pid_t child = ::fork();
  if (child == 0) {
    BlobFolder::Incoming incoming(open());
    (void)incoming.append(std::string(100'000, 'x'));
    ::_exit(0);  // like SIGKILL: no code of the process runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto folder = open();
  for (const std::string& name : files()) EXPECT_TRUE(name.starts_with("incoming/")) << name;
  EXPECT_EQ(files().size(), GetParam() == Temporaries::named ? 1u : 0u);
  folder->remove_leftovers();
  EXPECT_TRUE(files().empty());
}

TEST_P(BlobFolderTest, LeftoversOfTheLivingStay) {
  const auto folder = open();
  BlobFolder::Incoming incoming(folder);
  ASSERT_TRUE(incoming.append("abc"));
  open()->remove_leftovers();
  const auto blob = incoming.finish();
  ASSERT_TRUE(blob);
  EXPECT_EQ(content(path_of_blob(hash_of_abc)), "abc");
}

TEST_P(BlobFolderTest, AFullDiskLeavesNothing) {
  const auto folder = open();
  {
    BlobFolder::Incoming incoming(folder);
    ASSERT_TRUE(incoming.append("abc"));
    // finish() must fail, because the folder has been removed.
    std::filesystem::remove_all(path_);
    EXPECT_FALSE(incoming.finish());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_P(BlobFolderTest, SweepingKeepsWhatIsUsedAndWhatIsYoung) {
  const auto folder = open();
  const std::string used = put(folder, "used");
  const std::string old = put(folder, "old");
  const std::string again = put(folder, "again");
  const std::string young = put(folder, "young");
  for (const std::string& hash : {used, old, again}) {
    const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (path_ + "/" + path_of_blob(hash)).c_str(), times, 0), 0);
  }
  put(folder, "again");  // counts as uploaded now
  std::ofstream(path_ + "/" + old.substr(0, 2) + "/README") << "somebody's own";
  const auto is_used = [&](std::string_view hash) { return hash == used; };
  const auto look = folder->sweep(is_used, 2000, false);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->removed, 1u);
  EXPECT_EQ(content(path_of_blob(old)), "old");
  const auto sweep = folder->sweep(is_used, 2000, true);
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->files, 4u);
  EXPECT_EQ(sweep->used, 1u);
  EXPECT_EQ(sweep->young, 2u);
  EXPECT_EQ(sweep->removed, 1u);
  EXPECT_EQ(sweep->removed_bytes, 3u);
  EXPECT_EQ(files(), (std::set<std::string>{path_of_blob(used), path_of_blob(again), path_of_blob(young),
                                            old.substr(0, 2) + "/README"}));
}

TEST(BlobFolder, AFolderThatCannotBeMadeIsSaid) {
  EXPECT_THROW((void)BlobFolder::open("/proc/none/of/this"), std::system_error);
}

TEST(BlobFolder, Hashes) {
  EXPECT_TRUE(http::is_blob_hash(hash_of_abc));
  EXPECT_FALSE(http::is_blob_hash(hash_of_abc.substr(1)));
  EXPECT_FALSE(http::is_blob_hash("BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_FALSE(http::is_blob_hash("../816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_FALSE(http::is_blob_hash(""));
}

}  // namespace
}  // namespace sluice::files
