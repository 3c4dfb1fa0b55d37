#include "runtime/manager.h"

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"

namespace sluice::runtime {
namespace {

// The longest time that a change of state waits for a manager that reads nothing.
constexpr timeval patience{.tv_sec = 1, .tv_usec = 0};

std::optional<std::string> take_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string taken = value;
  ::unsetenv(name);
  return taken;
}

std::optional<std::uint64_t> take_number(const char* name) {
  const auto text = take_variable(name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error == std::errc() && rest == end) return number;
  throw std::runtime_error(fmt::format("{} in the environment is \"{}\", which is not a number", name, *text));
}

// Without a process id, the variables are for every process.
bool is_own(std::optional<std::uint64_t> process) { return !process || std::cmp_equal(*process, ::getpid()); }

}  // namespace

ManagerEnvironment ManagerEnvironment::take() {
  ManagerEnvironment taken;
  taken.notify_socket = take_variable("NOTIFY_SOCKET").value_or("");
  const auto watchdog = take_number("WATCHDOG_USEC");
  if (is_own(take_number("WATCHDOG_PID")) && watchdog) taken.watchdog = std::chrono::microseconds(*watchdog);
  const auto sockets = take_number("LISTEN_FDS");
  (void)take_variable("LISTEN_FDNAMES");
  if (is_own(take_number("LISTEN_PID")) && sockets) taken.sockets = static_cast<int>(*sockets);
  return taken;
}

Notifier::Notifier(std::string_view address) {
  if (address.empty()) return;
  if ((address[0] != '/' && address[0] != '@') || address.size() >= sizeof manager_.sun_path) {
    throw std::runtime_error(fmt::format("NOTIFY_SOCKET in the environment is \"{}\", which is not a socket", address));
  }
  manager_.sun_family = AF_UNIX;
  std::memcpy(manager_.sun_path, address.data(), address.size());
  if (address[0] == '@') manager_.sun_path[0] = '\0';
  manager_size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw std::system_error(errno, std::generic_category(), "a socket for the service manager");
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

Notifier::~Notifier() {
  if (socket_ >= 0) ::close(socket_);
}

void Notifier::ready(std::string_view status) noexcept { tell("READY=1\nSTATUS=", status); }

void Notifier::reloading() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char digits[20];
  const auto end = std::to_chars(digits, std::end(digits), now.tv_sec * 1'000'000 + now.tv_nsec / 1000).ptr;
  tell("RELOADING=1\nMONOTONIC_USEC=", {digits, end});
}

void Notifier::stopping() noexcept {
  tell("STOPPING=1", {});
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
}

void Notifier::alive() noexcept {
  if (socket_ < 0) return;
  constexpr std::string_view text = "WATCHDOG=1";
  const auto* const to = reinterpret_cast<const sockaddr*>(&manager_);
  (void)::sendto(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, to, manager_size_);
}

// Allocates nothing, unless the manager cannot be reached.
void Notifier::tell(std::string_view state, std::string_view status) noexcept {
  if (socket_ < 0) return;
  iovec parts[2] = {{const_cast<char*>(state.data()), state.size()}, {const_cast<char*>(status.data()), status.size()}};
  msghdr message{};
  message.msg_name = &manager_;
  message.msg_namelen = manager_size_;
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const std::lock_guard lock(mutex_);
  if (is_stopping_ || ::sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0) return;
  const int error = errno;
  try {
    log_error("the service manager gets no message about the state: " + std::generic_category().message(error));
  } catch (const std::bad_alloc&) {
    return;  // without memory there is no line
  }
}

}  // namespace sluice::runtime
