#include "sql/postgres/cancel.h"

#include "base/buffer.h"
#include "net/stream.h"
#include "sql/postgres/encryption.h"

namespace sluice::sql::postgres {
namespace {

constexpr Duration patience = 2s;

}  // namespace

void Cancel::begin(const core::Address& address, const BackendKey& key, bool encrypted) {
  address_ = address;
  key_ = key;
  is_encrypted_ = encrypted;
}

void Cancel::end() {
  ++life_;
  key_ = {};
  is_on_its_way_ = false;
  may_hit_ = 0;
}

void Cancel::send() {
  SLUICE_ASSERT(!is_on_its_way_);
  is_on_its_way_ = true;
  ++sessions_.counters().cancels;
  sessions_.spawn(run());
}

core::Task<void> Cancel::run() {
  const std::uint64_t life = life_;
  const Outcome outcome = co_await deliver();
  if (life != life_) co_return;
  is_on_its_way_ = false;
  if (outcome != Outcome::unsent) may_hit_ = outcome == Outcome::confirmed ? session_.in_flight() : all;
  session_.cancel_ended();
}

core::Task<Cancel::Outcome> Cancel::deliver() {
  const Instant deadline = sessions_.reactor().now() + patience;
  Buffer bytes;
  write_cancel(bytes, key_);
  const core::Address address = address_;
  const bool encrypted = is_encrypted_;
  net::Stream stream(sessions_.reactor());
  if (!co_await stream.connect(address, deadline)) co_return Outcome::unsent;
  if (encrypted) {
    const auto encryption = co_await encrypt(sessions_.options(), stream, sessions_.tls(), deadline);
    if (encryption.outcome != Encryption::Outcome::on) co_return Outcome::unsent;
  }
  iovec part{bytes.data(), bytes.size()};
  if (!co_await stream.write({&part, 1}, patience)) co_return Outcome::unknown;
  Buffer nothing;
  for (;;) {
    const auto got = co_await stream.read(nothing, 256, deadline);
    if (!got) co_return got.error().code == Errc::timed_out ? Outcome::unknown : Outcome::confirmed;
    if (*got == 0) co_return Outcome::confirmed;
    nothing.clear();
  }
}

}  // namespace sluice::sql::postgres
