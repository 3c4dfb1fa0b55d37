#include "api/changes/event.h"

#include <gtest/gtest.h>

namespace sluice::api::changes {
namespace {

using namespace std::string_literals;

std::string framed(std::string_view data, std::string_view name = {}) {
  std::string out;
  append_event(out, "b-1", name, data);
  return out;
}

TEST(ChangesEvent, LinesOfTheDataBecomeLinesOfTheEvent) {
  EXPECT_EQ(framed("x"), "id: b-1\ndata: x\n\n");
  EXPECT_EQ(framed(""), "id: b-1\ndata: \n\n");
  EXPECT_EQ(framed(" x"), "id: b-1\ndata:  x\n\n");
  EXPECT_EQ(framed("a\nb"), "id: b-1\ndata: a\ndata: b\n\n");
  EXPECT_EQ(framed("a\rb"), "id: b-1\ndata: a\ndata: b\n\n");
  EXPECT_EQ(framed("a\r\nb"), "id: b-1\ndata: a\ndata: b\n\n");
  EXPECT_EQ(framed("a\n\r\n"), "id: b-1\ndata: a\ndata: \ndata: \n\n");
  EXPECT_EQ(framed("\n\nid: 7\nevent: reset"), "id: b-1\ndata: \ndata: \ndata: id: 7\ndata: event: reset\n\n");
  EXPECT_EQ(framed("x", "reset"), "id: b-1\nevent: reset\ndata: x\n\n");
  EXPECT_EQ(reset_frame("b-7", "gap"), "id: b-7\nevent: reset\ndata: {\"reason\":\"gap\"}\n\n");
}

TEST(ChangesEvent, WhatIsNotUtf8IsReplaced) {
  constexpr std::string_view bad = "\xEF\xBF\xBD";
  EXPECT_EQ(framed("Grüße 😀"), "id: b-1\ndata: Grüße 😀\n\n");
  for (const std::string& one : {"\xFF"s, "\x80"s, "\xC3"s, "\xC0"s, "\xF0"s}) {
    EXPECT_EQ(framed("a" + one), "id: b-1\ndata: a" + std::string(bad) + "\n\n");
    EXPECT_EQ(framed(one + "\nß"), "id: b-1\ndata: " + std::string(bad) + "\ndata: ß\n\n");
  }
  // A surrogate, and a code beyond the last character: one replacement character per byte.
  EXPECT_EQ(framed("\xED\xA0\x80").size(), std::string("id: b-1\ndata: \n\n").size() + 3 * bad.size());
  EXPECT_EQ(framed("\xF4\x90\x80\x80").size(), std::string("id: b-1\ndata: \n\n").size() + 4 * bad.size());
}

TEST(ChangesEvent, IdsAreOfOneProcess) {
  EXPECT_EQ(event_id("b", 12), "b-12");
  EXPECT_EQ(number_of("b-12", "b"), 12u);
  EXPECT_EQ(number_of("b-0", "b"), 0u);
  for (const char* other :
       {"", "b", "b-", "b-x", "b-1x", "b--1", "b-+1", "c-1", "bb-1", "b1", "b-99999999999999999999"}) {
    EXPECT_FALSE(number_of(other, "b")) << other;
  }
}

}  // namespace
}  // namespace sluice::api::changes
