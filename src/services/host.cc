#include "services/host.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <exception>
#include <expected>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include <pthread.h>

#include "base/log.h"
#include "core/core.h"
#include "http/server.h"
#include "msg/frame.h"
#include "msg/server.h"
#include "runtime/admin.h"
#include "runtime/admin_token.h"
#include "runtime/certificate_expiry.h"
#include "runtime/certificates.h"
#include "runtime/post.h"
#include "runtime/process.h"
#include "runtime/sockets.h"
#include "services/websocket.h"

namespace sluice::services {
namespace {

net::Listening claimed(const std::string& text, bool secure, runtime::Process& process) {
  auto claimed = runtime::claim(text, process.passed());
  if (!claimed) throw std::runtime_error(claimed.error());
  process.files().add(*claimed);
  claimed->secure = secure;
  return *claimed;
}

// Throws std::invalid_argument if an option is out of range.
void check(const HostOptions& options) {
  const auto require = [](bool holds, const std::string& text) {
    if (!holds) throw std::invalid_argument(text);
  };
  std::set<std::string> addresses;
  for (const auto* list :
       {&options.listen, &options.listen_tls, &options.listen_websocket, &options.listen_websocket_tls}) {
    for (const std::string& text : *list) {
      require(text.ends_with(":0") || addresses.insert(text).second,
              "the address " + text + " stands twice in the options");
    }
  }
  const bool listens = !options.listen.empty() || !options.listen_tls.empty() || !options.listen_websocket.empty() ||
                       !options.listen_websocket_tls.empty();
  require(listens, "the options have no address to listen on");
  require(options.cores <= 256, "there can be at most 256 cores");
  const HostOptions::Admin& admin = options.admin;
  const auto admin_address = core::Address::parse(admin.listen);
  require(!admin_address || !runtime::needs_admin_token(*admin_address) || !admin.token.empty(),
          "admin.listen needs admin.token, because other machines reach " + admin.listen);
  require(admin.token.empty() || runtime::check_admin_token(admin.token).empty(),
          "admin.token " + runtime::check_admin_token(admin.token));
  const msg::SessionOptions& sessions = options.sessions;
  require(sessions.most_body <= msg::largest_body, "sessions.most_body can be at most 16 MiB");
  require(sessions.most_queued != 0, "sessions.most_queued must not be 0");
  require(sessions.sessions != 0, "sessions.sessions must not be 0");
  require(sessions.heartbeat > Duration::zero() && sessions.heartbeat < sessions.idle_timeout,
          "sessions.heartbeat must be shorter than sessions.idle_timeout");
  const ws::WebSocketOptions& websocket = options.websocket;
  require(websocket.path.value.starts_with('/'), "websocket.path must begin with a slash");
  require(websocket.window_bits >= 9 && websocket.window_bits <= 15, "websocket.window_bits must be 9 to 15");
  for (const std::string& origin : websocket.origins) {
    const std::string wrong = ws::WebSocketOptions::check_origin(origin);
    require(wrong.empty(), "websocket.origins: \"" + origin + "\" " + wrong);
  }
}

// The error names the file.
std::expected<runtime::Certificates::Context, std::string> make_context(const net::tls::ServerOptions& options) {
  auto made = net::tls::ServerContext::make(options);
  if (made) return std::move(*made);
  const auto& [index, file, text] = made.error();
  const auto& pair = options.certificates[index];
  using File = net::tls::Problem::File;
  return std::unexpected((file == File::key  ? pair.key
                          : file == File::ca ? options.client_ca
                                             : pair.certificate) +
                         ": " + text);
}

runtime::Certificates certificates_of(const net::tls::ServerOptions& options) {
  if (options.certificates.empty()) throw std::invalid_argument("TLS needs a certificate");
  auto context = make_context(options);
  if (!context) throw std::invalid_argument(context.error());
  std::vector<std::string> files;
  for (const auto& pair : options.certificates) files.insert(files.end(), {pair.certificate, pair.key});
  if (!options.client_ca.empty()) files.push_back(options.client_ca);
  return {std::move(files), [options] { return make_context(options); }, std::move(*context)};
}

}  // namespace

struct Host::Shared {
  std::vector<net::Listening> addresses;  // for frames
  std::vector<net::Listening> websocket_addresses;
  std::optional<runtime::Certificates> tls;
  std::optional<runtime::Certificates> websocket_tls;  // offer HTTP by ALPN
  runtime::CertificateExpiry expiry;

  void watch_expiry() {
    std::vector<runtime::CertificateExpiry::Used> used;
    for (const auto* const one : {&tls, &websocket_tls}) {
      if (*one) runtime::CertificateExpiry::add(used, (*one)->context().get(), "server", "client_ca");
    }
    expiry.set(std::move(used));
    expiry.check(std::time(nullptr));
  }
  std::vector<msg::Context*> contexts;
  std::vector<PerCore*> per_core;
  pthread_t main{};
};

// One core: its services, sessions and listeners.
class Host::PerCore final : public runtime::PerCore {
 public:
  PerCore(core::Core& core, const HostOptions& options, Shared& shared, runtime::Process& process);

  void set_up(const std::vector<MakeService>& make);
  void set_tls(const std::optional<runtime::Certificates>& frames,
               const std::optional<runtime::Certificates>& websockets) {
    if (frames) server_.set_tls(frames->context(), frames->tickets());
    if (websockets) http_.set_tls(websockets->context(), websockets->tickets());
  }

  [[nodiscard]] runtime::Snapshot snapshot() const override;
  [[nodiscard]] const std::vector<std::string>& route_names() const override { return no_routes_; }
  core::Task<runtime::Readiness> find_readiness(Instant) override { co_return runtime::Readiness{}; }
  void drain(Duration grace) noexcept override;
  [[nodiscard]] bool drained() const override { return server_.drained(); }
  core::Task<void> finish(Instant by) override;

 private:
  template <class AnyServer>
  void listen(AnyServer& server, const std::vector<net::Listening>& addresses);

  core::Core& core_;
  const Shared& shared_;
  const std::vector<std::string> no_routes_;
  ServiceSet services_;
  WebSocketSite site_;
  http::Server http_;
  msg::Server server_;
};

Host::PerCore::PerCore(core::Core& core, const HostOptions& options, Shared& shared, runtime::Process& process)
    : core_(core),
      shared_(shared),
      services_({core.reactor(), core.mailbox(), core.mesh(), process.threads()}, options.sessions, shared.contexts),
      site_(services_.sessions(), options.websocket),
      http_(core.reactor(), site_,
            {.connections = options.sessions.sessions,
             .descriptors = process.descriptors().most,
             .trouble = process.descriptors().trouble}),
      server_(services_.sessions(),
              {.descriptors = process.descriptors().most, .trouble = process.descriptors().trouble}) {
  shared.per_core[core.index()] = this;
  set_tls(shared.tls, shared.websocket_tls);
}

void Host::PerCore::set_up(const std::vector<MakeService>& make) {
  services_.set_up(make);
  listen(server_, shared_.addresses);
  listen(http_, shared_.websocket_addresses);
  services_.start();
}

template <class AnyServer>
void Host::PerCore::listen(AnyServer& server, const std::vector<net::Listening>& addresses) {
  for (const net::Listening& one : addresses) {
    // Only one listener can bind the path of a unix socket.
    if (one.address.family() == AF_UNIX && one.shared < 0 && core_.index() != 0) continue;
    if (const auto listening = server.listen(one); !listening) {
      throw std::system_error(listening.error().detail, std::generic_category(),
                              "cannot listen on " + one.address.text());
    }
  }
}

runtime::Snapshot Host::PerCore::snapshot() const {
  Readings readings = services_.sessions().counters().readings();
  if (!shared_.websocket_addresses.empty()) append(readings, http_.counters().readings());
  return {.requests = {}, .readings = std::move(readings)};
}

void Host::PerCore::drain(Duration grace) noexcept {
  (void)http_.listen_on({});
  server_.drain(grace / 2);
}

core::Task<void> Host::PerCore::finish(Instant) {
  http_.drain();
  services_.stop();
  co_return;
}

Host::Host(HostOptions options) : options_(std::move(options)), shared_(std::make_unique<Shared>()) {
  if (options_.websocket.path.value.empty()) options_.websocket.path.value = "/";
  // A message is one frame, so a body of `most_body` bytes must fit.
  std::uint64_t& longest = options_.websocket.max_message.bytes;
  longest = std::max(longest, std::uint64_t{options_.sessions.most_body} + msg::longest_header_size);
}

Host::~Host() = default;

int Host::run() {
  try {
    serve();
    return 0;
  } catch (const std::exception& error) {
    log_error(error.what());
    return 1;
  }
}

void Host::serve() {
  check(options_);
  Shared& shared = *shared_;
  shared.main = pthread_self();
  runtime::Process process(
      {.cores = options_.cores, .back_end = options_.back_end, .manager = runtime::ManagerEnvironment::take()});
  const auto claim_all = [&](const std::vector<std::string>& texts, bool secure, std::vector<net::Listening>& into) {
    for (const std::string& text : texts) into.push_back(claimed(text, secure, process));
  };
  claim_all(options_.listen, false, shared.addresses);
  claim_all(options_.listen_tls, true, shared.addresses);
  claim_all(options_.listen_websocket, false, shared.websocket_addresses);
  claim_all(options_.listen_websocket_tls, true, shared.websocket_addresses);
  std::optional<net::Listening> admin_address;
  if (!options_.admin.listen.empty()) admin_address = claimed(options_.admin.listen, false, process);
  process.passed().check_all_found();
  if (!options_.listen_tls.empty()) shared.tls.emplace(certificates_of(options_.tls));
  if (!options_.listen_websocket_tls.empty()) {
    net::tls::ServerOptions tls = options_.tls;
    tls.alpn = http::alpn_protocols(true, true);
    shared.websocket_tls.emplace(certificates_of(tls));
  }
  shared.watch_expiry();

  core::Cores& cores = process.cores();
  shared.contexts.resize(cores.size());
  shared.per_core.resize(cores.size());
  process.start([&](core::Core& core, const runtime::Process::Run& run) {
    PerCore per_core(core, options_, shared, process);
    per_core.set_up(make_);
    std::optional<runtime::Admin> admin;
    if (admin_address && core.index() == 0) {
      admin.emplace(core, process.per_core());
      admin->add_readings([&process] { return process.logs().readings(); });
      admin->add_readings([&shared] { return shared.expiry.readings(); });
      admin->require_token([this] { return std::string_view(options_.admin.token); });
      admin->listen(*admin_address);
    }
    run(per_core);
  });
  std::vector<std::string> texts;
  for (const auto* list : {&shared.addresses, &shared.websocket_addresses}) {
    for (const net::Listening& one : *list) texts.push_back(one.address.text());
  }
  if (!options_.ready) {
    for (const std::string& text : texts) process.logs().output().write("serving " + text + "\n");
    if (admin_address) process.logs().output().write("admin " + admin_address->address.text() + "\n");
  } else {
    if (admin_address) texts.push_back(admin_address->address.text());
    options_.ready(texts);
  }
  process.notifier().ready("serving");

  const siginfo_t end = process.wait([&](bool told) {
    const bool frames = shared.tls && shared.tls->tend(told);
    const bool websockets = shared.websocket_tls && shared.websocket_tls->tend(told);
    if (frames || websockets) shared.watch_expiry();
    shared.expiry.check(std::time(nullptr));
    if (!frames && !websockets) return;
    for (unsigned i = 0; i < cores.size(); ++i) {
      (void)runtime::post(cores.core(i), [one = shared.per_core[i], tls = shared.tls,
                                          websocket_tls = shared.websocket_tls] { one->set_tls(tls, websocket_tls); });
    }
  });
  process.end(end, {.delay = options_.drain_delay, .grace = options_.grace});
}

void Host::stop() { pthread_kill(shared_->main, SIGTERM); }

}  // namespace sluice::services
