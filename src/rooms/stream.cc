#include "rooms/stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "http/identity.h"
#include "rooms/protocol.h"

namespace sluice::rooms {
namespace {

constexpr std::size_t pulled_bytes = 16 * 1024;

}  // namespace

Stream::Stream(std::shared_ptr<Door> door, const http::Exchange& exchange)
    : door_(std::move(door)), standing_(exchange), alarm_(door_->reactor()) {
  claims = http::shared_claims_of(exchange);
  ++door_->streams;
}

Stream::~Stream() {
  leave();
  --door_->streams;
}

void Stream::greet(const Rooms::Joined& joined) {
  epoch_ = joined.position.epoch;
  const auto retry_ms = std::chrono::duration_cast<std::chrono::milliseconds>(door_->retry()).count();
  greeting_.append("retry: " + std::to_string(retry_ms) + "\n");
  greeting_.append(subscribed_event(room()->path, joined.position, joined.recovered));
}

void Stream::expel() {
  is_over_ = true;
  alarm_.ring();
}

bool Stream::take(Buffer& out) {
  if (!greeting_.empty()) {
    out.append(greeting_.view());
    greeting_.release();
  }
  while (out.size() < pulled_bytes) {
    const Next found = next();
    if (found.kind == Next::Kind::nothing) break;
    if (found.kind == Next::Kind::ended) return false;
    if (found.kind == Next::Kind::publication) {
      append_event(out, {.epoch = epoch_, .offset = found.publication->offset}, found.publication->data());
      continue;
    }
    epoch_ = found.position.epoch;
    out.append(reset_event(room()->path, found.position, found.kind == Next::Kind::behind ? "behind" : "rewound"));
  }
  return true;
}

core::Async<Result<http::BodySource::Progress>> Stream::pull(Buffer& out) {
  if (is_over_ || standing_.is_over(door_->reactor())) return Result<Progress>(Progress::done);
  const std::size_t before = out.size();
  const bool goes_on = take(out);
  if (out.size() != before) return Result<Progress>(Progress::more);
  if (!goes_on) return Result<Progress>(Progress::done);
  return wait(out);
}

core::Task<Result<http::BodySource::Progress>> Stream::wait(Buffer& out) {
  core::Reactor& reactor = door_->reactor();
  const Instant beat = reactor.now() + door_->options().heartbeat;
  const std::size_t before = out.size();
  for (;;) {
    (void)co_await alarm_.wait(std::min(beat, standing_.next_look(reactor)));
    if (is_over_ || standing_.is_over(reactor)) co_return Progress::done;
    const bool goes_on = take(out);
    if (out.size() != before) co_return Progress::more;
    if (!goes_on) co_return Progress::done;
    if (reactor.now() < beat) continue;
    out.append(":\n\n");
    co_return Progress::more;
  }
}

}  // namespace sluice::rooms
