#include "sql/set/fault_text.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

TEST(RefusalText, IsOfTheStateOrElseOfItsClass) {
  EXPECT_EQ(refusal_text("22P02", ""), "is not of the column's type");
  EXPECT_EQ(refusal_text("22003", ""), "is out of the range of the column's type");
  EXPECT_EQ(refusal_text("22012", ""), "is not accepted");
  EXPECT_EQ(refusal_text("23502", ""), "must not be null");
  EXPECT_EQ(refusal_text("23505", "films_slug_key"), "has the same unique value as another row (films_slug_key)");
  EXPECT_EQ(refusal_text("23514", "small"), "is outside of what is allowed (small)");
  EXPECT_EQ(refusal_text("44000", ""), "is outside of what is allowed");
  EXPECT_EQ(refusal_text("54000", ""), "is too long");
  EXPECT_EQ(refusal_text("54001", ""), "is nested too deeply");
  EXPECT_EQ(refusal_text("23001", ""), "breaks a rule of the data");
  EXPECT_EQ(refusal_text("", ""), "is not accepted");
  EXPECT_EQ(refusal_text("42501", "x"), "is not accepted (x)");
}

TEST(RefusalText, WhatARowHolds) {
  for (const char* const state : {"22P02", "22001", "23505", "23000", "54000", "54001", "P0001"})
    EXPECT_TRUE(is_of_a_row(state)) << state;
  for (const char* const state : {"", "40001", "42501", "54011", "57014", "P0002", "08006"})
    EXPECT_FALSE(is_of_a_row(state)) << state;
}

}  // namespace
}  // namespace sluice::sql
