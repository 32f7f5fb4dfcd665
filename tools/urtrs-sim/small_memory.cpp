// operator new and delete of urtrs-sim. A world makes and frees tens of thousands of small objects; freed
// ones are kept in one list per size and thread, which takes a tenth of the instructions of malloc(). The
// memory of the lists is never returned. Larger objects, and all objects after kSlabs slabs, come from
// malloc(). Builds with sanitizers do not contain this file, so that they find wrong accesses to small
// objects.
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kStep = 16;
constexpr std::size_t kLargest = 512;
constexpr std::size_t kSlabBytes = std::size_t{16} << 10;
constexpr std::size_t kSlabs = std::size_t{1} << 16;
// Until the slabs exist, no object lies behind this address.
constexpr std::uintptr_t kNowhere = ~std::uintptr_t{0} / 2;

struct FreeBlock {
  FreeBlock* next;
};

constinit std::atomic<std::uintptr_t> slabs_begin{kNowhere};
constinit std::atomic<std::size_t> slabs_used{0};
constinit std::uint8_t sizes_of_slabs[kSlabs] = {};  // size of the slab's blocks, in steps
constinit thread_local FreeBlock* free_blocks[kLargest / kStep + 1] = {};

bool reserve_slabs() noexcept {
  void* const made = mmap(nullptr, kSlabBytes * kSlabs, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return false;
  std::uintptr_t expected = kNowhere;
  if (!slabs_begin.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(made)))
    munmap(made, kSlabBytes * kSlabs);  // another thread was faster
  return true;
}

// Splits a new slab into free blocks. Returns false if there is none.
bool add_blocks(std::size_t steps) noexcept {
  if (slabs_begin == kNowhere && !reserve_slabs()) return false;
  if (slabs_used >= kSlabs) return false;
  const std::size_t slab = slabs_used++;
  if (slab >= kSlabs) return false;
  sizes_of_slabs[slab] = static_cast<std::uint8_t>(steps);
  const std::uintptr_t begin = slabs_begin + slab * kSlabBytes;
  const std::size_t size = steps * kStep;
  for (std::size_t at = kSlabBytes / size * size; at != 0; at -= size)
    free_blocks[steps] = new (reinterpret_cast<void*>(begin + at - size)) FreeBlock{free_blocks[steps]};
  return true;
}

}  // namespace

void* operator new(std::size_t bytes) {
  const std::size_t steps = (bytes + kStep - 1) / kStep + (bytes == 0 ? 1 : 0);
  if (steps <= kLargest / kStep && (free_blocks[steps] != nullptr || add_blocks(steps))) [[likely]] {
    FreeBlock* const block = free_blocks[steps];
    free_blocks[steps] = block->next;
    return block;
  }
  if (void* const made = std::malloc(bytes)) return made;
  throw std::bad_alloc();
}

void operator delete(void* object) noexcept {
  const std::uintptr_t at =
      reinterpret_cast<std::uintptr_t>(object) - slabs_begin.load(std::memory_order_relaxed);
  if (at >= kSlabBytes * kSlabs) return std::free(object);
  FreeBlock*& first = free_blocks[sizes_of_slabs[at / kSlabBytes]];
  first = new (object) FreeBlock{first};
}

void operator delete(void* object, std::size_t) noexcept {
  operator delete(object);
}
