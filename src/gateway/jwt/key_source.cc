#include "gateway/jwt/key_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "core/address.h"
#include "core/back_off.h"
#include "gateway/proxy/options.h"

namespace sluice::gateway::jwt {

using core::Task;
using http::client::Pool;

std::expected<KeyUrl, std::string> KeyUrl::parse(std::string_view text) {
  constexpr const char* wanted = "must be a URL, as \"https://issuer.example/.well-known/jwks.json\" is";
  const std::size_t begin = text.starts_with("https://") ? 8 : 7;
  if (begin == 7 && !text.starts_with("http://")) return std::unexpected(wanted);
  const std::size_t end = std::min(text.find_first_of("/?", begin), text.size());
  auto origin = parse_server(text.substr(0, end));
  if (!origin) return std::unexpected(wanted);
  const std::string_view target = text.substr(end);
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7f && c != '#'; };
  if (!target.starts_with('/') || !std::ranges::all_of(target, is_plain)) return std::unexpected(wanted);
  return KeyUrl{.origin = std::move(*origin),
                .host = std::string(text.substr(begin, end - begin)),
                .target = std::string(target),
                .name = std::string(text.substr(0, text.find('?')))};
}

std::string Options::check_url(std::string_view text) {
  const auto url = KeyUrl::parse(text);
  if (!url) return url.error();
  const auto address = core::Address::from_ip(url->origin.host, url->origin.port);
  const bool is_local = address ? address->is_loopback() : url->origin.host == "localhost";
  if (url->origin.secure || is_local) return {};
  return "must begin with \"https://\", except for \"localhost\" and loopback addresses: an attacker who changes the "
         "keys can sign tokens";
}

// ---- The part that all cores share ----

SharedKeySource::SharedKeySource(const Options& policy, std::shared_ptr<const net::tls::ClientContext> context,
                                 unsigned cores)
    : options(policy), url(*KeyUrl::parse(policy.jwks_url->value)), tls(std::move(context)), parts_(cores) {}

std::expected<std::shared_ptr<SharedKeySource>, KeyProblem> SharedKeySource::make(const Options& policy,
                                                                                  unsigned cores) {
  std::shared_ptr<const net::tls::ClientContext> tls;
  if (KeyUrl::parse(policy.jwks_url->value)->origin.secure) {
    auto made = net::tls::ClientContext::make(
        {.verify = net::tls::ClientOptions::Verify::full, .ca_file = policy.jwks_ca.value, .alpn = {"http/1.1"}});
    if (!made) {
      const Position position = policy.jwks_ca.position;
      return std::unexpected(KeyProblem{position.line != 0 ? position : policy.position, made.error().text});
    }
    tls = std::move(*made);
  }
  return std::shared_ptr<SharedKeySource>(new SharedKeySource(policy, std::move(tls), cores));
}

bool SharedKeySource::is_for(const Options& policy) const {
  return policy.jwks_url && policy.jwks_url->value == options.jwks_url->value &&
         policy.jwks_every.value == options.jwks_every.value &&
         policy.jwks_timeout.value == options.jwks_timeout.value &&
         policy.stale_after.value == options.stale_after.value && policy.jwks_ca.value == options.jwks_ca.value &&
         policy.algorithms == options.algorithms;
}

bool SharedKeySource::is_same(const SharedKeySource& other) const {
  return is_for(other.options) && (tls == nullptr || tls->fingerprint() == other.tls->fingerprint());
}

bool SharedKeySource::needs_resolver() const { return !core::Address::from_ip(url.origin.host, 1); }

// ---- One core's part ----

std::shared_ptr<KeySource> KeySource::make(std::shared_ptr<SharedKeySource> shared, core::Reactor& reactor,
                                           core::Mailbox& mailbox, core::MeshPort& mesh, core::BlockingPool& threads) {
  const std::shared_ptr<KeySource> part(new KeySource(std::move(shared), reactor, mailbox, mesh, threads));
  if (mesh.core() == owner) part->running_.spawn(part->run());
  return part;
}

KeySource::KeySource(std::shared_ptr<SharedKeySource> shared, core::Reactor& reactor, core::Mailbox& mailbox,
                     core::MeshPort& mesh, core::BlockingPool& threads)
    : shared_(std::move(shared)),
      reactor_(reactor),
      mailbox_(mailbox),
      mesh_(mesh),
      threads_(threads),
      pool_(reactor, mailbox, shared_->resolver, shared_->url.origin,
            {.connect_timeout = shared_->options.jwks_timeout.value, .idle = 0, .tls = shared_->tls}),
      wanted_(reactor),
      answered_(reactor),
      entry_(shared_->parts_, mesh.core(), *this) {}

void KeySource::ended(Instant quiet_until) {
  quiet_until_ = quiet_until;
  asked_until_ = {};
  had_keys_ |= has_keys();
  for (core::Alarm* alarm : waiting_) alarm->ring();
}

Task<void> KeySource::fetch() {
  const Duration timeout = shared_->options.jwks_timeout;
  const Instant deadline = reactor_.now() + timeout;
  struct Place {
    Place(std::vector<core::Alarm*>& line, core::Alarm& alarm) : line(line), alarm(alarm) { line.push_back(&alarm); }
    Place(const Place&) = delete;
    ~Place() { std::erase(line, &alarm); }
    std::vector<core::Alarm*>& line;
    core::Alarm& alarm;
  };
  core::Alarm alarm(reactor_);
  const Place place(waiting_, alarm);  // before the question, which the owner may answer at once
  if (reactor_.now() >= asked_until_) {
    asked_until_ = deadline;
    (void)shared_->parts_.send(mesh_, owner, [by = mesh_.core()](KeySource& source) { source.asked(by); });
  }
  (void)co_await alarm.wait(deadline);
}

// ---- The owner ----

void KeySource::asked(unsigned by) {
  if (is_fetching_) return;  // all cores will be notified of its end
  if (reactor_.now() < next_unknown_) {
    const auto tell = [until = next_unknown_](KeySource& part) { part.ended(until); };
    (void)shared_->parts_.send(mesh_, by, tell);
    return;
  }
  next_unknown_ = reactor_.now() + unknown_every;
  is_fetching_ = true;
  wanted_.ring();
}

Task<void> KeySource::run() {
  std::optional<core::BackOff> pauses;
  for (;;) {
    is_fetching_ = true;
    fault_ = "it did not answer in time";
    asking_.spawn(ask());
    (void)co_await answered_.wait(reactor_.now() + shared_->options.jwks_timeout.value);
    asking_.cancel();
    report();
    drop_stale();
    is_fetching_ = false;
    shared_->parts_.each(mesh_, [until = next_unknown_](KeySource& part) { part.ended(until); });
    if (fault_.empty()) {
      pauses.reset();
    } else if (!pauses) {
      pauses.emplace(reactor_, first_pause, longest_pause);
    }
    const Instant next = pauses ? pauses->next() : reactor_.now() + shared_->options.jwks_every.value;
    // One more fetch before the set is dropped.
    (void)co_await wanted_.wait(text_.empty() ? next : std::min(next, stale_at_));
  }
}

Task<void> KeySource::ask() {
  std::string fault = co_await receive();
  if (fault.empty() && body_.view() != text_) {
    auto work = [text = std::string(body_.view()), accepted = shared_->options.algorithms] {
      return parse_jwks(text, accepted, Provenance::issuer);
    };
    auto parsed = co_await threads_.run(mailbox_, std::move(work));
    if (!parsed) {
      fault = "there is no thread to read it";
    } else if (!*parsed) {
      fault = std::move(parsed->error());
    } else {
      text_ = body_.view();
      for (const std::string& warning : (*parsed)->warnings) log_error("keys of " + url().name + ": " + warning);
      shared_->keys->publish(std::make_shared<const KeySet>(std::move(**parsed)));
    }
  }
  body_.release();
  fault_ = std::move(fault);
  answered_.ring();
}

Task<std::string> KeySource::receive() {
  auto lease = co_await pool_.take(Pool::Which::fresh);
  if (!lease) co_return "it cannot be reached: " + pool_.describe(lease.error());
  const http::Field accept[] = {{"Accept", "application/jwk-set+json, application/json"}};
  const auto head = co_await (*lease)->ask({.target = url().target, .host = url().host, .fields = accept}, nullptr);
  if (!head) co_return "it gave no response: " + head.error().text();
  if ((*head)->status != 200) co_return "it answered " + std::to_string((*head)->status);
  body_.clear();
  for (;;) {
    const auto progress = co_await (*lease)->read(body_);
    if (!progress) co_return "its response breaks off: " + progress.error().text();
    if (body_.size() > largest_set) co_return "its set is larger than " + std::to_string(largest_set) + " bytes";
    if (*progress == http::BodySource::Progress::done) co_return std::string();
  }
}

void KeySource::report() {
  ++(fault_.empty() ? fetched_ : failed_);
  if (std::exchange(is_failing_, !fault_.empty()) == is_failing_) return;
  if (!is_failing_) {
    log_error("keys of " + url().name + ": fetched");
  } else {
    log_error("keys of " + url().name + ": " + fault_ +
              (text_.empty() ? "; there are none yet" : "; those from before stay in use"));
  }
}

void KeySource::drop_stale() {
  const Duration stale_after = shared_->options.stale_after;
  if (fault_.empty() || stale_after == Duration{}) {
    stale_at_ = never;
    return;
  }
  if (stale_at_ == never) stale_at_ = reactor_.now() + stale_after;
  if (text_.empty() || reactor_.now() < stale_at_) return;
  log_error("keys of " + url().name + ": " + fault_ + "; those from before are stale and no longer used");
  text_.clear();
  shared_->keys->publish(nullptr);
}

Readings KeySource::readings() const {
  if (mesh_.core() != owner) return {};
  constexpr const char* meaning = "Fetches of a JWK set, by what came of them.";
  return {counter("sluice_jwt_key_fetches_total", meaning, fetched_, label("result", "done")),
          counter("sluice_jwt_key_fetches_total", meaning, failed_, label("result", "failed"))};
}

}  // namespace sluice::gateway::jwt
