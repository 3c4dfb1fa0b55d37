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

// What has changed since a version.
struct Changes {
  sql::Statement statement;
  ChangesShape shape;
};

// A [[resident]] made ready. Immutable, shared by all cores.
struct Plan {
  std::string name;
  TableShape shape;
  std::string cache_control;
  Duration stale_after{};  // 0: never
  std::size_t cache = 0;   // bytes of each core
  sql::Statement statement;
  Duration timeout{};
  std::optional<Changes> changes;
};

// What is told to each core about a table.
struct Edition {
  std::shared_ptr<const Table> table;
  Instant checked{};     // when the database last said that this is how it is
  bool failing = false;  // it could not be asked since
};

// One core's view of a resident table: the version that it answers with, and the answers it keeps. Requests that have
// begun keep the version that they began with.
class Resident {
 public:
  // All outlive it; `edition` has a table. With a mesh other cores help to encode long answers of packed rows.
  Resident(std::shared_ptr<const Plan> plan, Edition edition, core::Reactor& reactor, core::Mailbox& mailbox,
           core::BlockingPool& threads, core::MeshPort* mesh = nullptr);

  void publish(const Edition& edition);
  // Calls `each` with what keeps the table alive for answers that are being sent: http::owner_of() of their bodies.
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
    std::uint64_t rows_bytes = 0;        // of rows that are kept as answers have them
    std::uint64_t chunks_elsewhere = 0;  // of long answers, that other cores have encoded for this one

    [[nodiscard]] Readings readings() const;
  };
  [[nodiscard]] Counters counters() const {
    return {.answers = cache_.counters(),
            .rows_bytes = projections_.bytes(),
            .chunks_elsewhere = helpers_ ? helpers_->chunks() : 0};
  }
  // Chunks that are kept for answers that are being sent.
  [[nodiscard]] std::size_t chunks_ahead() const { return helpers_ ? helpers_->ahead() : 0; }
  [[nodiscard]] std::shared_ptr<const Table> table() const { return version_->table; }
  [[nodiscard]] const Plan& plan() const { return *plan_; }

 private:
  using Tags = std::array<std::string, 8>;  // by format, with a header line or without
  // The table with what answers say of it. Its count of owners is this core's own: requests of several cores would
  // fight for one. Answers that are made of no bytes of the table have the tags alone, and it can go before them.
  struct Version {
    std::shared_ptr<const Table> table;
    std::shared_ptr<const Tags> tags;
  };
  class RowsBody;

  [[nodiscard]] bool is_stale() const;
  [[nodiscard]] static http::Response too_old();
  [[nodiscard]] std::uint32_t id_of(std::string_view text);
  [[nodiscard]] static const std::string& tag_of(const Version& version, const Wish& wish) {
    return (*version.tags)[static_cast<std::size_t>(wish.format) * 2 + static_cast<std::size_t>(wish.header)];
  }
  // What the request's conditions ask for; nothing: the answer.
  [[nodiscard]] std::optional<http::Response> judge(const http::Request& request, const Wish& wish) const;
  [[nodiscard]] AnswerHead head_of(const Wish& wish) const;
  void fill_head(http::Response& response, const Wish& wish, const Version& version) const;
  // `key`: of the cache. It begins when it is awaited, and holds no version before: that may be when the client has
  // taken the answers to the requests before.
  core::Task<http::Response> select_elsewhere(Wish wish, std::string key);
  // The rows as they lie in the table: nothing is copied.
  [[nodiscard]] static http::SharedSpans pieces(const Selection& selection, sql::Format format,
                                                const std::shared_ptr<const Version>& version);
  [[nodiscard]] http::Response answer(const Wish& wish, Query query, Selection selection, std::string_view key,
                                      const std::shared_ptr<const Version>& version);

  const std::shared_ptr<const Plan> plan_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<const Version> version_;
  std::vector<std::weak_ptr<const Version>> retired_;  // a few, which answers may still be made of
  Instant checked_{};
  bool failing_ = false;
  AnswerCache cache_;
  Projections projections_;
  std::string key_;                   // of the cache, while one is looked for
  std::shared_ptr<Helpers> helpers_;  // null: nobody is there to help; shared with the answers
};

// The handlers of the two routes.
class ListHandler final : public http::Handler {
 public:
  explicit ListHandler(Resident& resident) : resident_(resident) {}
  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override {
    if (request.body != nullptr) [[unlikely]]
      return handle_without_body(request, *this);
    return resident_.list(request);
  }

 private:
  Resident& resident_;
};
class FindHandler final : public http::Handler {
 public:
  explicit FindHandler(Resident& resident) : resident_(resident) {}
  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override {
    if (request.body != nullptr) [[unlikely]]
      return handle_without_body(request, *this);
    return resident_.find(request);
  }

 private:
  Resident& resident_;
};

}  // namespace sluice::api::resident
