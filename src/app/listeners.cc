#include "app/listeners.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "app/config/difference.h"
#include "app/config/listen.h"
#include "app/config/tls_context.h"
#include "core/bound_socket.h"

namespace sluice::app {

Listeners::Listeners(const Plan& plan, runtime::SocketFiles& files, runtime::PassedSockets& passed)
    : files_(files), passed_(passed) {
  if (const auto claimed = claim(plan); !claimed) throw std::runtime_error(claimed.error().message);
  serve_claimed(plan.options.server);
  serve_certificates(plan);
}

net::Listening Listeners::claim_also(const std::string& text) {
  const auto claimed = runtime::claim(text, passed_);
  if (!claimed) throw std::runtime_error(claimed.error());
  files_.add(*claimed);
  return *claimed;
}

std::expected<net::Listening, config::Diagnostic> Listeners::claim(const Located<std::string>& at,
                                                                   std::string_view address, bool secure, bool is_http,
                                                                   List& left) {
  const std::string text(address);
  // Port 0 may occur more than once.
  const auto same =
      std::ranges::find_if(left, [&](const Claimed& one) { return one.configured == text && one.is_http == is_http; });
  if (same != left.end()) {
    claimed_.push_back(*same);
    left.erase(same);
  } else {
    const auto claimed = runtime::claim(text, passed_);
    if (!claimed) return std::unexpected(config::Diagnostic{at.position, claimed.error()});
    files_.add(*claimed);
    claimed_.push_back({text, *claimed, is_http});
  }
  claimed_.back().listening.secure = secure;
  return claimed_.back().listening;
}

std::expected<std::vector<net::Listening>, config::Diagnostic> Listeners::claim(const Plan& plan) {
  forget_claimed();
  List left = served_;
  const auto claim_all = [&]() -> std::expected<void, config::Diagnostic> {
    for (const auto& listen : plan.options.server.listen) {
      const Listen parsed = Listen::parse(listen.value);
      const auto claimed = claim(listen, parsed.address, parsed.secure(plan.tls != nullptr), true, left);
      if (!claimed) return std::unexpected(claimed.error());
    }
    for (const auto& frames : plan.all<FramesComponent>()) {
      std::vector<net::Listening> addresses;
      for (const auto& listen : frames->options.listen) {
        const auto claimed = claim(listen, listen.value, frames->options.tls.value, false, left);
        if (!claimed) return std::unexpected(claimed.error());
        addresses.push_back(*claimed);
      }
      if (frames->addresses.empty()) frames->addresses = std::move(addresses);  // else the cores have it already
    }
    return {};
  };
  if (auto done = claim_all(); !done) {
    forget_claimed();
    return std::unexpected(std::move(done.error()));
  }
  return addresses_of(claimed_);
}

void Listeners::forget_claimed() { remove_files(std::exchange(claimed_, {}), served_); }

void Listeners::serve_claimed(const Plan& plan) {
  serve_claimed(plan.options.server);
  serve_certificates(plan);
  if (certificates_) (void)certificates_->reload();
}

void Listeners::serve_certificates(const Plan& plan) {
  const ServerOptions& options = plan.options.server;
  if (!options.tls) return certificates_.reset();
  const auto alpn = options.alpn();
  if (certificates_ && config::first_difference(*tls_, *options.tls).empty() && alpn_ == alpn) return;
  tls_.emplace(*options.tls);
  alpn_ = alpn;
  const auto make = [tls = *tls_, alpn]() -> std::expected<runtime::Certificates::Context, std::string> {
    auto made = make_tls_context(tls, alpn);
    if (!made) return std::unexpected(std::move(made.error().text));
    return std::move(*made);
  };
  certificates_.emplace(files_of(*tls_), make, plan.tls);
}

void Listeners::serve_claimed(const ServerOptions& options) {
  remove_files(std::exchange(served_, std::exchange(claimed_, {})), served_);
  https_port_ = 443;
  const auto first =
      std::ranges::find_if(served_, [](const Claimed& one) { return one.is_http && one.listening.secure; });
  if (first != served_.end() && first->listening.address.port() != 0) https_port_ = first->listening.address.port();
  if (options.tls && options.tls->redirect_port.value != 0) https_port_ = options.tls->redirect_port.value;
}

std::vector<net::Listening> Listeners::addresses_of(const List& list) {
  std::vector<net::Listening> addresses;
  for (const Claimed& one : list) {
    if (one.is_http) addresses.push_back(one.listening);
  }
  return addresses;
}

void Listeners::remove_files(const List& gone, const List& stay) {
  for (const Claimed& one : gone) {
    if (std::ranges::find(stay, one.configured, &Claimed::configured) != stay.end()) continue;
    files_.remove(one.listening.address);
  }
}

bool Listeners::tend(bool told) { return certificates_ && certificates_->tend(told); }

ListenerSet Listeners::served() const {
  ListenerSet set{.addresses = addresses_of(served_), .https_port = https_port_, .tls = {}, .tickets = {}};
  if (certificates_) {
    set.tls = certificates_->context();
    set.tickets = certificates_->tickets();
  }
  return set;
}

}  // namespace sluice::app
