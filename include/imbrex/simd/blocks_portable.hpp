// Vectors of q8_0, q4_0 and int4 in scalar code, right on every ISA; blocks_avx2.hpp and blocks_avx512.hpp override it.
// encoded.hpp picks, and says what each function is.
#pragma once

#include "imbrex/encoding.hpp"
#include "imbrex/simd/portable.hpp"

IMBREX_ISA_BEGIN

struct portable_blocks {
    using V = lanes<float>;
    static constexpr int W = lane_count<float>;

    template <class E>
    static IMBREX_ALWAYS_INLINE V codes(E const* row, index d) noexcept {
        alignas(64) array_of<float, W> wide;
        for (int i = 0; i < W; ++i) wide[i] = static_cast<float>(code_at(row, d + i));
        return V::load_aligned(wide);
    }
    template <block_encoded E>
    static IMBREX_ALWAYS_INLINE void code_pair(E const* row, index d, V& low, V& high) noexcept {
        low = codes(row, d), high = codes(row, d + W);
    }
    static IMBREX_ALWAYS_INLINE void code_pair(int4_pair const* row, index d, V& low, V& high) noexcept {
        alignas(64) array_of<float, W> even;
        alignas(64) array_of<float, W> odd;
        for (int i = 0; i < W; ++i) {
            even[i] = static_cast<float>(code_at(row, d + 2 * i));
            odd[i] = static_cast<float>(code_at(row, d + 2 * i + 1));
        }
        low = V::load_aligned(even), high = V::load_aligned(odd);
    }
    static IMBREX_ALWAYS_INLINE V scale(f16 d) noexcept { return V(to_float(d)); }
    template <block_encoded E>
    static IMBREX_ALWAYS_INLINE void pair(E const* row, index d, V& low, V& high) noexcept {
        V const s = scale(row[d / ggml_block].d);
        code_pair(row, d, low, high);
        low = low * s, high = high * s;
    }
};

IMBREX_ISA_END
