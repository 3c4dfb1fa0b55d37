#include "http/shared_spans.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::string joined(const SharedSpans& spans) {
  std::string all;
  for (const std::string_view piece : spans.pieces()) all += piece;
  return all;
}

TEST(SharedSpansTest, KeepsPiecesInTheirOrderAndTheirOwner) {
  const auto owner = std::make_shared<const std::string>("abcdefghijklmnopqrstuvwxyz");
  const std::string_view text = *owner;
  for (const std::size_t expected : {0u, 1u, 26u, 5000u}) {
    SharedSpans spans(owner, expected);
    EXPECT_EQ(owner.use_count(), 2);
    EXPECT_TRUE(spans.pieces().empty());
    std::string all;
    for (std::size_t i = 0; i < 3000; ++i) {
      const std::string_view piece = text.substr(i % 26, 2 + i % 3);
      spans.add(piece);
      spans.add({});
      all += piece;
    }
    EXPECT_EQ(spans.pieces().size(), 3000u) << "an empty one is none";
    EXPECT_EQ(spans.size(), all.size());
    EXPECT_EQ(joined(spans), all);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(SharedSpansTest, WhatLiesSideBySideIsOnePiece) {
  const std::string text = "abcdefgh";
  const std::string_view all = text;
  SharedSpans spans(nullptr);
  for (std::size_t i = 0; i < all.size(); ++i) spans.add(all.substr(i, 1));
  EXPECT_EQ(spans.pieces().size(), 1u);
  spans.add(all.substr(6, 2));
  spans.add(all.substr(0, 1));
  spans.add(all.substr(1, 1));
  EXPECT_EQ(spans.pieces().size(), 3u);
  EXPECT_EQ(spans.size(), 12u);
  EXPECT_EQ(joined(spans), "abcdefghghab");
}

TEST(SharedSpansTest, Moves) {
  const auto owner = std::make_shared<const int>();
  SharedSpans first(owner);
  first.add("ab");
  first.add("c");
  SharedSpans second(std::move(first));
  EXPECT_EQ(joined(second), "abc");
  SharedSpans third(owner);
  third.add("lost");
  third = std::move(second);
  EXPECT_EQ(joined(third), "abc");
  EXPECT_EQ(third.size(), 3u);
  third.add("d");
  EXPECT_EQ(joined(third), "abcd");
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(SpanReaderTest, GivesTheSameBytesHoweverTheyAreTaken) {
  std::string all;
  for (std::size_t i = 0; i < 2000; ++i) all += static_cast<char>('a' + i * i % 23);
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0, size = 1; at < all.size(); at += size, size = 1 + size * 7 % 90) {
    pieces.push_back(std::string_view(all).substr(at, size));
  }
  for (std::size_t step = 1; step < 300; ++step) {
    SpanReader reader(pieces);
    std::string got;
    std::string room(step, '\0');
    while (!reader.at_end()) {
      const std::size_t size = reader.copy(room.data(), step);
      got.append(room, 0, size);
      ASSERT_TRUE(size == step || got.size() == all.size());
      if (reader.at_end()) break;
      const std::string_view piece = reader.front().substr(0, step);
      ASSERT_FALSE(piece.empty());
      got += piece;
      reader.skip(piece.size());
    }
    ASSERT_EQ(got, all) << step;
    EXPECT_EQ(reader.copy(room.data(), step), 0u);
  }
}

TEST(SpanReaderTest, HasNothingOfNothing) {
  char room = 'x';
  EXPECT_TRUE(SpanReader().at_end());
  SpanReader reader{std::span<const std::string_view>()};
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(reader.copy(&room, 1), 0u);
}

}  // namespace
}  // namespace sluice::http
