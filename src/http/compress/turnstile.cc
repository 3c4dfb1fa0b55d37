#include "http/compress/turnstile.h"

namespace sluice::http::compress {

void Turnstile::begin_turn() {
  turn_ = reactor_.now();
  left_ = turn_bytes;
}

bool Turnstile::open() {
  if (!line_.empty()) return false;
  if (turn_ != reactor_.now()) begin_turn();
  return left_ > 0;
}

void Turnstile::count(std::size_t bytes) {
  if (turn_ != reactor_.now()) begin_turn();
  left_ -= static_cast<std::ptrdiff_t>(bytes);
}

void Turnstile::serve(core::TurnHook& hook) noexcept {
  auto& self = static_cast<Turnstile&>(hook);
  self.begin_turn();
  while (!self.line_.empty() && self.left_ > 0) self.line_.take_first().resume();
  if (!self.line_.empty()) self.reactor_.at_next_turn(self);
}

}  // namespace sluice::http::compress
