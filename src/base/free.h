#pragma once

namespace sluice {

// A std::unique_ptr deleter that calls a C function.
template <auto function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace sluice
