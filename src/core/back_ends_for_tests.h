#pragma once

#include <memory>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "core/reactor.h"

namespace sluice::core {

// Why this system has no such reactor; empty: it has.
inline std::string refusal(BackEnd back_end) {
  try {
    (void)make_reactor(back_end);
    return {};
  } catch (const std::system_error& error) {
    return error.what();
  }
}

// A reactor that a test with parameters runs on.
struct TestedReactor {
  const char* name;
  std::unique_ptr<Reactor> (*make)();
  bool is_uring = false;
};

inline const TestedReactor on_epoll{"epoll", make_epoll_reactor};
// Where io_uring is refused it is some other, for a test that is skipped.
inline const TestedReactor on_uring{
    "uring", [] { return make_reactor(refusal(BackEnd::uring).empty() ? BackEnd::uring : BackEnd::epoll); }, true};

// Their fixture.
class OnReactor : public testing::TestWithParam<TestedReactor> {
 protected:
  void SetUp() override {
    if (!GetParam().is_uring) return;
    if (const std::string why = refusal(BackEnd::uring); !why.empty()) GTEST_SKIP() << why;
  }
};

inline std::string name_of(const testing::TestParamInfo<TestedReactor>& info) { return info.param.name; }

}  // namespace sluice::core
