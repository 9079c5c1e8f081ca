// The tile unit's work of the AMX unit, in pieces that vector work can stand between: scores of a block, or outputs of some.
//
// Tiles: 0 to 3 the 2 x 2 sums, 4 and 5 what lies in A, 6 and 7 what lies in B: four products to four loads.
// Memory traffic a piece: 4 KB from L1 or L2; of scores, 4 KB to L1 a block; of outputs, 4 KB from L1 and to it a slice.
// Decision: what lies in A, keys and values, is loaded with the hint that it need not stay in L1, which the rest fills: 11 to 17
// % (D=128, S=1024 to 4096), 7 % (D=64); the hint for B too costs 4 % (Intel Emerald Rapids, g++ 13, 2026-12-01).
#pragma once

#include "imbrex/units/amx_layout.hpp"

IMBREX_ISA_BEGIN

// Each limb of what lies in A is multiplied with each of what lies in B.
template <class Tiles, int Limbs>
class amx_products {
public:
    explicit amx_products(int halves) noexcept : halves_{halves} {}

    // s = k qT of one block: of each of `steps`, each product of two limbs is a piece.
    void plan_scores(bf16 const* keys, bf16 const* q, int steps, float* s) noexcept {
        keys_ = keys, q_ = q, s_ = s, steps_ = steps, score_pieces_ = steps * products;
    }
    // o += v p of some blocks: of each, and each slice of 32 columns, likewise.
    void plan_values(bf16 const* const* values, int blocks, bf16 const* p, float* o, int slices) noexcept {
        values_ = values, blocks_ = blocks, p_ = p, o_ = o, value_pieces_ = blocks * slices * products;
    }
    int pieces() const noexcept { return score_pieces_ + value_pieces_; }

    // Does what is planned, up to piece number `until`.
    IMBREX_ALWAYS_INLINE void advance(Tiles& t, int until) noexcept {
        for (; done_ < until; ++done_) done_ < score_pieces_ ? score_piece(t) : value_piece(t);
    }
    void finish(Tiles& t) noexcept { advance(t, pieces()); }

private:
    static constexpr index row_bytes = amx_geometry::max_rows * static_cast<index>(sizeof(float));
    static constexpr index tile_bytes = 64;
    static constexpr int products = Limbs * Limbs;
    using g = amx_geometry;

    // Products of two limbs each, in an order in which each finds one of them in the tiles: of two limbs, (0, 0) (0, 1) (1, 1)
    // (1, 0): 10 loads to 16 products, not 16, which is 9 to 11 % (f16, D=128, S=1024, Intel Emerald Rapids, g++ 13, 2026-12-01).
    static constexpr int limb_of_a(int product) noexcept { return product / Limbs; }
    static constexpr int limb_of_b(int product) noexcept { return (product + 1) / 2 % Limbs; }
    static constexpr bool loads_a(int product) noexcept { return product % Limbs == 0; }
    static constexpr bool loads_b(int product) noexcept { return product % 2 == 1 || product == 0; }

    // a, b0, b1: of that product.
    IMBREX_ALWAYS_INLINE void multiply(Tiles& t, int product, bf16 const* a, bf16 const* b0, bf16 const* b1) noexcept {
        if (loads_a(product)) t.template load_once<4>(a, tile_bytes);
        if (loads_b(product)) t.template load<6>(b0, tile_bytes);
        t.template dot_bf16<0, 4, 6>();
        if (halves_ == 2) {
            if (loads_b(product)) t.template load<7>(b1, tile_bytes);
            t.template dot_bf16<1, 4, 7>();
        }
        if (loads_a(product)) t.template load_once<5>(a + g::tile, tile_bytes);
        t.template dot_bf16<2, 5, 6>();
        if (halves_ == 2) t.template dot_bf16<3, 5, 7>();
    }
    IMBREX_ALWAYS_INLINE void store_sums(Tiles& t, float* to) const noexcept {
        t.template store<0>(to, row_bytes);
        if (halves_ == 2) t.template store<1>(to + 16, row_bytes);
        t.template store<2>(to + g::square, row_bytes);
        if (halves_ == 2) t.template store<3>(to + g::square + 16, row_bytes);
    }

    IMBREX_ALWAYS_INLINE void score_piece(Tiles& t) noexcept {
        if (done_ == 0) {
            t.template zero<0>();
            t.template zero<1>();
            t.template zero<2>();
            t.template zero<3>();
        }
        int const step = done_ / products, product = done_ % products;
        bf16 const* const k = keys_ + (step * Limbs + limb_of_a(product)) * 2 * g::tile;
        bf16 const* const q = q_ + (limb_of_b(product) * 2 * steps_ + step) * g::tile;
        multiply(t, product, k, q, q + steps_ * g::tile);
        if (done_ + 1 == score_pieces_) store_sums(t, s_);
    }

    IMBREX_ALWAYS_INLINE void value_piece(Tiles& t) noexcept {
        float* const o = o_ + slice_ * 2 * g::square;
        if (block_ == 0 && product_ == 0) {
            t.template load<0>(o, row_bytes);
            if (halves_ == 2) t.template load<1>(o + 16, row_bytes);
            t.template load<2>(o + g::square, row_bytes);
            if (halves_ == 2) t.template load<3>(o + g::square + 16, row_bytes);
        }
        bf16 const* const v = values_[block_] + (slice_ * Limbs + limb_of_a(product_)) * 2 * g::tile;
        bf16 const* const p = p_ + (block_ * Limbs + limb_of_b(product_)) * 2 * g::tile;
        multiply(t, product_, v, p, p + g::tile);
        if (++product_ < products) return;
        product_ = 0;
        if (++block_ == blocks_) {
            store_sums(t, o);
            block_ = 0;
            ++slice_;
        }
    }

    bf16 const *keys_ = nullptr, *q_ = nullptr, *p_ = nullptr;
    bf16 const* const* values_ = nullptr;
    float *s_ = nullptr, *o_ = nullptr;
    int halves_, steps_ = 0, blocks_ = 0, score_pieces_ = 0, value_pieces_ = 0;
    int slice_ = 0, block_ = 0, product_ = 0, done_ = 0;
};

IMBREX_ISA_END
