#include "sql/changes.h"

#include <utility>

#include "sql/open_shared.h"
#include "sql/postgres/listener.h"
#include "sql/postgres/url.h"
#include "sql/sqlite/commit_listener.h"

namespace sluice::sql {

std::size_t ChangeListener::add(Topic topic) {
  std::size_t index = 0;
  while (index < known_.size() && !(known_[index] == topic && topics_[index] == Topic{})) ++index;
  if (index == known_.size()) {
    known_.push_back(topic);
    topics_.emplace_back();
  }
  replace(index, std::move(topic));
  return index;
}

Result<std::unique_ptr<ChangeListener>> listen_for_changes(const std::string& name, const DatabaseOptions& options,
                                                           core::Reactor& reactor, core::Mailbox& mailbox,
                                                           SharedDatabase* shared, std::vector<Topic> topics,
                                                           ChangeSink& sink) {
  if (options.is_sqlite()) {
    if (shared == nullptr) {
      return std::unexpected(Error{Failure::statement, {}, "nothing of this process writes to the file"});
    }
    SqliteWriter& writer = *static_cast<SharedSqlite*>(shared)->writer;
    return std::make_unique<CommitListener>(writer, mailbox, std::move(topics), sink);
  }
  auto parsed = postgres::options_from_url(options.url.value, options.folder);
  if (!parsed) return std::unexpected(Error{Failure::statement, {}, parsed.error(), 0});
  if (shared != nullptr) parsed->resolver = &static_cast<SharedPostgres*>(shared)->resolver;
  parsed->mailbox = &mailbox;
  return std::make_unique<postgres::Listener>(name, reactor, std::move(*parsed), std::move(topics), sink);
}

}  // namespace sluice::sql
