#include "http/fields.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/ascii.h"

namespace sluice::http {
namespace {

TEST(SameName, IgnoresTheCaseOfLettersOnly) {
  EXPECT_TRUE(same_name("", ""));
  EXPECT_TRUE(same_name("Content-Length", "cONTENT-lENGTH"));
  EXPECT_FALSE(same_name("Content-Length", "Content-Lengt"));
  EXPECT_FALSE(same_name("Host", "Hose"));
  EXPECT_FALSE(same_name("a^", "a~"));  // 0x5E and 0x7E differ only in the bit for the case of letters
  EXPECT_FALSE(same_name("@", "`"));
}

TEST(SameName, ComparesEveryByteAtEveryPlace) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 16u, 21u}) {
    for (std::size_t at = 0; at < size; ++at) {
      for (int x = 0; x < 256; ++x) {
        for (const int y : {x ^ 0x20, x ^ 0x80, x ^ 0xA0, x + 1, 255 - x, x}) {
          std::string a(size, 'm');
          std::string b(size, 'M');
          a[at] = static_cast<char>(x);
          b[at] = static_cast<char>(y);
          ASSERT_EQ(same_name(a, b), equal_ignoring_case(a, b)) << size << " " << at << " " << x << " " << y;
        }
      }
    }
  }
}

TEST(FieldList, OwnedValuesSurviveMoves) {
  FieldList list;
  list.add("A", "static");
  for (int i = 0; i < 10; ++i) list.add_owned("B", "short " + std::to_string(i));
  FieldList moved(std::move(list));
  EXPECT_EQ(list.items().size(), 0u);
  FieldList assigned;
  assigned.add_owned("Z", "is dropped");
  assigned = std::move(moved);
  ASSERT_EQ(assigned.items().size(), 11u);
  EXPECT_EQ(assigned.get("a"), "static");
  EXPECT_EQ(assigned.get("b"), "short 0");
  EXPECT_EQ(assigned.items()[10].value, "short 9");
  EXPECT_EQ(assigned.get("z"), "");
}

// The n-th field of a list is ("n", "value n"). Every third field is trusted.
void add_fields(FieldList& list, int first, int end, std::vector<std::string>& texts) {
  for (int i = first; i < end; ++i) {
    texts.push_back(std::to_string(i));
    if (i % 3 == 0) {
      list.add_trusted(texts[static_cast<std::size_t>(i)], "value");
    } else {
      list.add_owned(texts[static_cast<std::size_t>(i)], "value " + std::to_string(i));
    }
  }
}

TEST(FieldList, GrowsBeyondItsInlineItemsAndBack) {
  std::vector<std::string> texts;
  texts.reserve(FieldList::max_size);
  FieldList list;
  add_fields(list, 0, 16, texts);
  add_fields(list, 16, 100, texts);
  FieldList moved(std::move(list));
  EXPECT_TRUE(list.items().empty());
  list.add("again", "inline");
  EXPECT_EQ(list.get("again"), "inline");
  list = std::move(moved);
  ASSERT_EQ(list.items().size(), 100u);
  EXPECT_EQ(list.get("98"), "value 98");
  EXPECT_EQ(list.trusted(), 0b01001001'00100100'10010010'01001001u) << "of the first 32 only";
  list.set_owned(98, "another");
  EXPECT_EQ(list.get("98"), "another");

  while (list.items().size() > 10) list.remove(1);
  ASSERT_EQ(list.items().size(), 10u);
  EXPECT_EQ(list.items()[0].name, "0");
  EXPECT_EQ(list.items()[1].name, "91");
  EXPECT_EQ(list.items()[9].name, "99");
  EXPECT_EQ(list.trusted(), 1u) << "an item that moves to the front does not become trusted";
  add_fields(list, 100, 120, texts);
  ASSERT_EQ(list.items().size(), 30u);
  EXPECT_EQ(list.items()[29].name, "119");
  EXPECT_EQ(list.items()[10].name, "100");
}

TEST(FieldList, TakesItsMaximum) {
  std::vector<std::string> texts;
  texts.reserve(FieldList::max_size);
  FieldList list;
  add_fields(list, 0, FieldList::max_size, texts);
  EXPECT_EQ(list.items().size(), FieldList::max_size);
  EXPECT_EQ(list.get("511"), "value 511");
  EXPECT_DEATH(list.add("one", "more"), "size_ < max_size");
}

}  // namespace
}  // namespace sluice::http
