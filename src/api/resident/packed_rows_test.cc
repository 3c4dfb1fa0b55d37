#include "api/resident/packed_rows.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

void expect_row(std::span<const sql::Field> made, std::span<const sql::Field> wanted,
                const std::vector<sql::Column>& columns) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].is_null(), wanted[i].is_null()) << i;
    if (wanted[i].is_null()) continue;
    EXPECT_EQ(made[i].view(), wanted[i].view()) << i;
    if (columns[i].type->form == sql::Form::dynamic) EXPECT_EQ(made[i].form, wanted[i].form) << wanted[i].view();
  }
}

PackedRows pack(const TestRows& rows) {
  PackedRows packed(rows.columns);
  for (std::size_t i = 0; i < rows.size(); ++i) packed.append(rows.block().row(i));
  packed.trim();
  return packed;
}

void expect_rows(const PackedRows& packed, const TestRows& rows) {
  ASSERT_EQ(packed.size(), rows.size());
  PackedRows::Reader reader(packed);
  for (std::uint32_t row = 0; row < packed.size(); ++row) {
    expect_row(reader.row(row), rows.block().row(row), rows.columns);
    expect_row(reader.row(row, 1), rows.block().row(row), rows.columns);
  }
}

TEST(PackedRows, FieldsComeOutAsTheyWentIn) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("t", sql::Form::text, 25),
                 array_of("a", sql::Form::text), column_of("b", sql::Form::boolean, 16),
                 column_of("at", sql::Form::timestamp_tz, 1184), column_of("x", sql::Form::bytes, 17)});
  const std::string zeros(3, '\0');
  rows.row({"1", "", "{}", "t", "2026-11-22 18:30:00+00", zeros})
      .row({nullptr, nullptr, nullptr, nullptr, nullptr, nullptr})
      .row({"-17", std::string(127, 'x'), "{a,b}", "f", "infinity", "12"})
      .row({"NaN", std::string(128, 'x'), "{a,b}", "t", "2026-11-22 18:30:00.5+00", ""})
      .row({"1e400", std::string(100'000, 'y'), "{NULL}", "f", "0044-03-15 18:30:00+00 BC", "2026-11-22"})
      .row({"007", "007", "7", "7", "7", "7"});
  expect_rows(pack(rows), rows);
}

TEST(PackedRows, FieldsKeepTheirForm) {
  using sql::Form;
  TestRows rows({sqlite_column("s", "")});
  for (const char* const text : {"1", "1.5", "007", "2026-11-22", "", "t", "[1]", "1e5",
                                 "0189abcd-ef01-7234-89ab-cdef01234567", "2026-11-22 18:30:00"}) {
    for (const auto form : {Form::number, Form::text, Form::bytes, Form::json, Form::boolean}) {
      rows.row({TestValue(text, form)}).row({TestValue(text, form)});
    }
  }
  rows.row({nullptr});
  expect_rows(pack(rows), rows);
}

// More words than there are one-byte numbers, two-byte numbers, and places for words.
TEST(PackedRows, Words) {
  for (const int distinct : {2, 47, 48, 303, 304, 4096, 5000}) {
    TestRows rows({column_of("word", sql::Form::text, 25), sqlite_column("other", "")});
    for (int i = 0; i < 3 * distinct; ++i) {
      const std::string text = "the word " + std::to_string(i % distinct);
      rows.row({text, TestValue(text, i % 2 != 0 ? sql::Form::text : sql::Form::json)});
    }
    const PackedRows packed = pack(rows);
    expect_rows(packed, rows);
    if (distinct == 2) EXPECT_EQ(packed.bytes(), rows.size() * 2) << distinct;
    // Each word is stored once for each of its forms. Further texts are stored as texts.
    if (distinct <= 304) EXPECT_LT(packed.bytes() + packed.memory(), rows.size() * 40u + 20'000) << distinct;
  }
}

TEST(PackedRows, WhatNeverComesAgainIsNotLookedForForEver) {
  TestRows rows({column_of("word", sql::Form::text, 25)});
  for (int i = 0; i < 20'000; ++i) rows.row({"text " + std::to_string(i) + "."});
  for (int i = 0; i < 100; ++i) rows.row({"text 1."});  // was a word before
  const PackedRows packed = pack(rows);
  expect_rows(packed, rows);
  EXPECT_LT(packed.memory(), packed.bytes() + 20'100 * 4 + 300'000);
}

TEST(PackedRows, RowsAreTakenOverWithTheirWords) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("word", sql::Form::text, 25)});
  rows.row({"1", "red"}).row({"2", "blue"}).row({"3", "red"});
  const PackedRows old = pack(rows);
  const auto next = PackedRows::with_words_of(old);
  EXPECT_EQ(next->size(), 0u);
  TestRows changed(rows.columns);
  changed.row({"2", "green"}).row({"4", "blue"});
  next->append_row(old, 2);
  next->append(changed.block().row(0));
  next->append_row(old, 0);
  next->append(changed.block().row(1));
  next->trim();
  TestRows wanted(rows.columns);
  wanted.row({"3", "red"}).row({"2", "green"}).row({"1", "red"}).row({"4", "blue"});
  expect_rows(*next, wanted);
  expect_rows(old, rows);
}

}  // namespace
}  // namespace sluice::api::resident
