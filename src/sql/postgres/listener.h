#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/log.h"
#include "core/alarm.h"
#include "core/reactor.h"
#include "core/task.h"
#include "net/stream.h"
#include "sql/changes.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

struct ListenerOptions {
  // After so long a silence the server is asked for a sign of life, and has as long as a connection may take.
  Duration silence = 15s;
  // Between two attempts to connect: the first pause, and what it doubles up to.
  Duration first_pause = 100ms;
  Duration longest_pause = 5s;
};

// LISTEN on one connection of its own, beside the pool's. The sink is told of what arrives before more is read, so a
// slow one holds up the server's queue and no memory of ours.
class Listener final : public ChangeListener {
 public:
  // Payloads have at most 8,000 bytes; what else a server may send meanwhile is short too.
  static constexpr std::size_t message_limit = 1 << 20;
  // Told of in one call, at most.
  static constexpr std::size_t most_changes = 64;

  Listener(std::string name, core::Reactor& reactor, Options options, std::vector<Topic> topics, ChangeSink& sink,
           ListenerOptions timing = {});

  [[nodiscard]] core::Task<void> run() override;
  [[nodiscard]] Counters counters() const override { return counters_; }
  [[nodiscard]] core::Task<void> settle() override;

 private:
  void replace(std::size_t index, Topic topic) override {
    ChangeListener::replace(index, std::move(topic));
    ++topics_made_;
  }
  // One life of the connection; ends when it does. What went wrong is in why_.
  [[nodiscard]] core::Task<void> attempt();
  [[nodiscard]] core::Task<bool> send(std::string_view sql);
  // Reads, and tells the sink, until ReadyForQuery (or, `forever`, until the connection ends). False: it has ended.
  [[nodiscard]] core::Task<bool> read(bool forever);
  void take(const Notification& notification);
  [[nodiscard]] core::Task<void> tell();

  const std::string name_;
  core::Reactor& reactor_;
  const Options options_;
  ChangeSink& sink_;
  const ListenerOptions timing_;
  TroubleLog trouble_;
  net::tls::CoreState tls_;
  net::Stream stream_;
  Buffer in_;
  std::vector<Change> changes_;  // arrived, and not told of; their texts lie in `in_`
  std::string why_;
  // Queries that this connection has sent, and that were answered; each answer rings answer_.
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  bool is_sending_ = false;
  core::Alarm answer_;
  std::uint64_t topics_made_ = 0;
  Counters counters_;
};

}  // namespace sluice::sql::postgres
