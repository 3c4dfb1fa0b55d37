#include "app/components/resident/resident_keys.h"

#include <utility>

#include "api/resident/row_writer.h"
#include "api/resident/value.h"

namespace sluice::app {

using api::resident::Dictionary;
using api::resident::Key;

ResidentKeys::ResidentKeys(std::shared_ptr<const api::resident::Resident> resident) : resident_(std::move(resident)) {}

std::uint32_t ResidentKeys::id_of(std::string_view key) {
  const api::resident::Index& index = *resident_->current().key();
  Key asked;
  std::uint32_t id = Dictionary::none;
  if (make_asked_key(index.type(), key, scratch_, asked)) id = index.find(asked);
  if (id == Dictionary::none && make_asked_text_key(index.type(), key, scratch_, asked)) id = index.find(asked);
  return id;
}

bool ResidentKeys::contains(std::string_view key) { return id_of(key) != Dictionary::none; }

bool ResidentKeys::find(std::string_view key, std::string& row) {
  const std::uint32_t id = id_of(key);
  if (id == Dictionary::none) return false;
  const api::resident::Table& table = resident_->current();
  api::resident::RowWriter writer(
      table, {.format = sql::Format::json, .header = sql::Header::present, .object = true, .fields = {}});
  json_.clear();
  writer.begin(json_);
  writer.row(*table.key()->rows_of(id).begin(), json_);
  writer.end(json_);
  row = json_.view();
  return true;
}

}  // namespace sluice::app
