#include "gateway/proxy/probe.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/sleep.h"

namespace sluice::gateway {
namespace {

using core::Task;
using http::client::Pool;

constexpr std::size_t most_body = 64 * 1024;  // bytes that are searched

http::client::PoolOptions probing(http::client::PoolOptions options, Duration timeout) {
  options.connection.write_timeout = options.connection.head_timeout = timeout;
  options.connect_timeout = timeout;
  options.idle = 0;
  return options;
}

}  // namespace

Probe::Probe(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver* resolver, http::client::Origin origin,
             http::client::PoolOptions pool, const HealthOptions& options, std::string host, Told told)
    : reactor_(reactor),
      options_(options),
      wanted_(*StatusRange::parse(options.status)),
      host_(std::move(host)),
      told_(std::move(told)),
      pool_(reactor, mailbox, resolver, std::move(origin), probing(std::move(pool), options.timeout)),
      asked_(reactor) {
  for (const auto& field : options_.fields) fields_.push_back({field.name.value, field.value.value});
  running_.spawn(run());
}

Task<void> Probe::run() {
  for (;;) {
    const Instant begin = reactor_.now();
    try {
      fault_ = "it did not answer in time";
      has_no_memory_ = false;
      asking_.spawn(ask());
      (void)co_await asked_.wait(begin + options_.timeout);
      asking_.cancel();
      if (!has_no_memory_) {
        ++(fault_.empty() ? counters_.passed : counters_.failed);
        told_(fault_);
      }
    } catch (const std::bad_alloc&) {
      asking_.cancel();  // our lack of memory says nothing about the server
    }
    co_await core::Sleep(reactor_, std::max(reactor_.now(), begin + options_.every));
  }
}

Task<void> Probe::ask() {
  try {
    co_await find_fault();
  } catch (const std::bad_alloc&) {
    has_no_memory_ = true;
  }
  asked_.ring();
}

Task<void> Probe::find_fault() {
  auto lease = co_await pool_.take(Pool::Which::fresh);
  if (!lease) {
    fault_ = "it cannot be reached: " + pool_.describe(lease.error());
  } else if (options_.path.empty()) {
    fault_.clear();
  } else {
    const auto head = co_await (*lease)->ask(
        {.method = options_.method.value, .target = options_.path, .host = host_, .fields = fields_}, nullptr);
    if (!head) {
      fault_ = "it gave no response: " + head.error().text();
    } else if (!wanted_.contains((*head)->status)) {
      fault_ = "it answered " + std::to_string((*head)->status);
    } else if (!options_.body.value.empty() && !co_await has_text(**lease)) {
      fault_ = "its answer does not contain \"" + options_.body.value + "\"";
    } else {
      fault_.clear();
    }
  }
}

Task<bool> Probe::has_text(http::client::Connection& connection) const {
  using Progress = http::BodySource::Progress;
  Buffer body;
  for (;;) {
    const auto progress = co_await connection.read(body);
    if (body.view().substr(0, most_body).contains(options_.body.value)) co_return true;
    if (!progress || *progress == Progress::done || body.size() >= most_body) co_return false;
  }
}

}  // namespace sluice::gateway
