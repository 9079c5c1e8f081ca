// The narrow unit that multiplies int8 keys and values as they lie, by itself: against attention over the dequantised kv in f64.
#include "imbrex/units/narrow_integer.hpp"

#include <gtest/gtest.h>

#if !defined(IMBREX_HAS_INTEGER_UNITS)

TEST(NarrowInt8, NeedsVnni) { GTEST_SKIP() << "compiled without AVX512-VNNI"; }

#else

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "imbrex/kernel/attention_kernel.hpp"
#include "imbrex/precision.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"
#include "imbrex/rules/sink.hpp"
#include "imbrex/rules/softcap.hpp"

namespace {

using imbrex::index;
using imbrex::integer_width;
using imbrex::position;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

struct int8_rows {
    std::int8_t const* data;
    index stride;
    float const* scales;
    index scale_stride;
    std::int8_t const* row(index j) const { return data + j * stride; }
    float scale(index j) const { return scales[j * scale_stride]; }
    int8_rows from(index j) const { return {row(j), stride, scales + j * scale_stride, scale_stride}; }
};
struct int8_tile {
    int8_rows keys, values;
};
struct int8_head {
    int8_rows keys, values;
    position held_from = 0;
    int8_tile tile(index begin, index) const { return {keys.from(begin), values.from(begin)}; }
};

struct shape {
    index group = 4, q_tokens = 1, kv_tokens = 100, head_dim = 128, head_dim_v = 128, kv_cols = 64;
    index rows() const { return group * q_tokens; }
};

struct NarrowInt8 : testing::Test {
    unsigned seed =
        std::getenv("IMBREX_TEST_SEED") != nullptr ? static_cast<unsigned>(std::atoi(std::getenv("IMBREX_TEST_SEED"))) : 7;
    testing::ScopedTrace trace{__FILE__, __LINE__, "IMBREX_TEST_SEED=" + std::to_string(seed)};
    std::mt19937 engine{seed};
    shape s;
    std::vector<float> q, out, lse, key_scales, value_scales;
    std::vector<std::int8_t> keys, values;
    std::vector<double> sinks;
    double cap = 0;    // 0: none

    NarrowInt8() { RecordProperty("seed", std::to_string(seed)); }

    double normal() { return std::normal_distribution<double>{}(engine); }

    void fill(shape const& of) {
        s = of;
        q.assign(static_cast<std::size_t>(s.rows() * s.head_dim), 0);
        out.assign(static_cast<std::size_t>(s.rows() * s.head_dim_v), nan_value);
        lse.assign(static_cast<std::size_t>(s.rows()), nan_value);
        for (float& x : q) x = static_cast<float>(normal());
        fill_kv(keys, key_scales, s.head_dim);
        fill_kv(values, value_scales, s.head_dim_v);
    }
    void fill_kv(std::vector<std::int8_t>& bytes, std::vector<float>& scales, index n) {
        bytes.resize(static_cast<std::size_t>(s.kv_tokens * n));
        scales.resize(static_cast<std::size_t>(2 * s.kv_tokens));
        for (std::int8_t& x : bytes) x = static_cast<std::int8_t>(std::clamp(40 * normal(), -128.0, 127.0));
        for (std::size_t j = 0; j < scales.size(); j += 2) {
            scales[j] = static_cast<float>((0.6 + 0.4 * std::abs(normal())) / 40), scales[j + 1] = nan_value;
        }
    }

    double score(index r, index j) const {
        double dot = 0;
        for (index d = 0; d < s.head_dim; ++d) dot += double{q[at(r, d, s.head_dim)]} * keys[at(j, d, s.head_dim)];
        double const scaled = dot * key_scales[static_cast<std::size_t>(2 * j)] / std::sqrt(static_cast<double>(s.head_dim));
        return cap == 0 ? scaled : cap * std::tanh(scaled / cap);
    }
    static std::size_t at(index row, index d, index n) { return static_cast<std::size_t>(row * n + d); }

    template <int R, integer_width Width = integer_width::two_bytes, class Rule>
    void attend(Rule const& rule) {
        using unit_type = imbrex::narrow_int8_unit<imbrex::precision<float>, Rule, R, int8_tile, Width>;
        static_assert(imbrex::attention_unit<unit_type>);
        imbrex::arena counted{nullptr};
        imbrex::integer_scratch::lay_out(counted, R, s.head_dim, s.head_dim_v, s.kv_cols);
        std::vector<std::byte> memory(counted.used() + 64, std::byte{0xff});    // NaN, until it is written
        auto const start = reinterpret_cast<std::uintptr_t>(memory.data());
        imbrex::arena arena{memory.data() + (64 - start % 64) % 64};
        auto const scratch = imbrex::integer_scratch::lay_out(arena, R, s.head_dim, s.head_dim_v, s.kv_cols);
        imbrex::head_context const ctx{0, static_cast<position>(s.q_tokens), static_cast<position>(s.kv_tokens), 0,
                                       static_cast<position>(s.group)};
        imbrex::score_scale<float> const scale{
            1 / std::sqrt(static_cast<double>(s.head_dim)),
            imbrex::changes_scores<Rule> ? imbrex::scale_applies::to_products : imbrex::scale_applies::to_differences};
        unit_type unit{scratch, rule, ctx, s.head_dim, s.head_dim_v, scale};
        imbrex::row_block<float, float> rows;    // [token][head of the group][dim]
        rows.q = q.data(), rows.q_token = s.group * s.head_dim, rows.q_head = s.head_dim;
        rows.out = out.data(), rows.out_token = s.group * s.head_dim_v, rows.out_head = s.head_dim_v;
        rows.lse = lse.data(), rows.lse_token = s.group, rows.lse_head = 1;
        rows.group = s.group, rows.count = s.rows();
        int8_head const kv{{keys.data(), s.head_dim, key_scales.data(), 2},
                           {values.data(), s.head_dim_v, value_scales.data(), 2}};
        imbrex::no_observer observer;
        imbrex::attend(unit, rows, kv, {0, ctx.kv_len}, rule, ctx, s.kv_cols, observer);
        unit.finish(rows);
    }

    // The largest error over the largest output, of rows that see keys [0, seen(row)).
    template <class Seen>
    void expect_within(double bound, Seen const& seen) const {
        double error = 0, largest = 0;
        for (index r = 0; r < s.rows(); ++r) {
            std::vector<double> o(static_cast<std::size_t>(s.head_dim_v));
            double const sink = sinks.empty() ? -INFINITY : sinks[static_cast<std::size_t>(r % s.group)];
            double top = sink;
            for (index j = 0; j < seen(r); ++j) top = std::max(top, score(r, j));
            double l = std::isinf(sink) ? 0 : std::exp(sink - top);
            for (index j = 0; j < seen(r); ++j) {
                double const p = std::exp(score(r, j) - top);
                l += p;
                double const scaled = p * value_scales[static_cast<std::size_t>(2 * j)];
                for (index d = 0; d < s.head_dim_v; ++d)
                    o[static_cast<std::size_t>(d)] += scaled * values[at(j, d, s.head_dim_v)];
            }
            for (index d = 0; d < s.head_dim_v; ++d) {
                double const ours = out[at(r, d, s.head_dim_v)], right = l == 0 ? 0 : o[static_cast<std::size_t>(d)] / l;
                ASSERT_FALSE(std::isnan(ours)) << "row " << r << ", column " << d;
                error = std::max(error, std::abs(ours - right));
                largest = std::max(largest, std::abs(right));
            }
            double const ours = lse[static_cast<std::size_t>(r)];
            if (l == 0) {
                EXPECT_EQ(ours, -INFINITY);
            } else {
                EXPECT_NEAR(ours, top + std::log(l), bound * 4);
            }
        }
        EXPECT_LE(error, bound * largest);
    }
    void expect_within(double bound) const {
        expect_within(bound, [this](index) { return s.kv_tokens; });
    }
    void expect_causal_within(double bound) const {
        expect_within(bound, [this](index r) { return std::max<index>(0, s.kv_tokens - s.q_tokens + r / s.group + 1); });
    }
};

constexpr imbrex::causal causal{imbrex::align::bottom_right};

TEST_F(NarrowInt8, TwoBytesAreWithinTenThousandthOfTheLargestOutput) {
    for (index const head_dim : {1, 16, 37, 64, 80, 128, 576}) {
        for (index const kv_tokens : {1, 7, 33, 203}) {
            SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << ", kv " << kv_tokens);
            fill({4, 1, kv_tokens, head_dim, head_dim > 500 ? 512 : head_dim + 3, 64});
            attend<4>(causal);
            expect_causal_within(1e-4);
        }
    }
}

TEST_F(NarrowInt8, LongSequenceIsAsExact) {
    fill({4, 1, 5003, 128, 128, 1024});
    attend<4>(causal);
    expect_causal_within(1e-4);
}

TEST_F(NarrowInt8, AnyNumberOfRowsIsServed) {
    for (index const group : {1, 2, 3, 5, 7, 8}) {
        SCOPED_TRACE(testing::Message() << "group " << group);
        fill({group, 1, 131, 72, 40, group == 1 ? 16 : 64});
        if (group == 1) attend<1>(causal);
        if (group == 2) attend<2>(causal);
        if (group == 3) attend<4>(causal);
        if (group > 4) attend<8>(causal);
        expect_causal_within(1e-4);
    }
}

TEST_F(NarrowInt8, MasksHoldForEveryRow) {
    for (index const kv_tokens : {1, 2, 15, 64, 67, 130}) {
        SCOPED_TRACE(testing::Message() << "kv " << kv_tokens);
        fill({2, 4, kv_tokens, 48, 64, 64});    // with fewer keys than queries, the first rows see none
        attend<8>(causal);
        expect_causal_within(1e-4);
    }
}

TEST_F(NarrowInt8, OneByteIsWithinAFewHundredthsOfTheLargestOutput) {
    fill({4, 1, 203, 128, 100, 64});
    attend<4, integer_width::one_byte>(causal);
    expect_causal_within(3e-2);
}

TEST_F(NarrowInt8, SoftcapAndSinkTakePart) {
    fill({4, 1, 90, 64, 64, 64});
    sinks = {0.5, -1, 3, 40};
    cap = 2;
    attend<4>((imbrex::full{} && causal) | imbrex::softcap{cap} | imbrex::sink_logits{sinks});
    expect_causal_within(1e-4);
}

TEST_F(NarrowInt8, KeyThatNoRowSeesIsNotUsed) {
    fill({4, 2, 67, 64, 64, 64});
    s.q_tokens = 1;    // so that the top-left query sees key 0 alone
    for (std::size_t j = 2; j < key_scales.size(); j += 2) key_scales[j] = value_scales[j] = nan_value;
    attend<4>(imbrex::causal{imbrex::align::top_left});
    expect_within(1e-4, [](index) { return index{1}; });
}

TEST_F(NarrowInt8, NanComesOutOnlyOfRowsThatHaveIt) {
    fill({4, 1, 70, 64, 64, 64});
    q[at(2, 5, 64)] = nan_value;
    attend<4>(causal);
    for (index r = 0; r < 4; ++r) {
        for (index d = 0; d < 64; ++d) EXPECT_EQ(std::isnan(out[at(r, d, 64)]), r == 2) << r << ", " << d;
        EXPECT_EQ(std::isnan(lse[static_cast<std::size_t>(r)]), r == 2);
    }
    fill({4, 1, 70, 64, 64, 64});
    value_scales[2 * 66] = nan_value;
    attend<4>(causal);
    for (float const x : out) EXPECT_TRUE(std::isnan(x));
}

TEST_F(NarrowInt8, ValuesOfOneGiveOne) {
    for (index const kv_tokens : {1, 100, 1000}) {
        fill({4, 1, kv_tokens, 64, 64, 256});
        std::fill(values.begin(), values.end(), std::int8_t{1});
        for (std::size_t j = 0; j < value_scales.size(); j += 2) value_scales[j] = 1;
        attend<4>(causal);
        for (float const x : out) EXPECT_NEAR(x, 1, 2 * 0x1p-23) << kv_tokens;
        attend<4, integer_width::one_byte>(causal);
        for (float const x : out) EXPECT_NEAR(x, 1, 2 * 0x1p-23) << kv_tokens;
    }
}

// An attention sink: nearly all the weight on a key whose value is nearly nothing.
TEST_F(NarrowInt8, WeightOfAKeyWithSmallValuesIsNotLost) {
    for (float const scale : {0.0f, 1e-30f, 1e-7f}) {
        fill({4, 1, 50, 64, 64, 64});
        for (index r = 0; r < 4; ++r) {
            for (index d = 0; d < 64; ++d) q[at(r, d, 64)] = 0.5f + 0.1f * q[at(r, d, 64)];
        }
        for (index d = 0; d < 64; ++d) keys[at(3, d, 64)] = 127;
        key_scales[2 * 3] = 1 / 127.0f;
        value_scales[2 * 3] = scale;
        attend<4>(causal);
        expect_causal_within(1e-4);
    }
}

TEST_F(NarrowInt8, ScalesMayBeNegative) {
    fill({4, 1, 150, 64, 64, 64});
    for (std::size_t j = 0; j < value_scales.size(); j += 6) value_scales[j] = -value_scales[j], key_scales[j] = -key_scales[j];
    attend<4>(causal);
    expect_causal_within(1e-4);
}

TEST_F(NarrowInt8, LargestBytesDoNotOverflow) {
    fill({4, 1, 40, 1024, 64, 64});
    std::fill(q.begin(), q.end(), 3.0f);
    std::fill(keys.begin(), keys.end(), std::int8_t{-128});
    std::fill(values.begin(), values.end(), std::int8_t{-128});
    for (std::size_t j = 0; j < key_scales.size(); j += 2) key_scales[j] = 1e-4f;
    attend<4>(causal);
    expect_causal_within(1e-4);
}

}    // namespace

#endif
