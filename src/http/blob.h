#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/slab.h"
#include "core/task.h"
#include "http/request.h"
#include "http/response.h"

// Files that clients upload and download. Endpoints use these interfaces; a store implements them.
namespace sluice::http {

// A stored file. Its content hash is its name.
struct Blob {
  std::string hash;  // SHA-256: 64 lower-case hexadecimal digits
  std::uint64_t size = 0;
};

[[nodiscard]] inline bool is_blob_hash(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Writes one file into a store. Only one call may run at a time. After an error the writer must be destroyed. If it is
// destroyed before finish() has succeeded, the store keeps nothing of the file.
//
// Errors: Errc::limit if the file is longer than the store allows; Errc::malformed if its content does not match its
// declared media type; Errc::closed if the store cannot write now; Errc::system with an errno.
class BlobWriter : public core::SlabAllocated {
 public:
  virtual ~BlobWriter() = default;
  // Copies the bytes.
  [[nodiscard]] virtual core::Async<Result<void>> write(std::string_view bytes) = 0;
  // On success the file is stored durably: it survives a crash of the machine.
  [[nodiscard]] virtual core::Task<Result<Blob>> finish() = 0;
};

// How a file is sent to the client. An empty member adds no field.
struct BlobAnswer {
  std::string hash;
  std::string media_type;  // empty: detected from the file's first bytes
  std::string name;        // the file name that the client is to save it under, in UTF-8
  std::string cache_control;
};

// One core's access to a folder of stored files.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  [[nodiscard]] virtual std::uint64_t limit() const = 0;
  // Whether the store accepts files of this media type (lower case, without parameters). Called once for each upload;
  // if false, the upload is refused.
  [[nodiscard]] virtual bool takes(std::string_view media_type) const = 0;
  // Returns null if the maximum number of uploads is already running.
  [[nodiscard]] virtual std::unique_ptr<BlobWriter> begin(std::string_view media_type) = 0;
  // Answers with the file, following the request's conditions and ranges. A missing file gives 404 and a log entry.
  // Precondition: is_blob_hash(answer.hash).
  [[nodiscard]] virtual core::Task<Response> serve(Request& request, BlobAnswer answer) = 0;
};

}  // namespace sluice::http
