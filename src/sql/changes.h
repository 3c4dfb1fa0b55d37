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

// What a database tells of by itself: NOTIFY of PostgreSQL, commits of this process to SQLite.
namespace sluice::sql {

// What is listened for: one of the two; neither: nothing.
struct Topic {
  bool operator==(const Topic&) const = default;

  std::string channel;              // PostgreSQL: of NOTIFY
  std::vector<std::string> tables;  // SQLite: commits that changed one of them
};

struct Change {
  std::size_t topic = 0;  // its index
  // PostgreSQL: the payload of NOTIFY, as it came. SQLite: `{"tables":["films"]}`, those of the topic that a commit has
  // changed, or several commits that came close together.
  std::string_view text;
};

// Who is told. He is not told of more before he has taken what he was told of.
class ChangeSink {
 public:
  virtual ~ChangeSink() = default;
  // In the order in which they were committed. The views last until the task is done.
  [[nodiscard]] virtual core::Task<void> changed(std::span<const Change> changes) = 0;
  // From here on all changes are told of; of those before, back to the last one that was, some may not have been.
  [[nodiscard]] virtual core::Task<void> resumed() = 0;
};

// Listens for the changes of one database, for the whole process, on one core. With PostgreSQL it has one connection of
// its own, which it opens again and again; with SQLite none.
class ChangeListener {
 public:
  struct Counters {
    std::uint64_t connections = 0;  // that were opened and listened on
    bool listening = false;
  };

  virtual ~ChangeListener() = default;
  // Listens until it is destroyed. Once.
  [[nodiscard]] virtual core::Task<void> run() = 0;
  [[nodiscard]] virtual Counters counters() const = 0;
  // Listens for one more, whose index it returns: a new one, or that of an equal one which was dropped.
  [[nodiscard]] std::size_t add(Topic topic);
  // The sink hears nothing of it from now on.
  void drop(std::size_t topic) { replace(topic, {}); }
  // Until all that was added is listened for, or the connection is lost: what comes after that tells of resumed(). One
  // at a time.
  [[nodiscard]] virtual core::Task<void> settle() = 0;

 protected:
  explicit ChangeListener(std::vector<Topic> topics) : topics_(std::move(topics)), known_(topics_) {}
  [[nodiscard]] const std::vector<Topic>& topics() const { return topics_; }
  virtual void replace(std::size_t index, Topic topic) { topics_[index] = std::move(topic); }

 private:
  std::vector<Topic> topics_;  // those that were dropped are empty
  std::vector<Topic> known_;   // those too
};

// `sink` and `shared` outlive it; `shared` may be null for PostgreSQL. `name` of the database is for the log.
[[nodiscard]] Result<std::unique_ptr<ChangeListener>> listen_for_changes(const std::string& name,
                                                                         const DatabaseOptions& options,
                                                                         core::Reactor& reactor, core::Mailbox& mailbox,
                                                                         SharedDatabase* shared,
                                                                         std::vector<Topic> topics, ChangeSink& sink);

}  // namespace sluice::sql
