#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::gateway::basic {

// One core's passwords that wait to be hashed. One is hashed at a time, on the blocking pool, so that many wrong
// passwords do not fill the pool; other lines of the core hash beside it. At most `queue` of them
// wait, and of one network at most half as many. They are served in the order in which they came, but one of another
// network than the last comes first.
class PasswordLine {
 public:
  enum class Refusal : std::uint8_t {
    busy,         // too many wait, or it has waited for too long
    unnecessary,  // `is_done` has said so
  };
  // All references outlive the object.
  PasswordLine(core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads, std::size_t queue)
      : reactor_(reactor), mailbox_(mailbox), threads_(threads), queue_(queue) {}
  PasswordLine(const PasswordLine&) = delete;

  // Whether run() would refuse another one of this network at once.
  [[nodiscard]] bool is_full(const std::string& network) const;
  // Runs work() on a thread when its turn has come. `is_done`: asked while it waits; true: the work is not needed any
  // more. If the caller is destroyed, work that runs already ends by itself, and keeps its turn until then.
  template <class Work>
  [[nodiscard]] core::Task<std::expected<std::invoke_result_t<Work&>, Refusal>> run(
      std::string network, Work work, std::move_only_function<bool()> is_done = {}) {
    if (is_full(network)) co_return std::unexpected(Refusal::busy);
    Waiting waiting(*this, network);
    if (const auto refusal = co_await turn(waiting, std::move(is_done)); !refusal) {
      co_return std::unexpected(refusal.error());
    }
    ++begun_;
    auto result =
        co_await threads_.run(mailbox_, [turn = Turn(is_busy_), work = std::move(work)]() mutable { return work(); });
    if (!result) co_return std::unexpected(Refusal::busy);
    co_return std::move(*result);
  }
  // How many have had their turn.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }

 private:
  // The permission to use a thread. It is given back when the work is destroyed, on any thread.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<std::atomic<bool>> taken) : taken_(std::move(taken)) { *taken_ = true; }
    Turn(Turn&& other) noexcept = default;
    ~Turn() {
      if (taken_) *taken_ = false;
    }

   private:
    std::shared_ptr<std::atomic<bool>> taken_;
  };
  // A request that waits for its turn, or for its result.
  class Waiting {
   public:
    Waiting(PasswordLine& line, const std::string& network);
    Waiting(const Waiting&) = delete;
    ~Waiting();
    void leave_line();
    [[nodiscard]] const std::string& network() const { return place_->first; }

   private:
    PasswordLine& line_;
    std::unordered_map<std::string, std::size_t>::value_type* place_;
  };

  core::Task<std::expected<void, Refusal>> turn(Waiting& waiting, std::move_only_function<bool()> is_done);
  // The one whose turn is next. Precondition: one waits.
  [[nodiscard]] const Waiting* next() const;

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  const std::size_t queue_;
  std::size_t waiting_ = 0;
  std::unordered_map<std::string, std::size_t> waiting_by_network_;
  std::vector<const Waiting*> line_;  // those whose turn has not come
  std::string served_last_;           // the network
  std::uint64_t begun_ = 0;
  // True while a thread works, even if its request does not wait for it any more.
  const std::shared_ptr<std::atomic<bool>> is_busy_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace sluice::gateway::basic
