#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/listeners.h"
#include "app/log/access_log.h"
#include "app/plan.h"
#include "app/site.h"
#include "base/logs.h"
#include "base/reading.h"
#include "core/alarm.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/here.h"
#include "gateway/jwt/keys.h"
#include "http/server.h"
#include "runtime/descriptors.h"
#include "runtime/per_core.h"

namespace sluice::app {

// One core's state that outlives configurations: the server and its counters. It also has the site that is served,
// the next one, and earlier ones. Created, used and destroyed on the core.
class Worker final : public runtime::PerCore, http::Observer, http::Handler {
 public:
  // Throws if something cannot be opened. Precondition: the shared parts of databases are open (open_shared_parts()),
  // and resident tables are loaded.
  Worker(core::Core& core, const std::shared_ptr<const Plan>& plan, core::BlockingPool& threads, Logs& logs,
         const runtime::Descriptors& descriptors);
  ~Worker() override;

  // For new connections.
  void set_tls(const std::shared_ptr<const net::tls::ServerContext>& context,
               const std::shared_ptr<const net::tls::TicketKeys>& tickets);
  // Binds the addresses that are not bound yet, and those of [[frames]] of the next site. Throws std::system_error if
  // it cannot.
  void bind(std::span<const net::Listening> addresses);
  // From now on listens on these addresses. Precondition: they are bound. Throws std::system_error if it cannot listen.
  void listen(const ListenerSet& listeners);

  // These switch to the next site. build_next() prepares it, and throws if it cannot be served. After that,
  // serve_next() makes it answer all new requests, or forget_next() drops it. Precondition: as for the first plan.
  void build_next(std::shared_ptr<const Plan> plan);
  void serve_next();
  void forget_next() { next_.reset(); }
  // Replaced instances of a route that are kept for unfinished answers. Beyond this number, the answers of the oldest
  // instance are cut.
  static constexpr std::size_t most_earlier = 8;
  [[nodiscard]] const Plan& plan() const { return *site_->plan(); }
  // Names of routes by id, including routes of earlier sites.
  [[nodiscard]] const std::vector<std::string>& route_names() const override { return site_->plan()->names; }

  // This core's part: of the current site, of the next one, or a retired one. Null if none has it.
  template <class C, class P>
  [[nodiscard]] std::shared_ptr<P> find(const ComponentOf<C, P>* component) const {
    if (auto found = site_->parts().find(component)) return found;
    if (next_) {
      if (auto found = next_->parts().find(component)) return found;
    }
    return Parts::find_in(retired_, component);
  }
  // Cuts the unfinished answers that refer to this owner.
  void cut_answers_of(const void* owner) { server_.cut_answers_of(owner); }

  void drain(Duration grace) noexcept override;
  [[nodiscard]] bool drained() const override;
  core::Task<void> finish(Instant by) override;

  // This core is ready if all its components are.
  core::Task<runtime::Readiness> find_readiness(Instant deadline) override;

  [[nodiscard]] runtime::Snapshot snapshot() const override;

 private:
  void completed(const http::Completion& completion) override;
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override {
    return site_->dispatcher().handle(exchange);
  }
  // Called when requests begin to use the site.
  void serve(Site& site);
  void set_server_options(const Site& site);
  void open_access_log(const ServerOptions& options);
  // The listeners for frames of a site, with what each needs to listen.
  static void for_each_frames(const Site& site, std::invocable<const FramesComponent&, FramesPart&> auto fn);
  // Retires the bindings of a replaced site, and its parts that the current site does not have.
  void retire(const Site& site);
  // Destroys what nothing uses any more, and keeps the counts.
  void forget_unused();
  core::Task<void> forget_when_unpinned();
  core::Task<void> give_memory_back();
  void cut_oldest();
  core::Task<void> keep_for_cancels(std::shared_ptr<const void> part);
  // Runs until all rows are written or cannot be written.
  core::Task<void> end_log(std::shared_ptr<RunningRequestLog> log);

  core::Core& core_;
  const core::Here here_;
  runtime::RequestMetrics requests_;
  Redaction redaction_;  // of the access log
  std::optional<AccessLog> access_log_;
  Logs& logs_;
  const runtime::Descriptors descriptors_;
  std::uint16_t https_port_ = 443;
  Readings ended_;  // counts of parts that have ended
  std::vector<std::shared_ptr<RunningRequestLog>> ending_logs_;
  std::vector<Parts::One> retired_;                // parts of replaced sites that something still uses
  std::vector<std::shared_ptr<Binding>> earlier_;  // retired bindings that exchanges pin, the oldest first
  core::Alarm released_;                           // rings when a retired binding has lost its last pin
  std::unique_ptr<Site> site_;
  std::unique_ptr<Site> next_;
  http::Server server_;
  core::TaskGroup tasks_;
};

}  // namespace sluice::app
