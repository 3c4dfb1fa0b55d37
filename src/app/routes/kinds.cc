#include "app/routes/kind.h"

namespace sluice::app {

// Each is a file of this folder.
extern const Kind endpoint_kind, resident_kind, files_kind, websocket_kind, proxy_kind;
extern const Kind batch_kind;    // calls routes that stand before it
extern const Kind openapi_kind;  // describes them

std::span<const Kind* const> kinds() {
  static constexpr const Kind* all[] = {&endpoint_kind, &resident_kind, &files_kind,  &websocket_kind,
                                        &proxy_kind,    &batch_kind,    &openapi_kind};
  return all;
}

}  // namespace sluice::app
