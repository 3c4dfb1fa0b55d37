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

// Files that clients send and fetch, as values between those who keep them and those who know what they are for.
namespace sluice::http {

// Called by what it holds.
struct Blob {
  std::string hash;  // its SHA-256: 64 lower-case hexadecimal digits
  std::uint64_t size = 0;
};

[[nodiscard]] inline bool is_blob_hash(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// One file on its way into a store. One call at a time; after an error there is nothing left but to destroy it.
// Destroyed before finish() has succeeded, it leaves nothing behind.
//
// Errors: Errc::limit, it is longer than the store takes; Errc::malformed, it is not of the media type that it was said
// to be; Errc::closed, nobody can write it now; Errc::system with an errno.
class BlobWriter : public core::SlabAllocated {
 public:
  virtual ~BlobWriter() = default;
  // Copies the bytes.
  [[nodiscard]] virtual core::Async<Result<void>> write(std::string_view bytes) = 0;
  // It is in the store, and stays there whatever happens to the machine.
  [[nodiscard]] virtual core::Task<Result<Blob>> finish() = 0;
};

// How a file is answered with. Empty: nothing is said.
struct BlobAnswer {
  std::string hash;
  std::string media_type;  // empty: what its first bytes say
  std::string name;        // what it is to be saved as, in UTF-8
  std::string cache_control;
};

// One core's access to a folder of such files.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  [[nodiscard]] virtual std::uint64_t limit() const = 0;
  // Whether files of this media type (lower case, without parameters) are taken. Asked once for a file, which is
  // refused where they are not.
  [[nodiscard]] virtual bool takes(std::string_view media_type) const = 0;
  // Null: as many are on their way as may be.
  [[nodiscard]] virtual std::unique_ptr<BlobWriter> begin(std::string_view media_type) = 0;
  // The file, or what the request's conditions and ranges ask for of it; 404 where it is missing, which is logged.
  // Precondition: is_blob_hash(answer.hash).
  [[nodiscard]] virtual core::Task<Response> serve(Request& request, BlobAnswer answer) = 0;
};

}  // namespace sluice::http
