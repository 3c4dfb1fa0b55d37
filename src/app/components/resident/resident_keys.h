#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/resident/resident.h"
#include "base/buffer.h"
#include "gateway/key_table.h"

namespace sluice::app {

// A resident table as policies use it: finds rows by their key. A look-up uses the version that was last published to
// the core.
class ResidentKeys final : public gateway::KeyTable {
 public:
  // Precondition: the table has a key.
  explicit ResidentKeys(std::shared_ptr<const api::resident::Resident> resident);

  [[nodiscard]] bool is_fresh() const override { return !resident_->is_stale(); }
  [[nodiscard]] bool find(std::string_view key, std::string& row) override;
  [[nodiscard]] bool contains(std::string_view key) override;
  [[nodiscard]] std::string_view version() const override { return resident_->current().state(); }

 private:
  // The id of the key in the table's index, or Dictionary::none.
  [[nodiscard]] std::uint32_t id_of(std::string_view key);

  const std::shared_ptr<const api::resident::Resident> resident_;
  std::string scratch_;
  Buffer json_;
};

}  // namespace sluice::app
