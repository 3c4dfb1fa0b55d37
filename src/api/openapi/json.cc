#include "api/openapi/json.h"

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api::openapi {

struct Json::Writer {
  Buffer& out;

  void operator()(std::nullptr_t) const { out.append("null"); }
  void operator()(bool value) const { out.append(value ? "true" : "false"); }
  void operator()(std::int64_t number) const { out.append(std::to_string(number)); }
  void operator()(const std::string& text) const {
    out.push_back('"');
    append_json_escaped(out, text);
    out.push_back('"');
  }
  void operator()(const Raw& raw) const { out.append(raw.text); }
  void operator()(const Json& json) const { std::visit(*this, json.value_); }
  void operator()(const Member& member) const {
    (*this)(member.first);
    out.push_back(':');
    (*this)(member.second);
  }
  void operator()(const Array& array) const { list('[', array, ']'); }
  void operator()(const Object& object) const { list('{', object, '}'); }

  void list(char open, const auto& all, char close) const {
    out.push_back(open);
    for (const auto& one : all) {
      if (&one != &all.front()) out.push_back(',');
      (*this)(one);
    }
    out.push_back(close);
  }
};

std::string Json::text() const {
  Buffer out;
  Writer{out}(*this);
  return std::string(out.view());
}

}  // namespace sluice::api::openapi
