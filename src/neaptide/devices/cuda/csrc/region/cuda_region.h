// The words of a CUDA device on its board. The board's setting names the GPU: its PCI address, packed.
#pragma once

#include <array>
#include <cstdint>

#include "../../../native/board.h"
#include "../../../native/board_layout.h"

namespace neaptide::cuda {

inline constexpr std::uint32_t kMostPages = 1 << 14;
inline constexpr std::uint32_t kKnownPrograms = 64;

/// One page of device memory; page_table.h says what the words mean and which processes write them.
struct PageWords {
  Word64 word;
  Word64 holders;  // bit S: the process of slot S has, or is about to have, a handle of the page
  Word64 given;    // a ticket of when it was given back last
};

struct CudaRegion {
  Word64 context_bytes;  // what a process here has outside its arena when it has just made its context; 0: unknown
  Word32 first_context;  // slot S + 1: while that is unknown, its process makes a context; 0: none does
  Word64 isolate;        // 1: a page is unmapped when it is given back, and zeroed when it is taken
  // The process that makes pages; a new one has a new generation.
  std::atomic<std::int32_t> keeper_pid;
  Word64 keeper_start_time;
  Word32 generation;
  Word32 pages_high;  // pages from here on were never made
  Word64 next_given;
  // What a process may have outside its arena: its allowance, or what it has if that is more. Written by its owner.
  std::array<Word64, kSlots> outside_bytes;
  // What programs need outside their arenas that were seen to need more than was kept for them: a part of the program's
  // number, and KiB. A program may take another one's place.
  std::array<Word64, kKnownPrograms> programs;
  std::array<PageWords, kMostPages> pages;
};

/// The region of a board of this device. Throws BoardError when the board is another's.
CudaRegion& cuda_region(const Board& board);

}  // namespace neaptide::cuda
