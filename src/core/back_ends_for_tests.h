#pragma once

#include <memory>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "core/reactor.h"

namespace sluice::core {

// Returns why this system does not support the back end; empty if it does.
inline std::string refusal(BackEnd back_end) {
  try {
    (void)make_reactor(back_end);
    return {};
  } catch (const std::system_error& error) {
    return error.what();
  }
}

// The reactor of a parameterized test.
struct TestedReactor {
  const char* name;
  std::unique_ptr<Reactor> (*make)();
  bool is_uring = false;
};

inline const TestedReactor on_epoll{"epoll", make_epoll_reactor};
// Falls back to another reactor if io_uring is refused; the test is then skipped.
inline const TestedReactor on_uring{
    "uring", [] { return make_reactor(refusal(BackEnd::uring).empty() ? BackEnd::uring : BackEnd::epoll); }, true};

// The fixture of the parameterized tests.
class OnReactor : public testing::TestWithParam<TestedReactor> {
 protected:
  void SetUp() override {
    if (!GetParam().is_uring) return;
    if (const std::string why = refusal(BackEnd::uring); !why.empty()) GTEST_SKIP() << why;
  }
};

inline std::string name_of(const testing::TestParamInfo<TestedReactor>& info) { return info.param.name; }

}  // namespace sluice::core
