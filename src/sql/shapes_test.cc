#include "sql/shapes.h"

#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

Shape shape_of(std::string text) {
  Shape shape;
  shape.statement.text = std::move(text);
  return shape;
}

TEST(Shapes, KeepTheLatestAndReuseIds) {
  Shapes shapes(std::make_shared<StatementIds>());
  shapes.resize(3);
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 1000; ++i) {
    slots.insert(shapes.add(shape_of("SELECT " + std::to_string(i)))->statement.id.slot);
    if (shapes.find("SELECT 0") == nullptr) EXPECT_GT(i, 2);  // it is used each time, so it stays
  }
  EXPECT_NE(shapes.find("SELECT 0"), nullptr);
  EXPECT_EQ(shapes.find("SELECT 998"), shapes.find("SELECT 998"));
  EXPECT_EQ(shapes.find("SELECT 500"), nullptr);
  EXPECT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes.evicted(), 997u);
  EXPECT_LE(slots.size(), 4u);
}

TEST(Shapes, AnEvictedOneLivesAsLongAsItRuns) {
  Shapes shapes(std::make_shared<StatementIds>());
  shapes.resize(1);
  const auto running = shapes.add(shape_of("SELECT 1"));
  const auto next = shapes.add(shape_of("SELECT 2"));
  EXPECT_EQ(running->statement.text, "SELECT 1");
  EXPECT_NE(running->statement.id.slot, next->statement.id.slot);
}

}  // namespace
}  // namespace sluice::sql
