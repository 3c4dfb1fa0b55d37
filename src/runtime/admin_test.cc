#include "runtime/admin.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"

namespace sluice::runtime {
namespace {

struct Idle final : PerCore {
  [[nodiscard]] Snapshot snapshot() const override { return {}; }
  [[nodiscard]] const std::vector<std::string>& route_names() const override { return names; }
  core::Task<Readiness> find_readiness(Instant) override { co_return Readiness{}; }
  void drain(Duration) noexcept override {}
  [[nodiscard]] bool drained() const override { return true; }
  core::Task<void> finish(Instant) override { co_return; }

  std::vector<std::string> names = {""};
};

sockaddr_in free_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return address;
}

// Asks for /readyz as soon as something listens. Returns the first bytes of the answer.
std::string ask(const sockaddr_in& address) {
  constexpr std::string_view request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  for (;;) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    std::string answer(12, ' ');
    const bool is_connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const bool is_sent = is_connected && ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0;
    if (is_sent) (void)::recv(fd, answer.data(), answer.size(), MSG_WAITALL);
    ::close(fd);
    if (is_connected) return answer;
  }
}

// listen() already accepts clients that have connected meanwhile, when no core has its PerCore yet. Without the wait
// for the first turn, two of three runs crash.
TEST(Admin, ProbesThatComeBeforeTheCoresRunAreAnswered) {
  for (int round = 0; round < 3000; ++round) {
    core::Mesh mesh(1);
    core::Core core(mesh, 0, core::make_epoll_reactor());
    const sockaddr_in address = free_address();
    std::vector<PerCore*> per_core{nullptr};
    Admin admin(core, per_core);
    std::atomic<bool> is_answered{false};
    std::string answer;
    std::thread client([&] {
      answer = ask(address);
      is_answered = true;
    });
    admin.listen({.address = *core::Address::parse("127.0.0.1:" + std::to_string(ntohs(address.sin_port)))});
    Idle idle;
    per_core[0] = &idle;
    while (!is_answered) core.step(core.reactor().now() + 1ms);
    client.join();
    ASSERT_TRUE(answer == "HTTP/1.1 200" || answer == "HTTP/1.1 503") << answer;
  }
}

}  // namespace
}  // namespace sluice::runtime
