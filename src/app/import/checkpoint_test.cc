#include "app/import/checkpoint.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::app::import {
namespace {

std::uint64_t hash_of(const std::vector<sql::StagedValue>& values) {
  RowsHash hash;
  hash.add(values);
  return hash.value();
}

TEST(ImportCheckpoint, HashTellsRowsApart) {
  const std::vector<std::vector<sql::StagedValue>> all = {
      {},
      {{.text = "a"}, {.text = "b"}},
      {{.text = "ab"}, {.text = ""}},
      {{.text = ""}, {.text = "ab"}},
      {{.text = "b"}, {.text = "a"}},
      {{.text = {}}, {.text = "ab"}},
      {{.text = {}, .left_out = true}, {.text = "ab"}},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) EXPECT_EQ(hash_of(all[i]) == hash_of(all[j]), i == j) << i << " " << j;
  }
}

TEST(ImportCheckpoint, IsWhatWasSaved) {
  const std::string path = testing::TempDir() + "checkpoint-" + std::to_string(::getpid());
  EXPECT_FALSE(Checkpoint::load(path)->has_value());
  const Checkpoint saved{.target = "main \"films\" \"id\"", .rows = 123'456'789'012, .hash = 0xFEDCBA9876543210U};
  ASSERT_TRUE(saved.save(path));
  const auto found = Checkpoint::load(path);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->target, saved.target);
  EXPECT_EQ((*found)->rows, saved.rows);
  EXPECT_EQ((*found)->hash, saved.hash);
  std::ofstream(path) << "something else\n";
  EXPECT_FALSE(Checkpoint::load(path));
  std::remove(path.c_str());
  EXPECT_FALSE(saved.save("/nowhere/at/all"));
}

TEST(ImportCheckpoint, RefusesWhatItDidNotWrite) {
  const std::string good = Checkpoint{.target = "t", .rows = 1, .hash = 2}.text();
  ASSERT_TRUE(Checkpoint::parse(good));
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(Checkpoint::parse(good.substr(0, size))) << size;
  EXPECT_FALSE(Checkpoint::parse(good + "x"));
  EXPECT_FALSE(Checkpoint::parse("sluice-import 2\ntarget t\nrows 1\nhash 2\n"));
  EXPECT_FALSE(Checkpoint::parse("sluice-import 1\ntarget t\nrows -1\nhash 2\n"));
}

}  // namespace
}  // namespace sluice::app::import
