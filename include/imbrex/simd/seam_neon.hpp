// The NEON seam for f32 on 64-bit Arm: 16-bit loads, transpose and sums. See portable.hpp for each contract.
#pragma once

#include <arm_neon.h>

#include "imbrex/simd/portable.hpp"

IMBREX_ISA_BEGIN

struct neon_seam : portable_seam<float> {
    using portable_seam<float>::load;
    using portable_seam<float>::store;

    static IMBREX_ALWAYS_INLINE V fma(V a, V b, V c) noexcept { return V(vfmaq_f32(c.data, a.data, b.data)); }

    static IMBREX_ALWAYS_INLINE V load(bf16 const* p) noexcept {
        return V(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<std::uint16_t const*>(p)), 16)));
    }
    static IMBREX_ALWAYS_INLINE V load(f16 const* p) noexcept {
        return V(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<std::uint16_t const*>(p)))));
    }

    using portable_seam<float>::load_pair;
    static IMBREX_ALWAYS_INLINE void load_pair(bf16 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }
    static IMBREX_ALWAYS_INLINE void load_pair(f16 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }

    static IMBREX_ALWAYS_INLINE void transpose(V (&r)[4]) noexcept {
        float32x4_t const a = vzip1q_f32(r[0].data, r[2].data), b = vzip2q_f32(r[0].data, r[2].data);
        float32x4_t const c = vzip1q_f32(r[1].data, r[3].data), d = vzip2q_f32(r[1].data, r[3].data);
        r[0] = V(vzip1q_f32(a, c));
        r[1] = V(vzip2q_f32(a, c));
        r[2] = V(vzip1q_f32(b, d));
        r[3] = V(vzip2q_f32(b, d));
    }

    static IMBREX_ALWAYS_INLINE V sums(V (&r)[4]) noexcept {
        return V(vpaddq_f32(vpaddq_f32(r[0].data, r[1].data), vpaddq_f32(r[2].data, r[3].data)));
    }
};

IMBREX_ISA_END
