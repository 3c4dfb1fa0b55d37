#include "api/resident/projections.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

TestRows generated(int count) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25),
                 array_of("roles", sql::Form::text)});
  for (int i = 0; i < count; ++i) rows.row({std::to_string(i), "the \"name\" " + std::to_string(i), "{a,b}"});
  return rows;
}

Selection rows_of(std::vector<std::uint32_t> rows) {
  Selection selection;
  selection.rows = std::move(rows);
  return selection;
}

std::string text_of(const http::SharedSpans& spans) {
  std::string text;
  for (const std::string_view piece : spans.pieces()) text += piece;
  EXPECT_EQ(text.size(), spans.size());
  return text;
}

std::string written(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted) {
  RowWriter writer(table, wanted);
  Buffer out;
  writer.begin(out);
  for (std::uint64_t i = 0; i < selection.size(); ++i) writer.row(selection.at(i), out);
  writer.end(out);
  return std::string(out.view());
}

class ProjectionsTest : public testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<const Table> table(int count) {
    return table_of({.csv = true, .on_demand = GetParam()}, generated(count));
  }
  const std::shared_ptr<const int> version_ = std::make_shared<int>();
};
INSTANTIATE_TEST_SUITE_P(Modes, ProjectionsTest, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "packed" : "encoded"; });

TEST_P(ProjectionsTest, AnswersAreWhatTheWriterWrites) {
  const auto of = table(300);
  Projections kept(1 << 20);
  for (const auto format : {sql::Format::json, sql::Format::ndjson, sql::Format::csj, sql::Format::csv}) {
    for (const auto header : {sql::Header::present, sql::Header::absent}) {
      for (const std::vector<std::uint32_t>& fields : {std::vector<std::uint32_t>{}, {0}, {1, 0}, {2}}) {
        const RowWriter::Wanted wanted{.format = format, .header = header, .fields = fields};
        (void)kept.answer(version_, *of, rows_of({1}), wanted);
        for (const auto& rows :
             std::vector<std::vector<std::uint32_t>>{{1, 2, 3}, {}, {299, 3, 0}, {2}, {7, 2, 1, 8}}) {
          const auto spans = kept.answer(version_, *of, rows_of(rows), wanted);
          ASSERT_TRUE(spans);
          EXPECT_EQ(text_of(*spans), written(*of, rows_of(rows), wanted));
        }
        Selection all;
        all.is_range = true;
        all.last = 300;
        EXPECT_EQ(text_of(*kept.answer(version_, *of, all, wanted)), written(*of, all, wanted));
      }
    }
  }
}

TEST_P(ProjectionsTest, TheFirstTimeNothingIsKept) {
  const auto of = table(10);
  Projections kept(1 << 20);
  const RowWriter::Wanted names{.format = sql::Format::json, .fields = {1}};
  const RowWriter::Wanted ids{.format = sql::Format::json, .fields = {0}};
  EXPECT_FALSE(kept.answer(version_, *of, rows_of({1}), names));
  EXPECT_FALSE(kept.answer(version_, *of, rows_of({1}), ids));
  EXPECT_EQ(kept.bytes(), 0u);
  EXPECT_TRUE(kept.answer(version_, *of, rows_of({2}), names));
  const std::uint64_t bytes = kept.bytes();
  EXPECT_GT(bytes, 0u);
  // The same row again needs no more memory, and NDJSON uses the same text.
  EXPECT_TRUE(kept.answer(version_, *of, rows_of({2}), {.format = sql::Format::ndjson, .fields = {1}}));
  EXPECT_EQ(kept.bytes(), bytes);
  kept.clear();
  EXPECT_EQ(kept.bytes(), 0u);
  Projections none(0);
  EXPECT_FALSE(none.answer(version_, *of, rows_of({1}), names));
  EXPECT_FALSE(none.answer(version_, *of, rows_of({1}), names));
}

// The limit holds, and answers that are being sent do not change.
TEST_P(ProjectionsTest, KeepsToItsLimit) {
  const auto of = table(5000);
  constexpr std::size_t limit = 128 * 1024;
  Projections kept(limit);
  std::vector<std::pair<http::SharedSpans, std::string>> sent;
  const auto all_are_right = [&] {
    for (const auto& [spans, its] : sent) EXPECT_EQ(text_of(spans), its);
  };
  int without = 0;
  for (std::uint32_t round = 0; round < 300; ++round) {
    const RowWriter::Wanted wanted{.format = sql::Format::ndjson, .fields = {round % 3}};
    std::vector<std::uint32_t> rows;
    for (std::uint32_t i = 0; i < 100; ++i) rows.push_back((round * 97 + i * 13) % 5000);
    auto spans = kept.answer(version_, *of, rows_of(rows), wanted);
    EXPECT_LE(kept.bytes(), limit);
    if (round < 3) continue;
    if (!spans) {
      // Too many answers still hold the evicted rows.
      ++without;
      all_are_right();
      EXPECT_GT(sent.size(), 2u);
      sent.clear();
      continue;
    }
    sent.emplace_back(std::move(*spans), written(*of, rows_of(rows), wanted));
  }
  all_are_right();
  EXPECT_GT(without, 2);
  EXPECT_LT(without, 100);
  sent.clear();
  // One answer that exceeds the limit.
  Selection all;
  all.is_range = true;
  all.last = 5000;
  const auto spans = kept.answer(version_, *of, all, {.format = sql::Format::ndjson, .fields = {1}});
  ASSERT_TRUE(spans);
  EXPECT_EQ(text_of(*spans), written(*of, all, {.format = sql::Format::ndjson, .fields = {1}}));
  EXPECT_LE(kept.bytes(), limit);
  EXPECT_FALSE(kept.answer(version_, *of, all, {.format = sql::Format::ndjson, .fields = {1}}, 10'000));
  EXPECT_LE(kept.bytes(), limit);
}

TEST_P(ProjectionsTest, AnswersHoldTheirVersion) {
  const auto of = table(10);
  Projections kept(1 << 20);
  auto version = std::make_shared<int>();
  const std::weak_ptr<int> watched = version;
  const RowWriter::Wanted wanted{.format = sql::Format::csj, .fields = {1}};
  (void)kept.answer(version, *of, rows_of({1}), wanted);
  auto spans = kept.answer(version, *of, rows_of({1}), wanted);
  version.reset();
  kept.clear();
  EXPECT_FALSE(watched.expired());
  spans.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace sluice::api::resident
