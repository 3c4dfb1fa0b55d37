#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/source.h"
#include "core/task.h"
#include "http/blob.h"
#include "http/request.h"
#include "http/response.h"

// Files that a request uploads into stores.
namespace sluice::api {

inline constexpr std::size_t most_field_bytes = 1 << 20;

// The files that one method accepts. Created at start, immutable.
struct UploadPlan {
  struct File {
    std::string part;   // of a multipart/form-data body; "": the body itself
    std::string store;  // the store's name
    bool required = false;
    std::vector<std::string> types;  // accepted by the store, for messages and the API description; empty for all
  };
  std::vector<File> files;
  bool whole = false;                          // the whole body is the only file
  std::string fault;                           // what is wrong in the configuration; empty if nothing is
  std::size_t field_bytes = most_field_bytes;  // limit of all names and values of the other parts, as received

  [[nodiscard]] bool empty() const { return files.empty(); }
};

// Numbers the files that `sources` take values from, stores each number in its source, and returns the files.
// `has_fields`: there are also sources that take fields of the body.
[[nodiscard]] UploadPlan plan_uploads(std::span<Source* const> sources, bool has_fields);

// The content of a request's body.
struct Received {
  std::vector<Upload> uploads;  // by UploadPlan::files
  std::string fields;           // the other parts, as application/x-www-form-urlencoded
  bool has_fields = false;
};

// Reads the body and writes its files to their stores as they arrive. All files are stored when it returns. An error is
// the answer. If the whole body is the file and Content-Length is 0, the file is empty. `stores`: in the order of
// UploadPlan::files.
[[nodiscard]] core::Task<std::expected<Received, http::Response>> receive_uploads(
    const http::Request& request, const UploadPlan& plan, std::span<http::BlobStore* const> stores);

}  // namespace sluice::api
