#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"
#include "core/timer.h"
#include "gateway/limits/key.h"
#include "gateway/limits/shared.h"
#include "gateway/limits/table.h"

namespace sluice::gateway::limits {

// The rate of a key: `burst` tokens at once, and then one per interval.
struct Rate {
  std::int64_t interval_ns = 1;
  std::int64_t burst = 1;
  bool operator==(const Rate&) const = default;
};

// One core's part of a rate limit.
//
// The core that owns a key keeps its account by GCRA, as the time when the account is full again. Other cores ask the
// owner for tokens. A core that asks again after a short time also gets a few tokens as a loan. Over all cores and in
// any time t
//
//   requests allowed <= burst + rate * t
//
// because account + loans <= burst at any moment: lent tokens count as if they were still in the account. A core
// reports its use of a loan when the loan is used up or loan_time has passed, and then returns unused tokens. If an
// account is empty and loans are out, the owner first recalls them. Only messages decide this, not deadlines or another
// core's clock.
class RateLimiter : public std::enable_shared_from_this<RateLimiter> {
 public:
  static constexpr Duration loan_time = std::chrono::milliseconds(100);
  static constexpr std::uint32_t longest_loan = 32;  // tokens
  static constexpr Duration patience = std::chrono::seconds(1);

  enum class Answer : std::uint8_t {
    allowed,
    refused,
    full,  // the table of accounts is full, and other cores hold tokens of all its keys
    late,  // the owner did not answer
    alone  // the owner is ending with the process
  };
  struct Verdict {
    Answer answer = Answer::allowed;
    std::uint32_t left = 0;    // tokens, approximately
    std::int64_t wait_ns = 0;  // refused: time until the next token
  };

  // Returns this core's part, which all users of the limit share. Creates it with that rate if absent. `keys`: the
  // maximum number of accounts of this core. All arguments outlive this object. Must be called on the port's core.
  [[nodiscard]] static std::shared_ptr<RateLimiter> of(const std::shared_ptr<Shared>& shared, core::Reactor& reactor,
                                                       core::MeshPort& port, const Rate& rate, std::uint32_t keys);
  RateLimiter(std::shared_ptr<Shared> shared, core::Reactor& reactor, core::MeshPort& port, const Rate& rate,
              std::uint32_t keys);
  RateLimiter(const RateLimiter&) = delete;

  // From now on this object belongs to `user`, with that rate.
  void serve(const Rate& rate, const void* user);
  [[nodiscard]] const void* user() const { return user_; }  // null before the first serve()

  // `rate`: of this key. If it is another one than before, the tokens that were used stay used.
  [[nodiscard]] core::Async<Verdict> take(const Key& key, const Rate& rate);
  [[nodiscard]] core::Async<Verdict> take(const Key& key) { return take(key, rate_); }

  [[nodiscard]] std::uint32_t keys() const { return accounts_.size(); }
  // Accounts that were erased before they were full, because the table had no place for a new key.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  void validate();

 private:
  // At the owner. The account has (now + burst * interval - full_at) / interval tokens.
  struct Account {
    Key key;
    Rate rate;
    std::int64_t full_at = 0;   // when it is full again, ns
    std::uint64_t lent_to = 0;  // a bit for each core that may hold some of `lent`; core 64 shares the bit of core 0
    std::uint32_t lent = 0;     // tokens that other cores hold, or have used and not reported yet
  };
  // At the other cores.
  struct Loan {
    Key key;
    std::int64_t asked_at = 0;
    std::int64_t refused_until = 0;  // until then requests are refused without asking the owner
    std::int64_t token_at = 0;       // after a refusal: when there is a token again
    std::int64_t lent_at = 0;        // when the first of the lent tokens arrived
    std::uint32_t lent = 0;
    std::uint32_t unused = 0;  // of the lent tokens
    std::uint32_t wanted = 0;  // how many this core last asked for
    std::uint32_t left = 0;    // tokens, as far as this core knows
  };
  struct Return {
    Key key;
    std::uint32_t lent = 0;
    std::uint32_t unused = 0;
  };
  struct Due {
    Key key;
    std::int64_t at = 0;
  };
  struct Clock : core::Timer {
    explicit Clock(RateLimiter& of) : Timer(fire), limiter(of) {}
    static void fire(Timer& timer) noexcept { static_cast<Clock&>(timer).limiter.tend(); }
    RateLimiter& limiter;
  };

  [[nodiscard]] std::int64_t now() const { return reactor_.clock().time_since_epoch().count(); }
  // The owner's part.
  [[nodiscard]] Verdict grant(const Key& key, const Rate& rate, unsigned asker, std::uint32_t wanted);
  static void change_rate(Account& account, const Rate& rate, std::int64_t at);
  [[nodiscard]] bool has_lent(const Key& key);
  void repaid(const Return& what);
  static core::Task<Verdict> serve(std::shared_ptr<Shared> shared, Key key, Rate rate, unsigned asker,
                                   std::uint32_t wanted, core::MeshPort& here);
  // The other cores' part.
  [[nodiscard]] core::Task<Verdict> ask(Key key, Rate rate);
  void receive(const Key& key, std::uint32_t tokens);
  void repay(Loan& loan);
  void repay(const Key& key);
  void give_back(const Return& what);
  void tend();
  void arm(Instant when);

  const std::shared_ptr<Shared> shared_;
  core::Reactor& reactor_;
  core::MeshPort& port_;
  Rate rate_;
  Table<Account> accounts_;
  std::uint64_t evicted_ = 0;
  Table<Loan> loans_;
  std::deque<Due> due_;  // loans, in the order in which they end
  Clock clock_{*this};
  const void* user_ = nullptr;
  const core::Sharded<RateLimiter>::Entry entry_;
};

}  // namespace sluice::gateway::limits
