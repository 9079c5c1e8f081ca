// The AMX unit by itself, on emulated tiles: against attention in f64 over the same bf16 numbers.
#include "imbrex/units/amx_wide.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "guard.hpp"
#include "imbrex/kernel/amx_heads.hpp"
#include "imbrex/kernel/attention_kernel.hpp"
#include "imbrex/precision.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"
#include "imbrex/rules/mask_fn.hpp"
#include "imbrex/rules/sink.hpp"
#include "imbrex/rules/softcap.hpp"
#include "reference.hpp"

namespace {

using imbrex::bf16;
using imbrex::index;
using imbrex::position;
using imbrex_test::guarded;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// All of it packed, with NaN in the memory beyond.
struct packed_head {
    guarded<std::byte> memory;
    imbrex::amx_blocks blocks;

    packed_head(imbrex::rows<bf16> k, imbrex::rows<bf16> v, index n, index head_dim, index head_dim_v)
        : memory{static_cast<std::size_t>(imbrex::amx_blocks::whole(n) * (imbrex::amx_geometry::padded(head_dim) +
                                                                          imbrex::amx_geometry::padded(head_dim_v))) *
                 sizeof(bf16)} {
        imbrex::arena arena{memory.data()};
        blocks = imbrex::amx_blocks::lay_out(arena, head_dim, head_dim_v, n);
        blocks.pack(imbrex::kv_tile<imbrex::rows<bf16>, imbrex::rows<bf16>>{k, v}, n);
    }
    // What the loop takes: a head is a value.
    struct view {
        imbrex::amx_blocks blocks;
        position held_from = 0;
        imbrex::amx_tile tile(index begin, index) const { return blocks.from(begin).tile(); }
    };
    view head() const { return {blocks}; }
};

struct shape {
    index group = 1, q_tokens = 1, kv_tokens = 100, head_dim = 64, head_dim_v = 64, kv_cols = 64;
    index rows() const { return group * q_tokens; }
    friend std::ostream& operator<<(std::ostream& t, shape const& s) {
        return t << "group " << s.group << ", q " << s.q_tokens << ", kv " << s.kv_tokens << ", d " << s.head_dim << "/" << s.head_dim_v
                 << ", kv_cols " << s.kv_cols;
    }
};

using score_change = std::function<double(index q, index kv, double)>;    // -inf hides

struct AmxUnit : testing::Test {
    unsigned seed =
        std::getenv("IMBREX_TEST_SEED") != nullptr ? static_cast<unsigned>(std::atoi(std::getenv("IMBREX_TEST_SEED"))) : 7;
    testing::ScopedTrace trace{__FILE__, __LINE__, "IMBREX_TEST_SEED=" + std::to_string(seed)};
    std::mt19937 engine{seed};
    shape s;
    guarded<bf16> q{0}, keys{0}, values{0};
    std::vector<float> out, lse;
    double scale = 0, spread = 1;

    template <class T>
    void replace(guarded<T>& memory, std::size_t n) {
        memory.~guarded<T>();
        new (&memory) guarded<T>{n};
    }
    void fill(shape const& of) {
        s = of;
        scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
        replace(q, static_cast<std::size_t>(s.rows() * s.head_dim));
        replace(keys, static_cast<std::size_t>(s.kv_tokens * s.head_dim));
        replace(values, static_cast<std::size_t>(s.kv_tokens * s.head_dim_v));
        for (auto* t : {&q, &keys, &values}) {
            for (bf16& x : *t) x = bf16{static_cast<float>(spread * std::normal_distribution<double>{}(engine))};
        }
    }

    template <class O = float, class Rule>
    void attend(Rule const& rule) {
        using unit_type = imbrex::amx_unit<imbrex::precision<bf16, bf16, bf16, O>, Rule, imbrex::emulated_tiles>;
        static_assert(imbrex::attention_unit<unit_type>);
        imbrex::arena counted{nullptr};
        imbrex::amx_scratch::lay_out(counted, s.head_dim, s.head_dim_v);
        guarded<std::byte> memory{counted.used()};    // NaN, until it is written
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0u);
        imbrex::arena arena{memory.data()};
        auto const scratch = imbrex::amx_scratch::lay_out(arena, s.head_dim, s.head_dim_v);
        imbrex::head_context const ctx{0, static_cast<position>(s.q_tokens), static_cast<position>(s.kv_tokens), 0,
                                       static_cast<position>(s.group)};
        imbrex::score_scale<float> const factor{
            scale, imbrex::changes_scores<Rule> ? imbrex::scale_applies::to_products : imbrex::scale_applies::to_differences};
        out.assign(static_cast<std::size_t>(s.rows() * s.head_dim_v), nan_value);
        lse.assign(static_cast<std::size_t>(s.rows()), nan_value);
        guarded<O> outputs{out.size()};
        imbrex::row_block<bf16, O> rows;    // [token][head of the group][dim]
        rows.q = q.data(), rows.q_token = s.group * s.head_dim, rows.q_head = s.head_dim;
        rows.out = outputs.data(), rows.out_token = s.group * s.head_dim_v, rows.out_head = s.head_dim_v;
        rows.lse = lse.data(), rows.lse_token = s.group, rows.lse_head = 1;
        rows.group = s.group;
        packed_head const packed{{keys.data(), s.head_dim}, {values.data(), s.head_dim_v}, s.kv_tokens, s.head_dim, s.head_dim_v};
        unit_type unit{scratch, rule, ctx, s.head_dim, s.head_dim_v, factor};
        index const most = imbrex::amx_geometry::max_rows * imbrex::amx_geometry::max_parts;
        for (rows.first = 0; rows.first < s.rows(); rows.first += most) {
            rows.count = std::min(most, s.rows() - rows.first);
            imbrex::no_observer observer;
            imbrex::attend(unit, rows, packed.head(), {0, ctx.kv_len}, rule, ctx, s.kv_cols, observer);
            unit.finish(rows);
        }
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(outputs[i]);
    }

    // Against f64: a rounded weight is off by 2^-8 of itself at most, its sum by as much the other way.
    void expect_right(imbrex_test::visibility const& sees, imbrex_test::score_effects const& effects = {}) {
        auto const four = [](bf16 const* p, index tokens, index heads, index d) {
            return imbrex::bshd(p, imbrex_test::shape4{1, tokens, heads, d});
        };
        auto const right = imbrex_test::naive_attention<double>(
            four(q.data(), s.q_tokens, s.group, s.head_dim), four(keys.data(), s.kv_tokens, 1, s.head_dim),
            four(values.data(), s.kv_tokens, 1, s.head_dim_v), scale, sees, effects);
        double largest = 0, error = 0;
        for (bf16 const v : values) {
            if (!std::isnan(static_cast<float>(v))) largest = std::max(largest, std::abs(imbrex::to_double(v)));
        }
        for (index t = 0; t < s.q_tokens; ++t) {
            for (index h = 0; h < s.group; ++h) {
                index const r = t * s.group + h;
                double const want = right.log_sum_exp(0, h, t), got = lse[static_cast<std::size_t>(r)];
                if (std::isinf(want)) {
                    EXPECT_EQ(got, want) << s;
                } else {
                    EXPECT_NEAR(got, want, 1e-5 * std::max(1.0, std::abs(want))) << s << ", row " << r;
                }
                for (index d = 0; d < s.head_dim_v; ++d) {
                    double const o = out[static_cast<std::size_t>(r * s.head_dim_v + d)];
                    ASSERT_FALSE(std::isnan(o)) << s << ", row " << r;
                    error = std::max(error, std::abs(o - right.output(0, t, h, d)));
                }
            }
        }
        EXPECT_LE(error, 0x1p-8 * largest) << s;
    }
};

constexpr shape shapes[] = {
    {1, 1, 1, 32, 32, 64},        {1, 33, 65, 64, 64, 64},      {1, 32, 256, 128, 128, 1024}, {1, 17, 31, 1, 1, 32},
    {4, 9, 203, 80, 80, 96},      {3, 5, 33, 37, 63, 1024},     {71, 1, 40, 96, 48, 64},      {1, 16, 300, 64, 256, 128},
    {2, 40, 160, 192, 128, 1024}, {1, 3, 513, 256, 16, 512},
};

TEST_F(AmxUnit, EqualsAttentionInF64AtAnyShape) {
    for (shape const& of : shapes) {
        fill(of);
        attend(imbrex::full{});
        expect_right(imbrex_test::sees_everything());
    }
}

TEST_F(AmxUnit, CausalTilesAreRight) {
    for (shape const& of : shapes) {
        fill(of);
        attend(imbrex::causal{imbrex::align::bottom_right});
        expect_right(imbrex_test::sees_bottom_right(s.q_tokens, s.kv_tokens));
    }
}

TEST_F(AmxUnit, RowsWithoutKeysAreZero) {
    fill({1, 100, 40, 64, 64, 64});
    attend(imbrex::causal{imbrex::align::bottom_right});
    expect_right(imbrex_test::sees_bottom_right(s.q_tokens, s.kv_tokens));
    EXPECT_EQ(out[0], 0);
    EXPECT_TRUE(std::isinf(lse[0]));
}

TEST_F(AmxUnit, KeysAndValuesThatNoQuerySeesMayBeNan) {
    fill({2, 70, 300, 64, 64, 128});
    auto const poison = [&](index first, index last) {
        std::memset(static_cast<void*>(keys.data() + first * s.head_dim), 0xff, static_cast<std::size_t>((last - first) * s.head_dim) * 2);
        std::memset(static_cast<void*>(values.data() + first * s.head_dim_v), 0xff,
                    static_cast<std::size_t>((last - first) * s.head_dim_v) * 2);
    };
    index const first = s.kv_tokens - s.q_tokens;
    poison(0, first - 20);
    index const hole = first + 5, beyond = s.kv_tokens - 3;
    poison(hole, hole + 1);
    poison(beyond, s.kv_tokens);
    attend(imbrex::mask_fn{
        [=](auto const&, auto const& query, auto const& kv) {
            auto const far = imbrex::mask_and(kv >= query - 20, kv != static_cast<position>(hole));
            return imbrex::mask_and(imbrex::mask_and(kv <= query, far), kv < static_cast<position>(beyond));
        },
        imbrex::always_partial{},
        [](imbrex::head_context const&, position q_first, position q_last) { return imbrex::kv_range{q_first - 20, q_last + 1}; }});
    auto const at = [=](index query) { return first + query; };
    expect_right([=](index, index, index query, index key) {
        return key <= at(query) && key >= at(query) - 20 && key != hole && key < beyond;
    });
}

TEST_F(AmxUnit, RulesChangeScores) {
    fill({2, 40, 150, 64, 32, 96});
    scale = 0.7;
    float const logits[] = {1.5f, 1.5f};
    attend(imbrex::softcap{5.0f} | imbrex::causal{imbrex::align::bottom_right} | imbrex::sink_logits{logits});
    imbrex_test::score_effects effects;
    effects.change = [](index, index, index, index, long double x) { return 5 * std::tanh(x / 5); };
    effects.sink = [](index) { return 1.5L; };
    expect_right(imbrex_test::sees_bottom_right(s.q_tokens, s.kv_tokens), effects);
}

TEST_F(AmxUnit, ValuesOfOneGiveOne) {
    for (shape const& of : shapes) {
        fill(of);
        for (bf16& v : values) v = bf16{1.0f};
        attend(imbrex::full{});
        for (float const o : out) ASSERT_NEAR(o, 1, 0x1p-23) << s;
    }
}

TEST_F(AmxUnit, RisingScoresRaiseTheMaximum) {
    fill({1, 32, 512, 32, 32, 1024});
    scale = 1;
    for (bf16& x : q) x = bf16{1.0f};
    for (index j = 0; j < s.kv_tokens; ++j) {
        for (index d = 0; d < s.head_dim; ++d) keys[static_cast<std::size_t>(j * s.head_dim + d)] = bf16{static_cast<float>(j) / 64};
    }
    attend(imbrex::full{});
    expect_right(imbrex_test::sees_everything());
}

TEST_F(AmxUnit, ScoresBeyondFloatsStayFinite) {
    fill({1, 20, 70, 32, 32, 1024});
    for (float const sign : {1.0f, -1.0f}) {
        for (bf16& x : q) x = bf16{3e38f};
        for (bf16& x : keys) x = bf16{sign * 3e38f};
        attend(imbrex::full{});
        for (float const o : out) EXPECT_TRUE(std::isfinite(o));
        for (float const l : lse) EXPECT_TRUE(std::isfinite(l));
    }
}

TEST_F(AmxUnit, NanInAQueryComesOutAsNanThereOnly) {
    fill({1, 40, 70, 64, 32, 64});
    for (index d = 0; d < s.head_dim; ++d) q[static_cast<std::size_t>(3 * s.head_dim + d)] = bf16::from_bits(0xffff);
    attend(imbrex::full{});
    for (index r = 0; r < s.rows(); ++r) {
        for (index d = 0; d < s.head_dim_v; ++d) EXPECT_EQ(std::isnan(out[static_cast<std::size_t>(r * s.head_dim_v + d)]), r == 3);
    }
}

TEST_F(AmxUnit, NegativeAndZeroScales) {
    for (double const of : {-0.3, 0.0}) {
        fill({1, 20, 90, 64, 32, 64});
        scale = of;
        attend(imbrex::full{});
        expect_right(imbrex_test::sees_everything());
    }
}

// Weights from 2^0 down through the denormals to 0: those are 0 in the sum, as they are to the tile unit.
TEST_F(AmxUnit, WeightsOfAnySizeCountAndDenormalsAreLeftToTheCaller) {
    fill({1, 20, 320, 32, 32, 1024});
    scale = std::log(2.0);
    for (bf16& x : q) x = bf16{1.0f};
    for (index j = 0; j < s.kv_tokens; ++j) {
        for (index d = 0; d < s.head_dim; ++d) {
            keys[static_cast<std::size_t>(j * s.head_dim + d)] = bf16{d == 0 ? -static_cast<float>(j % 160) : 0.0f};
        }
    }
    attend(imbrex::full{});
    expect_right(imbrex_test::sees_everything());
    for (bf16& v : values) v = bf16{1.0f};
    attend(imbrex::full{});
    for (float const o : out) EXPECT_NEAR(o, 1, 0x1p-23);
    float volatile const tiny = std::numeric_limits<float>::min();
    EXPECT_GT(tiny / 2, 0);
}

TEST_F(AmxUnit, OutputsMayBeBf16) {
    fill({1, 40, 70, 64, 50, 64});
    attend<bf16>(imbrex::full{});
    float const first = out[0];
    attend(imbrex::full{});
    EXPECT_NEAR(first, out[0], 0x1p-8 * std::abs(out[0]));
}

}    // namespace
