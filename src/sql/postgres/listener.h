#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
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
  // After this long without a message the server is sent a query; it must answer within the connect timeout.
  Duration silence = 15s;
  // The pause between two attempts to connect: it starts at `first_pause` and doubles up to `longest_pause`.
  Duration first_pause = 100ms;
  Duration longest_pause = 5s;
};

// LISTEN on a connection of its own, outside the pool. Notifications are passed to the sink before more are read, so a
// slow sink fills the server's queue and not our memory.
class Listener final : public ChangeListener {
 public:
  // Payloads have at most 8,000 bytes; the server's other messages are short too.
  static constexpr std::size_t message_limit = 1 << 20;
  // Maximum number of changes in one call of the sink.
  static constexpr std::size_t most_changes = 64;

  Listener(std::string name, core::Reactor& reactor, Options options, std::vector<Topic> topics, ChangeSink& sink,
           ListenerOptions timing = {});

  [[nodiscard]] core::Task<void> run() override;
  [[nodiscard]] Counters counters() const override { return counters_; }
  [[nodiscard]] core::Task<void> settle() override;

 private:
  void replace(std::size_t index, Topic topic) override {
    has_dropped_ = has_dropped_ || topic.channel.empty();
    ChangeListener::replace(index, std::move(topic));
    ++topics_made_;
  }
  // The SQL that makes the server send notifications for exactly the topics' channels. Empty if it already does.
  [[nodiscard]] std::string catch_up();
  // Runs one connection until it ends, and leaves the reason in why_.
  [[nodiscard]] core::Task<void> attempt();
  [[nodiscard]] core::Task<bool> send(std::string_view sql);
  // Reads and calls the sink until ReadyForQuery, or, if `forever`, until the connection ends. Returns false if it has
  // ended.
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
  std::vector<Change> changes_;  // received, not yet passed to the sink; their texts are views into `in_`
  std::string why_;
  // How many queries this connection has sent, and how many were answered; each answer signals answer_.
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  bool is_sending_ = false;
  core::Alarm answer_;
  std::uint64_t topics_made_ = 0;
  std::set<std::string> listened_;  // channels for which this connection has sent LISTEN
  bool has_dropped_ = false;        // since the last LISTEN was sent
  Counters counters_;
};

}  // namespace sluice::sql::postgres
