#include "services/host.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <deque>
#include <exception>
#include <ranges>
#include <set>
#include <stdexcept>
#include <system_error>

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_writer.h"
#include "core/alarm.h"
#include "core/bound_socket.h"
#include "core/core.h"
#include "core/descriptor_limit.h"
#include "core/sleep.h"
#include "http/server.h"
#include "msg/frame.h"
#include "msg/server.h"
#include "services/websocket.h"

namespace sluice::services {
namespace {

constexpr Duration drain_check = 5ms;
constexpr std::size_t queued_work = 1024;  // jobs that wait for a thread of the blocking pool

// Blocks SIGTERM and SIGINT on this thread.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  ~BlockedSignals() { restore(); }
  void wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
  }
  void restore() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

core::Address claimed(const std::string& text) {
  const auto address = core::Address::parse(text);
  if (!address) throw std::invalid_argument("\"" + text + "\" is not an address to listen on");
  const auto claimed = core::claim(*address);
  if (!claimed) throw std::system_error(claimed.error().detail, std::generic_category(), "cannot listen on " + text);
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

std::shared_ptr<const net::tls::ServerContext> context_of(const net::tls::ServerOptions& options) {
  if (options.certificates.empty()) throw std::invalid_argument("TLS needs a certificate");
  auto made = net::tls::ServerContext::make(options);
  if (made) return std::move(*made);
  const auto& [index, file, text] = made.error();
  const auto& pair = options.certificates[index];
  using File = net::tls::Problem::File;
  throw std::invalid_argument((file == File::key  ? pair.key
                               : file == File::ca ? options.client_ca
                                                  : pair.certificate) +
                              ": " + text);
}

}  // namespace

struct Host::Shared {
  // Makes a core drain. Allocated at start, because there may be no memory at shutdown.
  struct Drain : core::Letter {
    Drain() : Letter([](core::Letter& letter) noexcept { static_cast<Drain&>(letter).alarm->ring(); }) {}
    core::Alarm* alarm = nullptr;
  };

  std::vector<net::Listening> addresses;  // for frames
  std::vector<net::Listening> websocket_addresses;
  std::shared_ptr<const net::tls::ServerContext> tls;
  std::shared_ptr<const net::tls::ServerContext> websocket_tls;  // offers HTTP by ALPN
  std::shared_ptr<const net::tls::TicketKeys> tickets;
  std::vector<msg::Context*> contexts;
  std::deque<Drain> drains;
  core::BlockingPool* threads = nullptr;  // while the cores exist
  TroubleLog trouble{"clients", "are accepted again", "attempts failed"};
  pthread_t main{};
};

// One core: its services, sessions and listeners.
class Host::PerCore final : msg::Sessions::Observer {
 public:
  PerCore(core::Core& core, const HostOptions& options, Shared& shared);
  PerCore(const PerCore&) = delete;
  ~PerCore() = default;

  void set_up(const std::vector<std::function<void(msg::Context&)>>& make);

 private:
  void opened(msg::Session& session) override {
    for (const auto& entry : context_.services()) entry.service->opened(session);
  }
  void closed(msg::Session& session, msg::Ended why) override {
    for (const auto& entry : context_.services()) entry.service->closed(session, why);
  }
  template <class AnyServer>
  void listen(AnyServer& server, const std::vector<net::Listening>& addresses);
  core::Task<void> end_when_told();

  core::Core& core_;
  const HostOptions& options_;
  Shared& shared_;
  msg::Dispatcher dispatcher_;
  msg::Sessions sessions_;
  msg::Context context_;
  core::Alarm told_to_end_;
  WebSocketSite site_;
  http::Server http_;
  msg::Server server_;
};

Host::PerCore::PerCore(core::Core& core, const HostOptions& options, Shared& shared)
    : core_(core),
      options_(options),
      shared_(shared),
      sessions_(core.reactor(), core.index(), dispatcher_, this, options.sessions),
      context_(core, sessions_, *shared.threads, shared.contexts),
      told_to_end_(core.reactor()),
      site_(sessions_, options.websocket),
      http_(core.reactor(), site_,
            {.connections = options.sessions.sessions,
             .descriptors = core::descriptors_for_clients(),
             .trouble = &shared.trouble}),
      server_(sessions_, {.descriptors = core::descriptors_for_clients(), .trouble = &shared.trouble}) {
  shared.contexts[core.index()] = &context_;
  shared.drains[core.index()].alarm = &told_to_end_;
  server_.set_tls(shared.tls, shared.tickets);
  http_.set_tls(shared.websocket_tls, shared.tickets);
}

void Host::PerCore::set_up(const std::vector<std::function<void(msg::Context&)>>& make) {
  for (const auto& make_service : make) make_service(context_);
  for (const auto& entry : context_.services()) entry.service->configure(context_);
  for (const auto& entry : context_.services()) entry.service->wire(dispatcher_);
  listen(server_, shared_.addresses);
  listen(http_, shared_.websocket_addresses);
  for (const auto& entry : context_.services()) entry.service->start();
  core_.tasks().spawn(end_when_told());
}

template <class AnyServer>
void Host::PerCore::listen(AnyServer& server, const std::vector<net::Listening>& addresses) {
  for (const net::Listening& one : addresses) {
    // Only one listener can bind the path of a unix socket.
    if (one.address.family() == AF_UNIX && core_.index() != 0) continue;
    if (const auto listening = server.listen(one.address, one.secure); !listening) {
      throw std::system_error(listening.error().detail, std::generic_category(),
                              "cannot listen on " + one.address.text());
    }
  }
}

core::Task<void> Host::PerCore::end_when_told() {
  core::Reactor& reactor = core_.reactor();
  (void)co_await told_to_end_.wait(never);
  const Instant end = reactor.now() + options_.grace;
  (void)http_.listen_on({});
  server_.drain(options_.grace / 2);
  while (!server_.drained() && reactor.now() < end) co_await core::Sleep(reactor, reactor.now() + drain_check);
  sessions_.cut();
  http_.drain();
  for (auto& entry : std::views::reverse(context_.services())) entry.service->stop();
  core_.stop();
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
  for (const auto& text : options_.listen) shared.addresses.push_back({claimed(text), false});
  for (const auto& text : options_.listen_tls) shared.addresses.push_back({claimed(text), true});
  for (const auto& text : options_.listen_websocket) shared.websocket_addresses.push_back({claimed(text), false});
  for (const auto& text : options_.listen_websocket_tls) shared.websocket_addresses.push_back({claimed(text), true});
  if (!options_.listen_tls.empty()) shared.tls = context_of(options_.tls);
  if (!options_.listen_websocket_tls.empty()) {
    net::tls::ServerOptions tls = options_.tls;
    tls.alpn = http::alpn_protocols(true, true);
    shared.websocket_tls = context_of(tls);
  }
  shared.tickets = net::tls::TicketKeys::make();

  core::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);
  BlockedSignals signals;  // inherited by the threads of the cores
  Logs logs;
  core::Cores cores({.count = options_.cores, .back_end = options_.back_end});
  shared.contexts.resize(cores.size());
  for (unsigned i = 0; i < cores.size(); ++i) shared.drains.emplace_back();
  core::BlockingPool threads(cores.size(), queued_work);  // ends before the cores, whose mailboxes it posts to
  shared.threads = &threads;
  cores.start([&](core::Core& core) {
    PerCore per_core(core, options_, shared);
    per_core.set_up(make_);
    core.run();
  });
  std::vector<net::Listening> all = shared.addresses;
  all.insert(all.end(), shared.websocket_addresses.begin(), shared.websocket_addresses.end());
  std::vector<std::string> texts;
  for (const net::Listening& one : all) texts.push_back(one.address.text());
  if (options_.ready) {
    options_.ready(texts);
  } else {
    for (const std::string& text : texts) logs.output().write("serving " + text + "\n");
  }

  signals.wait();
  for (unsigned i = 0; i < cores.size(); ++i) (void)cores.core(i).mailbox().post(shared.drains[i]);
  signals.restore();  // a second signal ends the process at once
  cores.join();
  for (const net::Listening& one : all) {
    if (one.address.family() == AF_UNIX) ::unlink(one.address.text().substr(std::string_view("unix:").size()).c_str());
  }
}

void Host::stop() { pthread_kill(shared_->main, SIGTERM); }

}  // namespace sluice::services
