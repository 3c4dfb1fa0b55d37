#include "app/routes/endpoint/choose_store.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "app/config/text.h"

namespace sluice::app::config {
namespace {

void choose_store(const Options& options, Located<std::string>& store, Position position, const Complain& complain) {
  std::vector<std::string_view> names;
  for (const auto& one : options.stores) names.push_back(one.name.value);
  const std::string& wanted = store.value;
  if (!wanted.empty() && std::ranges::find(names, wanted) == names.end()) {
    complain(store.position, fmt::format("there is no [store.{}]", wanted), did_you_mean(wanted, names));
  } else if (wanted.empty() && names.empty()) {
    complain(position, "a file needs a store", "add [store.NAME]");
  } else if (wanted.empty() && names.size() > 1) {
    complain(position, "this must say which store the file is in", fmt::format("add store = \"{}\"", names[0]));
  } else if (wanted.empty()) {
    store.value = names[0];
  }
}

void choose_store_of(const Options& options, api::ParamOptions& param, const Complain& complain) {
  const auto source = source_of(param);
  const bool is_hash = source && source->from == api::From::upload && source->field == api::UploadField::hash;
  // If the whole body is the file, "upload.type" is a property of it. Whether it is, is known only with all sources.
  const bool may_be_property = is_hash && (source->key == "type" || source->key == "size");
  if (may_be_property && param.store.value.empty() && options.stores.size() > 1) return;
  if (is_hash) {
    choose_store(options, param.store, param.from->position, complain);
  } else if (!param.store.value.empty()) {
    complain(param.store.position, "\"store\" is for a file: from = \"upload.NAME\"");
  }
}

}  // namespace

std::optional<api::SourceName> source_of(const api::ParamOptions& options) {
  if (!options.from) return {};
  auto source = api::parse_source(options.from->value);
  return source ? std::optional(std::move(*source)) : std::nullopt;
}

void choose_stores(const Options& options, api::EndpointOptions& endpoint, const Complain& complain) {
  if (endpoint.returns == api::Returns::file) {
    choose_store(options, endpoint.store, endpoint.position, complain);
    if (endpoint.get.value.empty()) {
      complain(endpoint.position, "\"returns = \\\"file\\\"\" is for \"get\", which is not there");
    }
  } else if (!endpoint.store.value.empty()) {
    complain(endpoint.store.position, "\"store\" is for \"returns = \\\"file\\\"\"");
  }
  for (auto& parameter : endpoint.params) choose_store_of(options, parameter.value, complain);
  for (auto* method : {&endpoint.post, &endpoint.put, &endpoint.patch, &endpoint.delete_}) {
    if (!*method) continue;
    for (auto& column : (*method)->columns) choose_store_of(options, column.value, complain);
  }
}

}  // namespace sluice::app::config
