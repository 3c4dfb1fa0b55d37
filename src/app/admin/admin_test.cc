#include "runtime/admin.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "net/stream.h"

namespace sluice::runtime {
namespace {

core::Task<void> ask(core::Reactor& reactor, core::Address address, std::string request, std::string& answer) {
  net::Stream stream(reactor);
  if (!co_await stream.connect(address, never)) co_return;
  iovec part{request.data(), request.size()};
  if (!co_await stream.write({&part, 1}, 10s)) co_return;
  Buffer in;
  while (in.view().find('}') == std::string_view::npos) {
    const auto got = co_await stream.read(in, 4096, never);
    if (!got || *got == 0) break;
  }
  answer = in.view();
}

TEST(Admin, MetricsSayWhichCoreDoesNotAnswer) {
  core::Mesh mesh(2);
  core::Core silent(mesh, 0, std::make_unique<core::SimulatedReactor>(1));  // never runs a turn
  core::Core core(mesh, 1, std::make_unique<core::SimulatedReactor>(1));
  PerCore* const per_core[2] = {};
  const core::Address address = *core::Address::parse("127.0.0.1:8081");
  Admin admin(core, per_core);
  admin.listen({.address = address});
  std::string answer;
  core.tasks().spawn(ask(core.reactor(), address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", answer));
  const Instant end = core.reactor().now() + 60s;
  while (answer.empty() && core.reactor().now() < end) core.step(end);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("Core 0 has not answered within 5 s."), std::string::npos) << answer;
}

}  // namespace
}  // namespace sluice::runtime
