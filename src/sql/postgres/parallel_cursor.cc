#include "sql/postgres/parallel_cursor.h"

#include <algorithm>
#include <utility>

#include "sql/postgres/pool.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t most_starts = 4;  // in addition to one per connection, each of which may have a stale plan

Error too_late() { return {Failure::timed_out, {}, "the server did not answer in time", 0}; }

}  // namespace

ParallelCursor::ParallelCursor(Pool& pool, const Statement& statement, std::span<const Argument> arguments,
                               const QueryOptions& options)
    : pool_(pool),
      request_(pool.options(), statement, arguments, options.settings),
      deadline_(options.deadline),
      timer_(&ParallelCursor::on_deadline, *this) {
  const Instant now = pool.reactor().now();
  patience_ = deadline_ == never ? pool.statement_timeout() : std::max<Duration>(deadline_ - now, 1ms);
  ++pool.counters().parallel_requests;
  begin_leader();
}

ParallelCursor::~ParallelCursor() {
  while (!readers_.empty()) readers_.pop_back();
}

void ParallelCursor::wake_later(std::coroutine_handle<> caller) {
  waiting_ = caller;
  for (const auto& reader : readers_) reader->wake_later(caller);
}

void ParallelCursor::on_deadline(core::Timer& timer) noexcept {
  ParallelCursor& self = static_cast<Deadline&>(timer).owner;
  self.timed_out_ = true;
  if (self.waiting_) std::exchange(self.waiting_, nullptr).resume();
}

void ParallelCursor::begin_leader() {
  readers_.clear();
  readers_.push_back(std::make_unique<RangeReader>(pool_, request_, std::nullopt, deadline_));
}

// Called only before rows have been returned. After a broken connection it retries once, like any request.
bool ParallelCursor::start_again() {
  RangeReader& leader = *readers_.front();
  const bool may = leader.state() == RangeReader::State::again
                       ? ++starts_ < pool_.options().pool_size + most_starts
                       : leader.state() == RangeReader::State::lost && leader.error().failure == Failure::lost &&
                             pool_.may_repeat() && !std::exchange(retried_, true);
  if (!may) return false;
  begin_leader();
  return true;
}

core::Task<Result<void>> ParallelCursor::start() {
  if (deadline_ != never) pool_.reactor().timers().schedule(timer_, deadline_);
  for (;;) {
    RangeReader& leader = *readers_.front();
    leader.advance();
    // The wait for a connection does not count.
    if (deadline_ == never && leader.has_begun() && !timer_.armed() && patience_ != Duration::max()) {
      pool_.reactor().timers().schedule(timer_, pool_.reactor().now() + patience_);
    }
    if (leader.state() == RangeReader::State::reading) break;
    if (leader.state() != RangeReader::State::starting) {
      if (start_again()) continue;
      if (leader.error().failure == Failure::lost) leader.error().failure = Failure::unavailable;
      co_return std::unexpected(std::move(leader.error()));
    }
    if (timed_out_) co_return std::unexpected(too_late());
    co_await Progress(*this);
  }
  const Options& options = pool_.options();
  ranges_ = BlockRanges(readers_.front()->share().blocks, options.range_blocks, options.range_least_blocks);
  hire();
  co_return Result<void>{};
}

void ParallelCursor::hire() {
  if (readers_.front()->share().snapshot.empty()) return;
  const std::uint64_t useful = std::min<std::uint64_t>(request_.parallel.reading.connections, ranges_.left());
  const std::string_view snapshot = readers_.front()->share().snapshot;
  while (readers_.size() < useful) {
    readers_.push_back(std::make_unique<RangeReader>(pool_, request_, snapshot, deadline_));
  }
}

void ParallelCursor::ask(RangeReader& reader) {
  while (reader.may_ask()) {
    const auto range = ranges_.next();
    if (!range) return;
    reader.ask(*range);
    if (request_.parallel.reading.ordered) turns_.push_back(&reader);
  }
}

// Advances all readers as far as possible without taking their rows.
void ParallelCursor::drive() {
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    RangeReader& reader = *readers_[i];
    const bool was_starting = reader.state() == RangeReader::State::starting;
    reader.advance();
    if (reader.state() == RangeReader::State::starting) continue;
    const bool helps = i != 0;
    if (was_starting && helps && reader.state() == RangeReader::State::reading) ++pool_.counters().parallel_helpers;
    // If a helper cannot start, the others read its ranges. A helper's columns must be the leader's list, which the
    // caller knows.
    const bool useless =
        reader.state() != RangeReader::State::reading || reader.columns().data() != readers_.front()->columns().data();
    if (helps && reader.is_idle() && (useless || ranges_.left() == 0 || pool_.waiting() != 0)) {
      readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i--));
      continue;
    }
    // If other requests wait for a connection, ask for no further range: the connection is released after this one.
    if (!helps || pool_.waiting() == 0) ask(reader);
    if (request_.parallel.reading.ordered && !turns_.empty() && turns_.front() != &reader) reader.read_ahead();
  }
}

Result<Block> ParallelCursor::failed(RangeReader& reader) { return std::unexpected(std::move(reader.error())); }

std::optional<Result<Block>> ParallelCursor::take() {
  if (ranges_.left() != 0 || readers_.size() > 1) drive();
  return request_.parallel.reading.ordered ? take_in_order() : take_any();
}

std::optional<Result<Block>> ParallelCursor::take_in_order() {
  while (!turns_.empty()) {
    RangeReader& reader = *turns_.front();
    Block block;
    switch (reader.take(block)) {
      case RangeReader::Got::rows:
        return Result<Block>(block);
      case RangeReader::Got::failed:
        return failed(reader);
      case RangeReader::Got::nothing:
        return std::nullopt;
      case RangeReader::Got::range_end:
        turns_.pop_front();
        drive();
        break;
    }
  }
  SLUICE_ASSERT(ranges_.left() == 0);  // the leader reads all remaining ranges
  return Result<Block>(Block{readers_.front()->columns(), {}, 0, true});
}

std::optional<Result<Block>> ParallelCursor::take_any() {
  for (std::size_t looked = 0; looked < readers_.size();) {
    turn_ = (turn_ + 1) % readers_.size();
    RangeReader& reader = *readers_[turn_];
    Block block;
    const auto got = reader.take(block);
    if (got == RangeReader::Got::rows) return Result<Block>(block);
    if (got == RangeReader::Got::failed && !reader.is_idle()) return failed(reader);
    if (got == RangeReader::Got::range_end) {
      drive();
      looked = 0;
      continue;
    }
    ++looked;
  }
  const bool busy = std::ranges::any_of(readers_, [](const auto& reader) { return !reader->is_idle(); });
  if (busy) return std::nullopt;
  SLUICE_ASSERT(ranges_.left() == 0);
  return Result<Block>(Block{readers_.front()->columns(), {}, 0, true});
}

core::Async<Result<Block>> ParallelCursor::next() {
  if (auto block = take()) {
    pool_.reactor().timers().cancel(timer_);
    timed_out_ = false;
    return std::move(*block);
  }
  return wait_for_rows();
}

core::Task<Result<Block>> ParallelCursor::wait_for_rows() {
  // start()'s deadline applies until the first rows.
  if (!timer_.armed() && patience_ != Duration::max()) {
    pool_.reactor().timers().schedule(timer_, pool_.reactor().now() + patience_);
  }
  for (;;) {
    co_await Progress(*this);
    auto block = take();
    if (!block && timed_out_) block = Result<Block>(std::unexpected(too_late()));
    if (!block) continue;
    pool_.reactor().timers().cancel(timer_);
    timed_out_ = false;
    co_return std::move(*block);
  }
}

}  // namespace sluice::sql::postgres
