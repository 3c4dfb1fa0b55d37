#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "app/routes/frames/options.h"
#include "base/declare.h"

namespace sluice::app {

// The tables [[frames]]: sessions of services over TCP, TLS and unix sockets. They are no routes of HTTP, so they have
// no shapes.
struct FramesTables {
  static constexpr std::string_view name = "[[frames]]";
  static constexpr Nouns nouns = {"listener for frames", "listeners for frames"};
  std::vector<FramesOptions> frames;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("frames", &FramesTables::frames, "Addresses where clients of a C++ service connect over TCP.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const FramesOptions&);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
