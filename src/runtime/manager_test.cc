#include "runtime/manager.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/core.h"
#include "core/simulated_reactor.h"
#include "runtime/watchdog.h"

namespace sluice::runtime {
namespace {

// A service manager with an abstract socket.
class Manager {
 public:
  Manager() : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = offsetof(sockaddr_un, sun_path);  // the kernel chooses a name
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    size = sizeof address;
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = std::string(address.sun_path, size - offsetof(sockaddr_un, sun_path));
    address_[0] = '@';
  }
  Manager(const Manager&) = delete;
  ~Manager() { ::close(socket_); }

  [[nodiscard]] const std::string& address() const { return address_; }
  // The next datagram, or "" if none has been sent.
  std::string heard() {
    char text[200];
    const ssize_t size = ::recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  int socket_;
  std::string address_;
};

TEST(Notifier, TellsEachStateInOneDatagram) {
  Manager manager;
  Notifier notifier(manager.address());
  notifier.ready("serving");
  EXPECT_EQ(manager.heard(), "READY=1\nSTATUS=serving");
  notifier.reloading();
  const std::string reloading = manager.heard();
  ASSERT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
  EXPECT_EQ(reloading.find_first_not_of("0123456789", reloading.rfind('=') + 1), std::string::npos) << reloading;
  notifier.stopping();
  EXPECT_EQ(manager.heard(), "STOPPING=1");
  notifier.ready("the end of a reload");
  notifier.alive();
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");
  EXPECT_EQ(manager.heard(), "");
}

TEST(Notifier, NeedsNoManager) {
  Notifier nobody("");
  nobody.ready("serving");
  nobody.stopping();
  Notifier gone("/nothing/listens/here");
  gone.ready("serving");
  EXPECT_THROW(Notifier("relative"), std::runtime_error);
  EXPECT_THROW(Notifier("/" + std::string(107, 'a')), std::runtime_error);
}

TEST(ManagerEnvironment, IsTakenOnce) {
  ::setenv("NOTIFY_SOCKET", "@a", 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  const ManagerEnvironment first = ManagerEnvironment::take();
  EXPECT_EQ(first.notify_socket, "@a");
  EXPECT_EQ(first.watchdog, 30s);
  EXPECT_EQ(first.sockets, 2);
  const ManagerEnvironment second = ManagerEnvironment::take();
  EXPECT_EQ(second.notify_socket, "");
  EXPECT_EQ(second.watchdog, 0s);
  EXPECT_EQ(second.sockets, 0);
  EXPECT_EQ(std::getenv("WATCHDOG_PID"), nullptr);
}

TEST(ManagerEnvironment, OfAnotherProcessOrWrong) {
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_PID", "1", 1);
  const ManagerEnvironment of_another = ManagerEnvironment::take();
  EXPECT_EQ(of_another.watchdog, 0s);
  EXPECT_EQ(of_another.sockets, 0);
  ::setenv("WATCHDOG_USEC", "30s", 1);
  EXPECT_THROW((void)ManagerEnvironment::take(), std::runtime_error);
}

TEST(Watchdog, NeedsTheLoopOfEveryCore) {
  Manager manager;
  Notifier notifier(manager.address());
  Watchdog watchdog(notifier, 10s, 2);
  core::Mesh mesh(2);
  core::Core turns(mesh, 0, std::make_unique<core::SimulatedReactor>(1));
  auto hangs = std::make_unique<core::Core>(mesh, 1, std::make_unique<core::SimulatedReactor>(1));
  const auto turn_for = [](core::Core& core, Duration time) {
    const Instant end = core.reactor().now() + time;
    while (core.reactor().now() < end) core.step(end);
  };

  watchdog.watch(turns);
  EXPECT_EQ(manager.heard(), "");
  watchdog.watch(*hangs);
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");

  turn_for(turns, 1h);
  EXPECT_EQ(manager.heard(), "") << "a core has not turned";
  turn_for(*hangs, 6s);
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");
  EXPECT_EQ(manager.heard(), "");

  turn_for(turns, 6s);
  hangs.reset();  // ends first, as a core without connections does
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");
  turn_for(turns, 6s);
  EXPECT_EQ(manager.heard(), "WATCHDOG=1");
}

}  // namespace
}  // namespace sluice::runtime
