#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// Chooses the server for a request. Each core has its own and counts only the requests that it sends.
namespace sluice::gateway {

// The hash of a server's name or of a request's key: the same on every core, in every process and on every machine.
[[nodiscard]] std::uint64_t hash_of(std::string_view text);

// A server to choose from.
struct Candidate {
  std::uint64_t id = 0;  // hash_of() its name
  std::uint32_t weight = 1;
  std::uint32_t share = 100;  // percent of its weight that it gets now; 0: ejected
  bool is_removed = false;    // ejected because its probes fail
  bool is_backup = false;
  std::uint32_t in_flight = 0;  // requests that have not ended
  std::int64_t current = 0;     // the state of round robin
};

// The servers that a request can be sent to: those that it has not been sent to yet, without ejected servers and
// backups. If none is left, the backups that are not ejected; otherwise all servers that are not removed.
class Choice {
 public:
  // `tried`: ids of servers. Both arguments outlive this object.
  Choice(std::span<Candidate* const> all, std::span<const std::uint64_t> tried);

  // Smooth weighted round robin as in nginx: weights 3 and 1 give a a b a. This and the next two return null if no
  // server is left.
  [[nodiscard]] Candidate* round_robin() const;
  // Draws two servers by their weights and takes the one with fewer requests for its weight. `random`: the state of the
  // generator, not 0.
  [[nodiscard]] Candidate* least(std::uint64_t& random) const;
  // Weighted rendezvous hashing: every server gets a score for the key, and the highest score wins. So if a server is
  // removed or gets less weight, only its keys move; a new server only takes keys from others. Costs a hash and a
  // logarithm for each server.
  [[nodiscard]] Candidate* hash(std::uint64_t key) const;
  [[nodiscard]] bool may_be(const Candidate& one) const { return weight(one) != 0; }

 private:
  enum class Group : std::uint8_t { regular, backups, not_removed };

  [[nodiscard]] std::uint64_t weight(const Candidate& one) const;
  // The server whose part of the sum of all weights contains `place`; `skipped` has no part.
  [[nodiscard]] Candidate* at(std::uint64_t place, const Candidate* skipped) const;

  const std::span<Candidate* const> all_;
  const std::span<const std::uint64_t> tried_;
  std::uint64_t total_ = 0;  // of all weights
  Group group_{};
};

}  // namespace sluice::gateway
