#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/open.h"
#include "sql/options.h"

// Change notifications from a database: NOTIFY of PostgreSQL, commits of this process to SQLite.
namespace sluice::sql {

// A source of changes: a channel or a set of tables. If both are empty, the topic has no changes.
struct Topic {
  bool operator==(const Topic&) const = default;

  std::string channel;              // PostgreSQL: the channel of NOTIFY
  std::vector<std::string> tables;  // SQLite: commits that changed one of these tables
};

struct Change {
  std::size_t topic = 0;  // index of the topic
  // PostgreSQL: the payload of NOTIFY, unchanged. SQLite: `{"tables":["films"]}`, the topic's tables that one commit,
  // or several commits in quick succession, have changed.
  std::string_view text;
};

// Receives changes. The next call comes only after the previous one has completed.
class ChangeSink {
 public:
  virtual ~ChangeSink() = default;
  // Changes come in commit order. The views last until the task is done.
  [[nodiscard]] virtual core::Task<void> changed(std::span<const Change> changes) = 0;
  // From now on every change is reported. Changes between the last reported one and this call may have been missed.
  [[nodiscard]] virtual core::Task<void> resumed() = 0;
};

// Listens for the changes of one database, for the whole process, on one core. With PostgreSQL it has one connection of
// its own and reconnects when that is lost; with SQLite it needs no connection.
class ChangeListener {
 public:
  struct Counters {
    std::uint64_t connections = 0;  // connections opened with LISTEN in effect
    bool listening = false;
  };

  virtual ~ChangeListener() = default;
  // Listens until the listener is destroyed. Called once.
  [[nodiscard]] virtual core::Task<void> run() = 0;
  [[nodiscard]] virtual Counters counters() const = 0;
  // Adds a topic and returns its index: a new one, or the index of an equal topic that was dropped.
  [[nodiscard]] std::size_t add(Topic topic);
  // The sink receives no more changes of this topic.
  void drop(std::size_t topic) { replace(topic, {}); }
  // Waits until all added topics are listened for, or until the connection is lost; in that case resumed() follows
  // after the reconnect. One call at a time.
  [[nodiscard]] virtual core::Task<void> settle() = 0;

 protected:
  explicit ChangeListener(std::vector<Topic> topics) : topics_(std::move(topics)), known_(topics_) {}
  [[nodiscard]] const std::vector<Topic>& topics() const { return topics_; }
  virtual void replace(std::size_t index, Topic topic) { topics_[index] = std::move(topic); }

 private:
  std::vector<Topic> topics_;  // dropped topics are empty
  std::vector<Topic> known_;   // includes the dropped topics
};

// `sink` and `shared` outlive the listener; `shared` may be null for PostgreSQL. `name` is the database's name in logs.
[[nodiscard]] Result<std::unique_ptr<ChangeListener>> listen_for_changes(const std::string& name,
                                                                         const DatabaseOptions& options,
                                                                         core::Reactor& reactor, core::Mailbox& mailbox,
                                                                         SharedDatabase* shared,
                                                                         std::vector<Topic> topics, ChangeSink& sink);

}  // namespace sluice::sql
