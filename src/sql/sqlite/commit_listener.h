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

// Commits of this process to a SQLite file, from the writer's thread to one core. What has been committed and not told
// of yet is one bit for each table that is listened for: commits that come faster than they are told of become one.
class CommitListener final : public ChangeListener {
 public:
  // `mailbox` outlives the writer, `writer` the listener.
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
  const std::shared_ptr<Post> post_;
};

}  // namespace sluice::sql
