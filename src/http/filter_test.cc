#include "http/filter.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

class Base : public Filter {
 public:
  using Filter::Filter;
};

struct Nothing final : FilterOf<Nothing> {};
struct Before final : FilterOf<Before, Base> {
  core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return std::optional<Response>(); }
};
struct After final : FilterOf<After> {
  void after(Exchange&, Slot&, Response&) override {}
};
struct Ended final : FilterOf<Ended, Base> {
  void ended(Exchange&, Slot&, const Outcome&) override {}
};
struct Both final : FilterOf<Both> {
  void after(Exchange&, Slot&, Response&) override {}
  void ended(Exchange&, Slot&, const Outcome&) override {}
};

static_assert(Filter::parts_of<Nothing>() == Filter::Parts::before);
static_assert(Filter::parts_of<Before>() == Filter::Parts::before);
static_assert(Filter::parts_of<After>() == Filter::Parts::response);
static_assert(Filter::parts_of<Ended>() == Filter::Parts::all);
static_assert(Filter::parts_of<Both>() == Filter::Parts::all);

TEST(Filter, HasThePartsThatItOverrides) {
  EXPECT_EQ(Before().parts, Filter::Parts::before);
  EXPECT_EQ(After().parts, Filter::Parts::response);
  EXPECT_EQ(Ended().parts, Filter::Parts::all);
}

}  // namespace
}  // namespace sluice::http
