#include "http/compress/cache.h"

#include <gtest/gtest.h>

#include "http/compress/test_support.h"

namespace sluice::http::compress {
namespace {

Buffer bytes_of(std::string_view text) {
  Buffer buffer;
  buffer.append(text);
  return buffer;
}

struct File {
  std::shared_ptr<const int> owner = std::make_shared<const int>(0);
  std::string tag;
  explicit File(std::string tag) : tag(std::move(tag)) {}
  [[nodiscard]] Cache::Source source() const { return {owner, 0, 100, tag}; }
};

TEST(CompressCache, KeepsFormsByTheirSourceAndCoding) {
  Cache cache(64 * 1024);
  const File a("\"t\"");
  const File b("\"t\"");  // another file with the same tag
  EXPECT_EQ(cache.find(a.source(), Coding::gzip), nullptr);
  const auto stored = cache.store(a.source(), Coding::gzip, bytes_of("A in gzip"));
  ASSERT_NE(stored, nullptr);
  EXPECT_EQ(stored->weak_tag, "W/\"t\"");
  EXPECT_EQ(cache.find(a.source(), Coding::gzip), stored);
  EXPECT_EQ(cache.find(a.source(), Coding::zstd), nullptr);
  EXPECT_EQ(cache.find(b.source(), Coding::gzip), nullptr);
  cache.store(a.source(), Coding::zstd, bytes_of("A in zstd"));
  EXPECT_EQ(cache.find(a.source(), Coding::zstd)->bytes.view(), "A in zstd");
  EXPECT_EQ(cache.find(a.source(), Coding::gzip)->bytes.view(), "A in gzip");
  EXPECT_EQ(cache.size(), 1u);
  Cache::Source part = a.source();
  part.begin = 1;
  EXPECT_EQ(cache.find(part, Coding::gzip), nullptr);
  Cache::Source changed = a.source();
  changed.tag = "\"u\"";
  EXPECT_EQ(cache.find(changed, Coding::gzip), nullptr);
}

TEST(CompressCache, WhatWasUsedLongestAgoGoesFirst) {
  Cache cache(8 * 1600);  // eight forms of 1,024 bytes, including their overhead
  std::vector<File> files;
  for (int i = 0; i < 9; ++i) files.emplace_back("\"" + std::to_string(i) + "\"");
  for (int i = 0; i < 8; ++i)
    cache.store(files[static_cast<std::size_t>(i)].source(), Coding::gzip, bytes_of(words(1024)));
  EXPECT_EQ(cache.size(), 8u);
  EXPECT_NE(cache.find(files[0].source(), Coding::gzip), nullptr);
  cache.store(files[8].source(), Coding::gzip, bytes_of(words(1024)));
  EXPECT_NE(cache.find(files[0].source(), Coding::gzip), nullptr);
  EXPECT_EQ(cache.find(files[1].source(), Coding::gzip), nullptr);
  EXPECT_LE(cache.bytes(), 8u * 1600);
}

TEST(CompressCache, FormsGoWithTheirSource) {
  Cache cache(64 * 1024);
  auto gone = std::make_unique<File>("\"gone\"");
  cache.store(gone->source(), Coding::gzip, bytes_of("g"));
  cache.store(gone->source(), Coding::brotli, bytes_of("b"));
  const void* const address = gone->owner.get();
  const auto sent = cache.find(gone->source(), Coding::gzip);  // a response being sent
  const std::weak_ptr<const int> owner = gone->owner;
  gone.reset();
  EXPECT_TRUE(owner.expired());
  // Another source at the same address.
  const Cache::Source at_its_place{{std::make_shared<int>(0), address}, 0, 100, "\"gone\""};
  EXPECT_EQ(cache.find(at_its_place, Coding::gzip), nullptr);
  const File other("\"other\"");
  cache.store(other.source(), Coding::gzip, bytes_of("o"));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(sent->bytes.view(), "g");
}

TEST(CompressCache, WhatIsTooLongIsNotKeptAndNotTaken) {
  Cache cache(8 * 1024);
  const File file("\"t\"");
  Buffer bytes = bytes_of(noise(1025));
  EXPECT_EQ(cache.store(file.source(), Coding::gzip, std::move(bytes)), nullptr);
  EXPECT_EQ(bytes.size(), 1025u);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
  Buffer roomy(60'000);
  roomy.append("x");
  ASSERT_NE(cache.store(file.source(), Coding::gzip, std::move(roomy)), nullptr);
  EXPECT_LT(cache.bytes(), 1024u) << "room that is not used is not kept";
  ASSERT_NE(cache.store(file.source(), Coding::gzip, bytes_of("y")), nullptr);
  EXPECT_EQ(cache.find(file.source(), Coding::gzip)->bytes.view(), "y");
  EXPECT_EQ(cache.size(), 1u);
}

TEST(CompressCache, OneMakesAFormAtATime) {
  Cache cache(64 * 1024);
  const File file("\"t\"");
  EXPECT_TRUE(cache.reserve(file.source(), Coding::gzip));
  EXPECT_FALSE(cache.reserve(file.source(), Coding::gzip));
  EXPECT_TRUE(cache.reserve(file.source(), Coding::zstd));
  cache.abandon(file.source(), Coding::gzip);
  EXPECT_TRUE(cache.reserve(file.source(), Coding::gzip));
  cache.store(file.source(), Coding::gzip, bytes_of("x"));
  EXPECT_TRUE(cache.reserve(file.source(), Coding::gzip));
  Cache none(0);
  EXPECT_FALSE(none.reserve(file.source(), Coding::gzip));
  EXPECT_EQ(none.store(file.source(), Coding::gzip, bytes_of("x")), nullptr);
}

}  // namespace
}  // namespace sluice::http::compress
