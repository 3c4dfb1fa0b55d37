#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_head.h"
#include "api/negotiation.h"
#include "api/refusals.h"
#include "api/resident/answer_cache.h"
#include "api/resident/delta.h"
#include "api/resident/options.h"
#include "api/resident/parallel_rows.h"
#include "api/resident/projections.h"
#include "api/resident/query.h"
#include "api/resident/row_writer.h"
#include "api/resident/selection.h"
#include "api/resident/table.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "sql/database.h"

namespace sluice::api::resident {

// How to query the changes since a version.
struct Changes {
  sql::Statement statement;
  ChangesShape shape;
};

// A prepared [[resident]]. Immutable, shared by all cores.
struct Plan {
  std::string name;
  TableShape shape;
  std::string cache_control;
  Duration stale_after{};  // 0 for never
  std::size_t cache = 0;   // bytes per core
  sql::Statement statement;
  Duration timeout{};
  std::optional<Changes> changes;
};

// The state of a table that is sent to each core.
struct TableVersion {
  std::shared_ptr<const Table> table;
  Instant checked{};     // when the database last confirmed this content
  bool failing = false;  // the last attempt to ask the database failed
};

// One core's view of a resident table: the current version and the cached answers. A request in progress keeps the
// version with which it began.
class Resident {
 public:
  // All arguments outlive this; `version` has a table. With a mesh, other cores help to encode long answers of packed
  // rows.
  Resident(std::shared_ptr<const Plan> plan, TableVersion version, core::Reactor& reactor, core::Mailbox& mailbox,
           core::BlockingPool& threads, core::MeshPort* mesh = nullptr);

  void publish(const TableVersion& version);
  // Calls `each` with every owner that keeps the table alive for answers being sent: http::owner_of() of their bodies.
  template <class Each>
  void each_owner_of(const Table* table, Each each) const {
    for (const auto& version : retired_) {
      if (const auto kept = version.lock(); kept && kept->table.get() == table) each(kept.get());
    }
  }

  // `/NAME`
  [[nodiscard]] core::Async<http::Response> list(http::Request& request);
  // `/NAME/KEY`
  [[nodiscard]] core::Async<http::Response> find(http::Request& request);

  struct Counters {
    AnswerCache::Counters answers;
    std::uint64_t rows_bytes = 0;        // of cached encoded rows
    std::uint64_t chunks_elsewhere = 0;  // of long answers, encoded by other cores for this one

    [[nodiscard]] Readings readings() const;
  };
  [[nodiscard]] Counters counters() const {
    return {.answers = cache_.counters(),
            .rows_bytes = projections_.bytes(),
            .chunks_elsewhere = helpers_ ? helpers_->chunks() : 0};
  }
  // Chunks kept for answers that are being sent.
  [[nodiscard]] std::size_t chunks_ahead() const { return helpers_ ? helpers_->ahead() : 0; }
  [[nodiscard]] std::shared_ptr<const Table> table() const { return version_->table; }
  // Valid until the next publish().
  [[nodiscard]] const Table& current() const { return *version_->table; }
  // Whether the last confirmation is older than `stale_after`.
  [[nodiscard]] bool is_stale() const;
  [[nodiscard]] const Plan& plan() const { return *plan_; }

 private:
  using Tags = std::array<std::string, 8>;  // by format, with or without a header line
  // The table with its ETags. Each core has its own reference count, because requests on several cores would contend
  // for a shared one. Answers that contain no bytes of the table hold only the tags, so the table can be freed while
  // they are sent.
  struct Version {
    std::shared_ptr<const Table> table;
    std::shared_ptr<const Tags> tags;
  };
  class RowsBody;

  [[nodiscard]] static http::Response too_old();
  [[nodiscard]] std::uint32_t id_of(std::string_view text);
  [[nodiscard]] static const std::string& tag_of(const Version& version, const Preference& preference) {
    return (
        *version.tags)[static_cast<std::size_t>(preference.format) * 2 + static_cast<std::size_t>(preference.header)];
  }
  // Evaluates the request's conditions. Returns nullopt if the full answer is to be sent.
  [[nodiscard]] std::optional<http::Response> judge(const http::Request& request, const Preference& preference) const;
  [[nodiscard]] AnswerHead head_of(const Preference& preference) const;
  void fill_head(http::Response& response, const Preference& preference, const Version& version) const;
  // `key`: the key for the cache. The task begins when it is awaited. It holds no version before that, because the
  // client may first have to read the answers to its earlier requests.
  core::Task<http::Response> select_elsewhere(Preference preference, std::string key);
  // The rows as views into the table, without copying.
  [[nodiscard]] static http::SharedSpans pieces(const Selection& selection, sql::Format format,
                                                const std::shared_ptr<const Version>& version);
  [[nodiscard]] http::Response answer(const Preference& preference, Query query, Selection selection,
                                      std::string_view key, const std::shared_ptr<const Version>& version);

  const std::shared_ptr<const Plan> plan_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<const Version> version_;
  std::vector<std::weak_ptr<const Version>> retired_;  // a few, which answers may still use
  Instant checked_{};
  bool failing_ = false;
  AnswerCache cache_;
  Projections projections_;
  std::string key_;                   // key of the current cache lookup
  std::shared_ptr<Helpers> helpers_;  // null without other cores; shared with the answers
};

class ListHandler final : public http::Handler {
 public:
  explicit ListHandler(Resident& resident) : resident_(resident) {}
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override {
    if (exchange.request.body != nullptr) [[unlikely]]
      return handle_without_body(exchange, *this);
    return resident_.list(exchange.request);
  }

 private:
  Resident& resident_;
};
class FindHandler final : public http::Handler {
 public:
  explicit FindHandler(Resident& resident) : resident_(resident) {}
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override {
    if (exchange.request.body != nullptr) [[unlikely]]
      return handle_without_body(exchange, *this);
    return resident_.find(exchange.request);
  }

 private:
  Resident& resident_;
};

}  // namespace sluice::api::resident
