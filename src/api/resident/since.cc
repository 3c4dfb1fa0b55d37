#include "api/resident/since.h"

#include "base/assert.h"

namespace sluice::api::resident {

bool Since::note(const ValueType& type, const sql::Field& field) {
  if (field.is_null()) return true;
  Key key;
  if (!make_key(type, field, scratch_, key)) return false;
  if (known_ && (is_fixed(type.kind) ? key.number <= number_ : key.bytes <= bytes_)) return true;
  known_ = true;
  is_number_ = field.form == sql::Form::number;
  text_ = field.view();
  number_ = key.number;
  bytes_ = key.bytes;
  return true;
}

sql::Argument Since::argument() const {
  SLUICE_ASSERT(known_);
  // SQLite compares numbers only with numbers. PostgreSQL knows the parameter's type.
  auto type = sql::ParameterType::text;
  if (is_number_) {
    type =
        text_.find_first_not_of("+-0123456789") == text_.npos ? sql::ParameterType::integer : sql::ParameterType::real;
  }
  return {.text = text_, .type = type};
}

}  // namespace sluice::api::resident
