#pragma once

#include <coroutine>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/mailbox.h"
#include "core/task.h"
#include "sql/changes.h"
#include "sql/sqlite/writer.h"

namespace sluice::sql {

// Passes this process's commits to a SQLite file from its writers' threads to one core. Pending changes are one bit for
// each table that is listened for, so commits that come faster than they are reported are merged.
class CommitListener final : public ChangeListener {
 public:
  // `mailbox` outlives the file's writers. All writers that share the observers of `writer` report their commits.
  CommitListener(SqliteWriter& writer, core::Mailbox& mailbox, std::vector<Topic> topics, ChangeSink& sink);
  ~CommitListener() override;

  [[nodiscard]] core::Task<void> run() override;
  [[nodiscard]] core::Task<void> settle() override { co_return; }
  [[nodiscard]] Counters counters() const override { return {.connections = 0, .listening = true}; }

 private:
  class Post;
  class Wait;

  void replace(std::size_t index, Topic topic) override;

  ChangeSink& sink_;
  const std::shared_ptr<CommitObservers> observers_;
  const std::shared_ptr<Post> post_;
};

}  // namespace sluice::sql
