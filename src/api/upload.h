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

// Files that come with a request, on their way into stores.
namespace sluice::api {

inline constexpr std::size_t most_field_bytes = 1 << 20;

// The files that one method takes. Made at start, immutable.
struct UploadPlan {
  struct File {
    std::string part;   // of a multipart/form-data body; "": the body itself
    std::string store;  // its name
    bool required = false;
    std::vector<std::string> types;  // for those who describe it: the media types that its store takes; empty: all
  };
  std::vector<File> files;
  bool whole = false;                          // the body itself is the file, the only one
  std::string fault;                           // what the configuration does wrong; empty: nothing
  std::size_t field_bytes = most_field_bytes;  // of the other parts together, their names and values as they come

  [[nodiscard]] bool empty() const { return files.empty(); }
};

// Gives the sources that name files their places, and says which files these are. `has_fields`: others name the body's
// fields.
[[nodiscard]] UploadPlan plan_uploads(std::span<Source* const> sources, bool has_fields);

// What has come of a request's body.
struct Received {
  std::vector<Upload> uploads;  // by UploadPlan::files
  std::string fields;           // the other parts, as application/x-www-form-urlencoded
  bool has_fields = false;
};

// Reads the body (none is an empty file where the whole of it would be one, and the request says that its length is 0):
// files go to their stores as they come, and are in them when it returns; an error is the answer. `stores`: by
// UploadPlan::files.
[[nodiscard]] core::Task<std::expected<Received, http::Response>> receive_uploads(
    const http::Request& request, const UploadPlan& plan, std::span<http::BlobStore* const> stores);

}  // namespace sluice::api
