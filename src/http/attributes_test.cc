#include "http/attributes.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

struct Number {
  int value = 0;
};
struct OtherNumber {
  int value = 0;
};
struct Owner {
  std::shared_ptr<std::string> ended;
  const char* name = "";
  Owner(std::shared_ptr<std::string> into, const char* named) : ended(std::move(into)), name(named) {}
  Owner(Owner&&) = default;
  Owner& operator=(Owner&&) = default;
  ~Owner() {
    if (ended) *ended += name;
  }
};
struct OtherOwner : Owner {
  using Owner::Owner;
};

TEST(Attributes, OneOfEachType) {
  Attributes attributes;
  EXPECT_EQ(attributes.find<Number>(), nullptr);
  attributes.set(Number{1});
  attributes.set(OtherNumber{2});
  ASSERT_NE(attributes.find<Number>(), nullptr);
  EXPECT_EQ(attributes.find<Number>()->value, 1);
  EXPECT_EQ(attributes.find<OtherNumber>()->value, 2);
  Number& replaced = attributes.set(Number{3});
  EXPECT_EQ(&replaced, attributes.find<Number>());
  EXPECT_EQ(attributes.find<Number>()->value, 3);
  attributes.clear();
  EXPECT_EQ(attributes.find<Number>(), nullptr);
  EXPECT_EQ(attributes.find<OtherNumber>(), nullptr);
}

TEST(Attributes, AreDestroyedInReverse) {
  const auto ended = std::make_shared<std::string>();
  {
    Attributes attributes;
    attributes.set(Owner(ended, "a"));
    attributes.set(OtherOwner(ended, "b"));
    EXPECT_EQ(*ended, "");
    attributes.clear();
    EXPECT_EQ(*ended, "ba");
    attributes.set(Owner(ended, "c"));
  }
  EXPECT_EQ(*ended, "bac");
  EXPECT_EQ(ended.use_count(), 1);
}

}  // namespace
}  // namespace sluice::http
