#include "gateway/limits/rate_limiter.h"

#include <algorithm>
#include <utility>

namespace sluice::gateway::limits {
namespace {

std::uint64_t bit_of(unsigned core) { return std::uint64_t{1} << (core % 64); }

}  // namespace

std::shared_ptr<RateLimiter> RateLimiter::of(const std::shared_ptr<Shared>& shared, core::Reactor& reactor,
                                             core::MeshPort& port, const Rate& rate, std::uint32_t keys) {
  if (RateLimiter* const part = shared->limiters.here(port)) return part->shared_from_this();
  return std::make_shared<RateLimiter>(shared, reactor, port, rate, keys);
}

RateLimiter::RateLimiter(std::shared_ptr<Shared> shared, core::Reactor& reactor, core::MeshPort& port, const Rate& rate,
                         std::uint32_t keys)
    : shared_(std::move(shared)),
      reactor_(reactor),
      port_(port),
      rate_(rate),
      accounts_(keys),
      loans_(keys),
      entry_(shared_->limiters, port.core(), *this) {
  SLUICE_ASSERT(shared_->cores() == port.size());
}

void RateLimiter::serve(const Rate& rate, const void* user) {
  user_ = user;
  if (rate == rate_) return;
  loans_.each([](Loan& loan) { loan.refused_until = 0; });
  rate_ = rate;
}

core::Async<RateLimiter::Verdict> RateLimiter::take(const Key& key, const Rate& rate) {
  if (shared_->owner_of(key) == port_.core()) {
    const Verdict verdict = grant(key, rate, port_.core(), 0);
    if (verdict.answer != Answer::refused || !has_lent(key)) return verdict;
    return serve(shared_, key, rate, port_.core(), 0, port_);
  }
  if (Loan* const loan = loans_.find(key)) {
    if (loan->unused != 0) {
      --loan->unused;
      if (loan->left != 0) --loan->left;
      return Verdict{.left = loan->left};
    }
    // The owner has sent this time. An account never fills earlier than predicted.
    if (const std::int64_t at = reactor_.now().time_since_epoch().count(); at < loan->refused_until) {
      return Verdict{.answer = Answer::refused, .wait_ns = std::max(loan->token_at, loan->refused_until) - at};
    }
  }
  return ask(key, rate);
}

// ---- The owner ----

void RateLimiter::change_rate(Account& account, const Rate& rate, std::int64_t at) {
  if (account.full_at > at) {
    const double used = static_cast<double>(account.full_at - at) / static_cast<double>(account.rate.interval_ns);
    const double bounded = std::min(used, static_cast<double>(rate.burst));
    account.full_at = at + static_cast<std::int64_t>(bounded * static_cast<double>(rate.interval_ns));
  }
  account.rate = rate;
}

RateLimiter::Verdict RateLimiter::grant(const Key& key, const Rate& rate, unsigned asker, std::uint32_t wanted) {
  const std::int64_t at = now();
  const std::int64_t interval = rate.interval_ns;
  Account* account = accounts_.find(key);
  if (account == nullptr) {
    // An account that is full can be erased: a new one would be the same.
    const auto may_go = [at](const Account& one) { return one.full_at <= at && one.lent == 0; };
    account = accounts_.add(key, may_go);
    // Clients may choose the keys. They must not be able to fill the table and so keep everybody else out.
    const auto rank = [](const Account& one) { return one.lent == 0 ? one.full_at : INT64_MAX; };
    if (account == nullptr && accounts_.evict(rank)) {
      ++evicted_;
      account = accounts_.add(key, may_go);
    }
    if (account == nullptr) return {.answer = Answer::full};
  }
  if (account->rate != rate) change_rate(*account, rate, at);
  account->full_at = std::max(account->full_at, at + account->lent * interval);
  std::int64_t room = at + rate.burst * interval - account->full_at;
  if (room < interval) return {.answer = Answer::refused, .wait_ns = interval - room};
  account->full_at += interval;
  room -= interval;
  std::int64_t left = room / interval;
  if (wanted != 0) {
    // Lend at most half of the tokens in total, however many cores ask, so that some tokens are left for the next core.
    const auto more = static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, left / (2 * port_.size())));
    const auto lend = [key, more](RateLimiter& there) { there.receive(key, more); };
    if (more != 0 && shared_->limiters.send(port_, asker, lend)) {
      account->full_at += more * interval;
      account->lent += more;
      account->lent_to |= bit_of(asker);
    }
  }
  return {.left = static_cast<std::uint32_t>(left)};
}

bool RateLimiter::has_lent(const Key& key) {
  const Account* const account = accounts_.find(key);
  return account != nullptr && account->lent != 0;
}

void RateLimiter::repaid(const Return& what) {
  Account* const account = accounts_.find(what.key);
  if (account == nullptr) return;
  account->full_at = std::max(account->full_at, now() + account->lent * account->rate.interval_ns);
  account->full_at -= what.unused * account->rate.interval_ns;
  account->lent -= std::min(account->lent, what.lent);
  if (account->lent == 0) account->lent_to = 0;
}

core::Task<RateLimiter::Verdict> RateLimiter::serve(std::shared_ptr<Shared> shared, Key key, Rate rate, unsigned asker,
                                                    std::uint32_t wanted, core::MeshPort& here) {
  RateLimiter* self = shared->limiters.here(here);
  if (self == nullptr) co_return Verdict{.answer = Answer::alone};
  const Verdict verdict = self->grant(key, rate, asker, wanted);
  if (verdict.answer != Answer::refused || !self->has_lent(key)) co_return verdict;
  const std::uint64_t holders = self->accounts_.find(key)->lent_to;
  const Instant deadline = self->reactor_.now() + patience;
  for (unsigned core = 0; core < here.size(); ++core) {
    if (core == here.core() || (holders & bit_of(core)) == 0) continue;
    // The returned tokens arrive before the answer.
    auto call_in = [key](RateLimiter* there, core::MeshPort&) {
      if (there != nullptr) there->repay(key);
    };
    (void)co_await shared->limiters.call(here, core, deadline, std::move(call_in));
  }
  self = shared->limiters.here(here);  // this object may have been destroyed meanwhile
  if (self == nullptr) co_return Verdict{.answer = Answer::alone};
  co_return self->grant(key, rate, asker, 0);
}

// ---- The other cores ----

core::Task<RateLimiter::Verdict> RateLimiter::ask(Key key, Rate rate) {
  const Instant begin = reactor_.now();
  const std::int64_t at = begin.time_since_epoch().count();
  Loan* loan = loans_.find(key);
  if (loan == nullptr) {
    loan = loans_.add(key, [at](const Loan& one) { return one.lent == 0 && one.refused_until <= at; });
    if (loan != nullptr) loan->asked_at = -1;
  }
  std::uint32_t wanted = 0;
  if (loan != nullptr) {
    if (loan->lent != 0) repay(*loan);
    // A core that asks rarely gets no loan, because it would have to return the loan unused.
    const bool is_often = loan->asked_at >= 0 && at - loan->asked_at < Duration(loan_time).count();
    wanted = loan->wanted = is_often ? std::min(longest_loan, std::max(1u, loan->wanted * 2)) : 0;
    loan->asked_at = at;
  }
  auto question = [shared = shared_, key, rate, asker = port_.core(), wanted](core::MeshPort& there) {
    return serve(shared, key, rate, asker, wanted, there);
  };
  const auto answer = co_await port_.call(shared_->owner_of(key), begin + patience, std::move(question));
  if (!answer) co_return Verdict{.answer = answer.error().code == Errc::closed ? Answer::alone : Answer::late};
  if (Loan* const known = loans_.find(key)) {
    known->left = answer->left;
    if (answer->answer == Answer::refused) {
      // Limited, because the rate may change.
      const std::int64_t wait = std::min(answer->wait_ns, Duration(patience).count());
      known->token_at = reactor_.now().time_since_epoch().count() + answer->wait_ns;
      known->refused_until = reactor_.now().time_since_epoch().count() + wait;
    }
  }
  co_return *answer;
}

void RateLimiter::receive(const Key& key, std::uint32_t tokens) {
  const Instant begin = reactor_.now();
  Loan* loan = loans_.find(key);
  if (loan == nullptr) {
    const std::int64_t at = begin.time_since_epoch().count();
    loan = loans_.add(key, [at](const Loan& one) { return one.lent == 0 && one.refused_until <= at; });
  }
  if (loan == nullptr) return give_back({.key = key, .lent = tokens, .unused = tokens});
  if (loan->lent == 0) {
    const Instant due = begin + loan_time;
    loan->lent_at = begin.time_since_epoch().count();
    due_.push_back({.key = key, .at = due.time_since_epoch().count()});
    arm(due);
  }
  loan->lent += tokens;
  loan->unused += tokens;
}

void RateLimiter::repay(Loan& loan) {
  give_back({.key = loan.key, .lent = loan.lent, .unused = loan.unused});
  loan.lent = loan.unused = 0;
}

void RateLimiter::repay(const Key& key) {
  Loan* const loan = loans_.find(key);
  if (loan != nullptr && loan->lent != 0) repay(*loan);
}

void RateLimiter::give_back(const Return& what) {
  (void)shared_->limiters.send(port_, shared_->owner_of(what.key), [what](RateLimiter& owner) { owner.repaid(what); });
}

void RateLimiter::tend() {
  const std::int64_t at = reactor_.now().time_since_epoch().count();
  for (; !due_.empty() && due_.front().at <= at; due_.pop_front()) {
    Loan* const loan = loans_.find(due_.front().key);
    // The key may have a later loan, which has its own entry in due_.
    if (loan != nullptr && loan->lent != 0 && loan->lent_at + Duration(loan_time).count() <= at) repay(*loan);
  }
  if (!due_.empty()) arm(Instant(Duration(due_.front().at)));
}

void RateLimiter::arm(Instant when) {
  if (!clock_.armed() || when < clock_.when()) reactor_.timers().schedule(clock_, when);
}

void RateLimiter::validate() {
  accounts_.validate();
  loans_.validate();
  loans_.each([](Loan& loan) { SLUICE_ASSERT(loan.unused <= loan.lent); });
}

}  // namespace sluice::gateway::limits
