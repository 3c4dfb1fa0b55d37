#include "app/service.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/sleep.h"
#include "files/static_files.h"
#include "sql/open.h"

namespace sluice::app {
namespace {

http::ServerOptions server_options(const ServerOptions& options) {
  return {.header_limit = options.header_limit,
          .body_limit = options.body_limit,
          .header_timeout = options.header_timeout,
          .body_timeout = options.body_timeout,
          .idle_timeout = options.idle_timeout,
          .write_timeout = options.write_timeout,
          .connections = options.connections,
          .server_name = options.server_header,
          .http1 = options.http1,
          .http2 = options.http2,
          .http2_streams = options.http2_streams};
}

}  // namespace

Service::Service(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads)
    : core_(core), plan_(std::move(plan)), server_(core.reactor(), router_, server_options(plan_->options.server), this) {
  if (plan_->options.server.access_log == AccessLogTarget::standard_output) access_log_.emplace(core.reactor());
  for (const auto& database : plan_->options.databases) {
    auto opened = sql::open_database(database.value, core.reactor(), core.mailbox(), threads);
    if (!opened) throw std::runtime_error("database \"" + database.name.value + "\": " + opened.error().message);
    databases_.push_back(std::move(*opened));
  }

  std::uint16_t id = 0;
  const auto add = [&](const http::Pattern& pattern, std::unique_ptr<http::Handler> handler, bool formats) {
    http::Router::Route route{.pattern = pattern, .handlers = {}, .formats = formats, .id = ++id};
    route.handlers[static_cast<std::size_t>(http::Method::get)] = handler.get();
    if (!router_.add(route)) throw std::runtime_error("two routes for the path " + plan_->routes[id]);
    handlers_.push_back(std::move(handler));
  };
  for (const Plan::Endpoint& endpoint : plan_->endpoints) {
    add(endpoint.pattern,
        std::make_unique<api::Endpoint>(endpoint.plan, *databases_[endpoint.database], core.reactor()), true);
  }
  for (const Plan::Files& files : plan_->files) {
    add(files.pattern, std::make_unique<files::StaticFiles>(plan_->options.files[files.index], core.reactor()), false);
  }
}

Service::~Service() = default;

void Service::listen(const core::Address& address) {
  if (const auto bound = server_.listen(address); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

void Service::drain(Duration grace) {
  if (std::exchange(draining_, true)) return;
  server_.drain();
  core_.tasks().spawn([](Service& self, Instant deadline) -> core::Task<void> {
    core::Reactor& reactor = self.core_.reactor();
    while (!self.server_.drained() && reactor.now() < deadline) co_await core::Sleep(reactor, reactor.now() + 5ms);
    self.core_.stop();
  }(*this, core_.reactor().now() + grace));
}

core::Task<std::optional<std::string>> Service::find_unready(Instant deadline) {
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    if (!co_await databases_[i]->ping(deadline)) co_return plan_->options.databases[i].name.value;
  }
  co_return std::nullopt;
}

void Service::completed(const http::Completion& completion) {
  requests_.add(completion);
  if (access_log_) access_log_->add(completion);
}

}  // namespace sluice::app
