#include "app/listeners.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/address_holder.h"
#include "app/listen.h"
#include "core/bound_socket.h"

namespace sluice::app {
namespace {

std::string path_of(const core::Address& address) { return address.text().substr(std::string_view("unix:").size()); }

// Every core binds with SO_REUSEPORT, so a second program could bind an address that is in use. Therefore each address
// is first bound without SO_REUSEPORT. This also turns port 0 into the port that all cores share.
std::expected<core::Address, std::string> claim_alone(const std::string& text) {
  const auto address = core::Address::parse(text);
  if (!address) return std::unexpected("\"" + text + "\" is not an address");
  auto claimed = core::claim(*address);
  if (!claimed && claimed.error().detail == EAFNOSUPPORT && text.starts_with("*:")) {
    // Without IPv6, "every address" means every IPv4 address.
    claimed = core::claim(*core::Address::from_ip("0.0.0.0", address->port()));
  }
  if (claimed) return *claimed;
  return std::unexpected("cannot listen on " + text + ": " + std::generic_category().message(claimed.error().detail) +
                         (claimed.error().detail == EADDRINUSE ? holder_of(*address) : ""));
}

// Removes only a socket. Any other file at the path is not ours.
void unlink_socket(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
}

Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

}  // namespace

void SocketFiles::add(const core::Address& address) {
  if (address.family() != AF_UNIX) return;
  const std::lock_guard lock(mutex_);
  if (ended_) {
    unlink_socket(path_of(address));
  } else {
    paths_.insert(path_of(address));
  }
}

void SocketFiles::remove(const core::Address& address) {
  if (address.family() != AF_UNIX) return;
  const std::lock_guard lock(mutex_);
  if (paths_.erase(path_of(address)) != 0) unlink_socket(path_of(address));
}

void SocketFiles::end() {
  const std::lock_guard lock(mutex_);
  for (const std::string& path : paths_) unlink_socket(path);
  paths_.clear();
  ended_ = true;
}

Listeners::Listeners(const Plan& plan) {
  if (const auto claimed = claim(plan); !claimed) throw std::runtime_error(claimed.error().message);
  const ServerOptions& options = plan.options.server;
  serve_claimed(options);
  if (plan.tls) certificates_.emplace(*options.tls, options.alpn(), plan.tls);
}

core::Address Listeners::claim_also(const std::string& text) {
  const auto claimed = claim_alone(text);
  if (!claimed) throw std::runtime_error(claimed.error());
  files_.add(*claimed);
  return *claimed;
}

std::expected<std::vector<net::Listening>, config::Diagnostic> Listeners::claim(const Plan& plan) {
  forget_claimed();
  List left = served_;
  for (const auto& listen : plan.options.server.listen) {
    const Listen parsed = Listen::parse(listen.value);
    const std::string text(parsed.address);
    const bool secure = parsed.secure(plan.tls != nullptr);
    // Port 0 may occur more than once.
    if (const auto same = std::ranges::find(left, text, &Claimed::configured); same != left.end()) {
      claimed_.push_back({text, {same->listening.address, secure}});
      left.erase(same);
      continue;
    }
    const auto claimed = claim_alone(text);
    if (!claimed) {
      forget_claimed();
      return std::unexpected(config::Diagnostic{listen.position, claimed.error()});
    }
    files_.add(*claimed);
    claimed_.push_back({text, {*claimed, secure}});
  }
  return addresses_of(claimed_);
}

void Listeners::forget_claimed() { remove_files(std::exchange(claimed_, {}), served_); }

void Listeners::serve_claimed(const Plan& plan) {
  const ServerOptions& options = plan.options.server;
  serve_claimed(options);
  if (!options.tls) return certificates_.reset();
  if (!certificates_ || !certificates_->are_of(*options.tls, options.alpn())) {
    certificates_.emplace(*options.tls, options.alpn(), plan.tls);
  }
  (void)certificates_->reload();
}

void Listeners::serve_claimed(const ServerOptions& options) {
  remove_files(std::exchange(served_, std::exchange(claimed_, {})), served_);
  https_port_ = 443;
  const auto first = std::ranges::find_if(served_, [](const Claimed& one) { return one.listening.secure; });
  if (first != served_.end() && first->listening.address.port() != 0) https_port_ = first->listening.address.port();
  if (options.tls && options.tls->redirect_port.value != 0) https_port_ = options.tls->redirect_port.value;
}

std::vector<net::Listening> Listeners::addresses_of(const List& list) {
  std::vector<net::Listening> addresses;
  for (const Claimed& one : list) addresses.push_back(one.listening);
  return addresses;
}

void Listeners::remove_files(const List& gone, const List& stay) {
  for (const Claimed& one : gone) {
    if (std::ranges::find(stay, one.configured, &Claimed::configured) != stay.end()) continue;
    files_.remove(one.listening.address);
  }
}

bool Listeners::tend(bool told) {
  if (!certificates_) return false;
  return told ? certificates_->reload() : certificates_->tend(monotonic_now());
}

ListenerSet Listeners::served() const {
  ListenerSet set{.addresses = addresses_of(served_), .https_port = https_port_, .tls = {}, .tickets = {}};
  if (certificates_) {
    set.tls = certificates_->context();
    set.tickets = certificates_->tickets();
  }
  return set;
}

}  // namespace sluice::app
