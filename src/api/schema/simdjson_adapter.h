#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <simdjson.h>
#include <valijson/internal/adapter.hpp>
#include <valijson/internal/basic_adapter.hpp>
#include <valijson/internal/frozen_value.hpp>
#include <valijson/internal/optional.hpp>

// valijson's view of schemas: simdjson's elements, whose parser outlives all of this. valijson's templates require
// these names.
namespace sluice::api::schema {

class SchemaAdapter;
using SchemaMember = std::pair<std::string, SchemaAdapter>;

// Elements with iterators that can be advanced at random, unlike those of simdjson.
class SchemaArray {
 public:
  class const_iterator;
  using iterator = const_iterator;

  SchemaArray() = default;
  explicit SchemaArray(simdjson::dom::array array) {
    for (const simdjson::dom::element element : array) items_->push_back(element);
  }
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const;
  [[nodiscard]] std::size_t size() const { return items_->size(); }

 private:
  using Items = std::vector<simdjson::dom::element>;
  std::shared_ptr<Items> items_ = std::make_shared<Items>();
};

class SchemaObject {
 public:
  class const_iterator;
  using iterator = const_iterator;

  SchemaObject() = default;
  explicit SchemaObject(simdjson::dom::object object) {
    for (const auto& [key, value] : object) items_->emplace_back(std::string(key), value);
  }
  [[nodiscard]] const_iterator begin() const;
  [[nodiscard]] const_iterator end() const;
  [[nodiscard]] const_iterator find(const std::string& name) const;
  [[nodiscard]] std::size_t size() const { return items_->size(); }

 private:
  using Items = std::vector<std::pair<std::string, simdjson::dom::element>>;
  std::shared_ptr<Items> items_ = std::make_shared<Items>();
};

// A value of `enum` or `const`.
class SchemaConstant final : public valijson::adapters::FrozenValue {
 public:
  explicit SchemaConstant(simdjson::dom::element element) : element_(element) {}
  [[nodiscard]] FrozenValue* clone() const override { return new SchemaConstant(element_); }
  [[nodiscard]] bool equalTo(const valijson::adapters::Adapter& other, bool strict) const override;
  [[nodiscard]] simdjson::dom::element element() const { return element_; }

 private:
  simdjson::dom::element element_;
};

class SchemaValue {
 public:
  SchemaValue() = default;  // null
  explicit SchemaValue(simdjson::dom::element element) : element_(element) {}

  [[nodiscard]] valijson::adapters::FrozenValue* freeze() const { return new SchemaConstant(element_.value()); }
  [[nodiscard]] opt::optional<SchemaArray> getArrayOptional() const {
    if (simdjson::dom::array array; get(array)) return SchemaArray(array);
    return {};
  }
  [[nodiscard]] opt::optional<SchemaObject> getObjectOptional() const {
    if (simdjson::dom::object object; get(object)) return SchemaObject(object);
    return {};
  }
  [[nodiscard]] bool getArraySize(std::size_t& size) const {
    simdjson::dom::array array;
    if (!get(array)) return false;
    size = SchemaArray(array).size();
    return true;
  }
  [[nodiscard]] bool getObjectSize(std::size_t& size) const {
    simdjson::dom::object object;
    if (!get(object)) return false;
    size = SchemaObject(object).size();
    return true;
  }
  [[nodiscard]] bool getBool(bool& value) const { return get(value); }
  [[nodiscard]] bool getDouble(double& value) const { return isNumber() && get(value); }
  [[nodiscard]] bool getInteger(std::int64_t& value) const { return get(value); }
  [[nodiscard]] bool getString(std::string& value) const {
    std::string_view text;
    if (!get(text)) return false;
    value = text;
    return true;
  }
  [[nodiscard]] static bool hasStrictTypes() { return true; }
  [[nodiscard]] bool isArray() const { return element_ && element_->is_array(); }
  [[nodiscard]] bool isBool() const { return element_ && element_->is_bool(); }
  [[nodiscard]] bool isDouble() const { return isNumber() && !isInteger(); }
  [[nodiscard]] bool isInteger() const { return element_ && element_->is_int64(); }
  [[nodiscard]] bool isNull() const { return !element_ || element_->is_null(); }
  [[nodiscard]] bool isNumber() const { return element_ && element_->is_number(); }
  [[nodiscard]] bool isObject() const { return element_ && element_->is_object(); }
  [[nodiscard]] bool isString() const { return element_ && element_->is_string(); }

 private:
  template <class T>
  [[nodiscard]] bool get(T& value) const {
    return element_ && element_->get(value) == simdjson::SUCCESS;
  }

  std::optional<simdjson::dom::element> element_;
};

class SchemaAdapter final
    : public valijson::adapters::BasicAdapter<SchemaAdapter, SchemaArray, SchemaMember, SchemaObject, SchemaValue> {
 public:
  SchemaAdapter() = default;
  SchemaAdapter(simdjson::dom::element element) : BasicAdapter(SchemaValue(element)) {}
};

class SchemaArray::const_iterator {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = SchemaAdapter;
  using difference_type = std::ptrdiff_t;
  using pointer = SchemaAdapter*;
  using reference = SchemaAdapter&;

  const_iterator(std::shared_ptr<Items> items, std::size_t at) : items_(std::move(items)), at_(at) {}
  SchemaAdapter operator*() const { return {(*items_)[at_]}; }
  valijson::adapters::DerefProxy<SchemaAdapter> operator->() const {
    return valijson::adapters::DerefProxy<SchemaAdapter>(**this);
  }
  bool operator==(const const_iterator& other) const { return at_ == other.at_; }
  const_iterator& operator++() {
    ++at_;
    return *this;
  }
  const_iterator operator++(int) {
    const_iterator before(*this);
    ++at_;
    return before;
  }
  const_iterator& operator--() {
    --at_;
    return *this;
  }
  void advance(std::ptrdiff_t count) { at_ += static_cast<std::size_t>(count); }

 private:
  std::shared_ptr<Items> items_;
  std::size_t at_;
};

class SchemaObject::const_iterator {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = SchemaMember;
  using difference_type = std::ptrdiff_t;
  using pointer = SchemaMember*;
  using reference = SchemaMember&;

  const_iterator(std::shared_ptr<Items> items, std::size_t at) : items_(std::move(items)), at_(at) {}
  SchemaMember operator*() const { return {(*items_)[at_].first, SchemaAdapter((*items_)[at_].second)}; }
  valijson::adapters::DerefProxy<SchemaMember> operator->() const {
    return valijson::adapters::DerefProxy<SchemaMember>(**this);
  }
  bool operator==(const const_iterator& other) const { return at_ == other.at_; }
  const_iterator& operator++() {
    ++at_;
    return *this;
  }
  const_iterator operator++(int) {
    const_iterator before(*this);
    ++at_;
    return before;
  }
  const_iterator& operator--() {
    --at_;
    return *this;
  }

 private:
  std::shared_ptr<Items> items_;
  std::size_t at_;
};

inline SchemaArray::const_iterator SchemaArray::begin() const { return {items_, 0}; }
inline SchemaArray::const_iterator SchemaArray::end() const { return {items_, items_->size()}; }
inline SchemaObject::const_iterator SchemaObject::begin() const { return {items_, 0}; }
inline SchemaObject::const_iterator SchemaObject::end() const { return {items_, items_->size()}; }
inline SchemaObject::const_iterator SchemaObject::find(const std::string& name) const {
  std::size_t at = 0;
  while (at != items_->size() && (*items_)[at].first != name) ++at;
  return {items_, at};
}
inline bool SchemaConstant::equalTo(const valijson::adapters::Adapter& other, bool strict) const {
  return SchemaAdapter(element_).equalTo(other, strict);
}

}  // namespace sluice::api::schema

template <>
struct valijson::adapters::AdapterTraits<sluice::api::schema::SchemaAdapter> {
  using DocumentType = simdjson::dom::element;
  static std::string adapterName() { return "simdjson"; }
};
