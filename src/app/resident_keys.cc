#include "app/resident_keys.h"

#include <utility>

#include "api/resident/row_writer.h"
#include "api/resident/value.h"

namespace sluice::app {

using api::resident::Dictionary;
using api::resident::Key;

ResidentKeys::ResidentKeys(std::shared_ptr<const api::resident::Resident> resident) : resident_(std::move(resident)) {}

bool ResidentKeys::find(std::string_view digest, std::string& row) {
  const api::resident::Table& table = resident_->current();
  const api::resident::Index& index = *table.key();
  Key key;
  std::uint32_t id = Dictionary::none;
  if (make_asked_key(index.type(), digest, scratch_, key)) id = index.find(key);
  if (id == Dictionary::none && make_asked_text_key(index.type(), digest, scratch_, key)) id = index.find(key);
  if (id == Dictionary::none) return false;
  api::resident::RowWriter writer(
      table, {.format = sql::Format::json, .header = sql::Header::present, .object = true, .fields = {}});
  json_.clear();
  writer.begin(json_);
  writer.row(*index.rows_of(id).begin(), json_);
  writer.end(json_);
  row = json_.view();
  return true;
}

}  // namespace sluice::app
