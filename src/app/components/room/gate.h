#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/failures.h"
#include "app/components/room/room.h"
#include "core/task.h"
#include "rooms/door.h"
#include "sql/database.h"

namespace sluice::app {

// `require` of one [[room]], on one core.
class RoomGate final : public rooms::Gate {
 public:
  RoomGate(std::shared_ptr<const RoomComponent::Prepared> prepared, std::shared_ptr<sql::Database> database,
           core::Reactor& reactor, TroubleLog& trouble);

  [[nodiscard]] core::Task<std::optional<http::Response>> ask(http::Exchange& exchange) override;
  [[nodiscard]] core::Task<std::optional<std::vector<bool>>> judge(
      const rooms::SharedName& room, std::span<const std::shared_ptr<const http::Claims>> claims) override;

 private:
  using Claims = std::span<const std::shared_ptr<const http::Claims>>;
  // For whom the query holds; nothing if the database cannot say.
  [[nodiscard]] core::Task<std::optional<std::vector<bool>>> ask_for_all(const RoomComponent::Question& question,
                                                                         const rooms::Name& room, Claims claims);

  const std::shared_ptr<const RoomComponent::Prepared> prepared_;
  const std::shared_ptr<sql::Database> database_;
  core::Reactor& reactor_;
  TroubleLog& trouble_;
  const api::Failures failures_;
};

}  // namespace sluice::app
