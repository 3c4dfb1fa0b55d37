#include "http/compress/turnstile.h"

#include <utility>

#include "base/assert.h"

namespace sluice::http::compress {

Turnstile::NextTurn::NextTurn(Turnstile& owner)
    : Letter([](core::Letter& letter) noexcept {
        auto& self = static_cast<NextTurn&>(letter);
        self.posted = false;
        if (self.owner == nullptr) {
          delete &self;
        } else {
          self.owner->serve();
        }
      }),
      owner(&owner) {}

Turnstile::Turnstile(core::Reactor& reactor, core::Mailbox& mailbox)
    : reactor_(reactor), mailbox_(mailbox), next_turn_(new NextTurn(*this)) {}

Turnstile::~Turnstile() {
  SLUICE_ASSERT(first_ == nullptr);
  if (next_turn_->posted) {
    next_turn_->owner = nullptr;
  } else {
    delete next_turn_;
  }
}

void Turnstile::begin_turn() {
  turn_ = reactor_.now();
  left_ = turn_bytes;
}

bool Turnstile::open() {
  if (first_ != nullptr) return false;
  if (turn_ != reactor_.now()) begin_turn();
  return left_ > 0;
}

void Turnstile::count(std::size_t bytes) {
  if (turn_ != reactor_.now()) begin_turn();
  left_ -= static_cast<std::ptrdiff_t>(bytes);
}

void Turnstile::add(Turn& turn) noexcept {
  turn.waits_ = true;
  turn.previous_ = last_;
  (last_ != nullptr ? last_->next_ : first_) = &turn;
  last_ = &turn;
  ask_for_turn();
}

void Turnstile::Turn::leave() noexcept {
  if (!waits_) return;
  waits_ = false;
  (previous_ != nullptr ? previous_->next_ : turnstile_.first_) = next_;
  (next_ != nullptr ? next_->previous_ : turnstile_.last_) = previous_;
  next_ = previous_ = nullptr;
}

// A post that is refused means that the core ends, and with it all who wait.
void Turnstile::ask_for_turn() noexcept {
  if (next_turn_->posted) return;
  next_turn_->posted = true;
  if (!mailbox_.post(*next_turn_)) next_turn_->posted = false;
}

void Turnstile::serve() noexcept {
  begin_turn();
  while (first_ != nullptr && left_ > 0) {
    Turn& turn = *first_;
    turn.leave();
    turn.caller_.resume();
  }
  if (first_ != nullptr) ask_for_turn();
}

}  // namespace sluice::http::compress
