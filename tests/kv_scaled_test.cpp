// int8 keys and values with scales beside them: attention over them is attention over each int8 times its scale, for a scale a
// token, a group and a channel, in dense tensors and pages; and every source finds the scales where it finds the rows.
#include "imbrex/kv/scaled.hpp"

#include <numeric>

#include "encoded_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::position;
using imbrex::scaled_kv;
using lengths = std::vector<position>;

constexpr index kv_heads = encoded_kv_heads;
constexpr imbrex::causal rule{imbrex::align::bottom_right};

// Random int8 or int4 with scales, and the numbers that they stand for. group: numbers that share a scale.
template <class E>
struct scaled_side {
    tensor<E> codes;
    tensor<float> scales, numbers;

    scaled_side(index batch, index tokens, index head_dim, index group)
        : codes{in_units<E>({batch, tokens, kv_heads, head_dim}), order::bshd},
          scales{{batch, tokens, kv_heads, head_dim / group}, order::bhsd},
          numbers{{batch, tokens, kv_heads, head_dim}, order::bhsd} {}
};

class KvScaled : public Seeded {
protected:
    template <class E = std::int8_t>
    scaled_side<E> random_side(index batch, index tokens, index head_dim, index group) {
        scaled_side<E> s{batch, tokens, head_dim, group};
        fill(s.numbers.view);
        for_each_row(s.codes.view, [&](index b, index j, index h, E* row) {
            float* const x = s.numbers.view.row(b, j, h);
            float* const scales = s.scales.view.row(b, j, h);
            imbrex::encode_row(x, head_dim, row, scales, group);
            if (j % 3 == 0) scales[0] = -scales[0];    // of any sign
            for (index d = 0; d < head_dim; ++d) x[d] = imbrex::value_at(row, {scales, group}, d);
        });
        return s;
    }

    static numbers_are rounded(index head_dim, index k_group, index head_dim_v, index v_group) {
#if defined(IMBREX_HAS_INTEGER_UNITS)
        auto const in_groups = [](index n, index group) { return n % 32 == 0 && group % 32 == 0; };
        if (k_group == head_dim && v_group == head_dim_v) return numbers_are::rounded_to_16_bits;
        if (in_groups(head_dim, k_group) && in_groups(head_dim_v, v_group)) return numbers_are::rounded_to_16_bits;
#endif
        static_cast<void>(head_dim + k_group + head_dim_v + v_group);
        return numbers_are::rounded_as_floats;
    }

    void expect_dense_right(index q_tokens, index kv_tokens, index head_dim, index k_group, index head_dim_v, index v_group) {
        SCOPED_TRACE(testing::Message() << q_tokens << " queries, " << kv_tokens << " keys of " << head_dim << " by " << k_group
                                        << ", values of " << head_dim_v << " by " << v_group);
        auto const k = random_side(2, kv_tokens, head_dim, k_group), v = random_side(2, kv_tokens, head_dim_v, v_group);
        asked const a{2, q_tokens, head_dim, head_dim_v};
        fill(a.q.view);
        scaled_kv const kv{imbrex::dense_kv{k.codes.view, v.codes.view}, k.scales.view, v.scales.view};
        ASSERT_OK(planned(a.q.view, kv, a.out.view, rule, a.options()));
        auto const n = static_cast<position>(kv_tokens);
        expect_attention_over(a, k.numbers, v.numbers, {n, n}, kv_tokens, rounded(head_dim, k_group, head_dim_v, v_group));
    }

    // Decode, prefill, tails, copied heads and split ones.
    void expect_all_dense_right(index head_dim, index k_group, index head_dim_v, index v_group) {
        for (index const q_tokens : {1, 2, 33}) expect_dense_right(q_tokens, 131, head_dim, k_group, head_dim_v, v_group);
        expect_dense_right(1, 1, head_dim, k_group, head_dim_v, v_group);
        expect_dense_right(1, 9000, head_dim, k_group, head_dim_v, v_group);
        expect_dense_right(300, 300, head_dim, k_group, head_dim_v, v_group);
    }
};

TEST_F(KvScaled, AScaleForEachTokenAndHead) {
    expect_all_dense_right(128, 128, 64, 64);
    expect_all_dense_right(37, 37, 50, 50);
}

TEST_F(KvScaled, AScaleForEachGroup) {
    expect_all_dense_right(128, 32, 128, 64);
    expect_all_dense_right(192, 96, 64, 32);
    expect_all_dense_right(40, 5, 48, 3);
}

TEST_F(KvScaled, AScaleForEachNumber) { expect_all_dense_right(64, 1, 37, 1); }

TEST_F(KvScaled, KeysAndValuesOfDifferentGroups) { expect_all_dense_right(96, 96, 80, 1); }

// The explicit policy: a hundredth of the largest output, where two bytes reach a ten thousandth.
TEST_F(KvScaled, QueriesAndWeightsMayBeOneByte) {
    constexpr auto by = imbrex::products::eight_bit;
    for (index const group : {128, 32}) {
        auto const k = random_side(1, 700, 128, group), v = random_side(1, 700, 128, group);
        asked const a{1, 1, 128, 128};
        fill(a.q.view);
        scaled_kv const kv{imbrex::dense_kv{k.codes.view, v.codes.view}, k.scales.view, v.scales.view};
        imbrex::plan p;
        ASSERT_OK(imbrex::plan_for<by>(a.q.view, kv, a.out.view, p));
        guarded<std::byte> workspace{imbrex::workspace_bytes(p)};
        imbrex::options o = a.options();
        o.workspace = workspace;
        ASSERT_OK(imbrex::attention<by>(p, a.q.view, kv, a.out.view, rule, o));
        largest_errors e;
        measure(a.q.view, k.numbers.view, v.numbers.view, a.out.view, imbrex::bhs(a.lse.data(), a.q.view.shape), sees_everything(),
                1 / std::sqrt(128.0), e);
        EXPECT_LE(e.ours, 2e-2 * largest(a.out.view));
#if defined(IMBREX_HAS_INTEGER_UNITS)
        EXPECT_GE(e.ours, 1e-4 * largest(a.out.view)) << "not by one byte";
#endif
    }
}

TEST_F(KvScaled, ScalesOfChannelsServeAllTokens) {
    auto k = random_side(1, 50, 64, 1), v = random_side(1, 50, 64, 1);
    tensor<float> const channels{{1, 1, kv_heads, 64}, order::bhsd};
    fill(channels.view);
    for (auto* const side : {&k, &v}) {
        for_each_row(side->codes.view, [&](index b, index j, index h, std::int8_t const* row) {
            imbrex::side_scales const scales{channels.view.row(0, 0, h), 1};
            for (index d = 0; d < 64; ++d) side->numbers.view.row(b, j, h)[d] = imbrex::value_at(row, scales, d);
        });
    }
    for (index const q_tokens : {1, 40}) {
        asked const a{1, q_tokens, 64, 64};
        fill(a.q.view, 0.01);
        scaled_kv const kv{imbrex::dense_kv{k.codes.view, v.codes.view}, channels.view, channels.view};
        ASSERT_OK(planned(a.q.view, kv, a.out.view, rule, a.options()));
        expect_attention_over(a, k.numbers, v.numbers, {50}, 50);
    }
}

TEST_F(KvScaled, Int4MayHaveAnyScales) {
    for (auto const& [k_group, v_group] : {std::pair<index, index>{32, 96}, {96, 2}, {24, 32}}) {
        auto const k = random_side<imbrex::int4_pair>(2, 131, 96, k_group);
        auto const v = random_side<imbrex::int4_pair>(2, 131, 96, v_group);
        for (index const q_tokens : {1, 2, 33}) {
            SCOPED_TRACE(testing::Message() << q_tokens << " queries, groups of " << k_group << " and " << v_group);
            asked const a{2, q_tokens, 96, 96};
            fill(a.q.view);
            scaled_kv const kv{imbrex::dense_kv{k.codes.view, v.codes.view}, k.scales.view, v.scales.view};
            ASSERT_OK(planned(a.q.view, kv, a.out.view, rule, a.options()));
            expect_attention_over(a, k.numbers, v.numbers, {131, 131}, 131, rounded(96, k_group, 96, v_group));
        }
    }
}

TEST_F(KvScaled, ScalesOfPagesThatAreNotUsedMayBeNaN) {
    lengths const n{300, 0, 13};
    for (index const group : {64, 32, 16}) {
        auto const k = random_side(3, 300, 64, group), v = random_side(3, 300, 64, group);
        for (index const page_size : {1, 16}) {
            index const width = (300 + page_size - 1) / page_size, pages = 3 * width + 1;
            lengths ids(static_cast<std::size_t>(3 * width));
            std::iota(ids.begin(), ids.end(), 1);
            std::reverse(ids.begin(), ids.end());
            auto const pk = in_pages(k.codes, n, page_size, pages, ids, width), pv = in_pages(v.codes, n, page_size, pages, ids, width);
            auto const sk = in_pages(k.scales, n, page_size, pages, ids, width), sv = in_pages(v.scales, n, page_size, pages, ids, width);
            for (index const q_tokens : {1, 40}) {
                SCOPED_TRACE(testing::Message() << q_tokens << " queries, pages of " << page_size << ", groups of " << group);
                asked const a{3, q_tokens, 64, 64};
                fill(a.q.view);
                scaled_kv const kv{imbrex::paged_kv{pk.view, pv.view, imbrex::block_table{ids, width, {}}, std::span{n}}, sk.view, sv.view};
                ASSERT_OK(planned(a.q.view, kv, a.out.view, rule, a.options()));
                expect_attention_over(a, k.numbers, v.numbers, n, 300, rounded(64, group, 64, group));
            }
        }
    }
}

// Number d of token j of a head, through a source.
template <class Head>
float value_of(Head const& head, index j, index d) {
    return imbrex::value_at(head.values.row(j), head.values.scales(j), d);
}

TEST_F(KvScaled, RingsPackedSequencesAndTwoPartsFindTheScalesOfTheirRows) {
    auto const s = random_side(2, 8, 12, 4);
    lengths const n{11, 5};
    auto const ring = imbrex::source_of(scaled_kv{imbrex::ring_kv{s.codes.view, s.codes.view, std::span{n}}, s.scales.view, s.scales.view});
    for (index j = 3; j < 11; ++j) EXPECT_EQ(value_of(ring.head(0, 1), j, 5), s.numbers.view.row(0, j % 8, 1)[5]) << j;
    auto const prefix = random_side(1, 6, 12, 4);
    imbrex::dense_kv const first{prefix.codes.view, prefix.codes.view}, then{s.codes.view, s.codes.view};
    lengths const suffixes{8, 5};
    auto const parts = imbrex::source_of(scaled_kv{imbrex::two_part_kv{first, then, std::span{suffixes}}, s.scales.view, s.scales.view,
                                                   prefix.scales.view, prefix.scales.view});
    for (index j = 0; j < 11; ++j) {
        float const right = j < 6 ? prefix.numbers.view.row(0, j, 0)[11] : s.numbers.view.row(1, j - 6, 0)[11];
        EXPECT_EQ(value_of(parts.head(1, 0), j, 11), right) << j;
    }
    auto const all = random_side(1, 9, 12, 4);
    lengths const starts{0, 2, 9};
    auto const packed =
        imbrex::source_of(scaled_kv{imbrex::packed_kv{all.codes.view, all.codes.view, std::span<position const>{starts}}, all.scales.view, all.scales.view});
    for (index j = 0; j < 7; ++j) EXPECT_EQ(value_of(packed.head(1, 1), j, 0), all.numbers.view.row(0, 2 + j, 1)[0]) << j;
}

TEST_F(KvScaled, ValuesAloneMayBeScaled) {
    tensor<float> const k{{1, 4, kv_heads, 7}, order::bhsd};
    auto const v = random_side(1, 4, 12, 4);
    auto const head = imbrex::source_of(scaled_kv{imbrex::dense_kv{k.view, v.codes.view}, tensor_view<float>{}, v.scales.view}).head(0, 1);
    EXPECT_EQ(head.keys.row(3), k.view.row(0, 3, 1));
    EXPECT_EQ(value_of(head, 3, 6), v.numbers.view.row(0, 3, 1)[6]);
}

// Plans are all that these ask for: what is refused is so before a kernel is chosen.
class ScaledKvRefusal : public testing::Test {
protected:
    std::vector<float> numbers = std::vector<float>(4096);
    std::vector<std::int8_t> codes = std::vector<std::int8_t>(2048);
    tensor_view<float> q = imbrex::bshd(numbers.data(), {1, 1, 2, 12});
    tensor_view<float> out = imbrex::bshd(numbers.data() + 2048, {1, 1, 2, 12});
    tensor_view<std::int8_t> k = imbrex::bshd(codes.data(), {1, 3, 2, 12});
    tensor_view<std::int8_t> v = imbrex::bshd(codes.data() + 512, {1, 3, 2, 12});
    tensor_view<float> k_scales = imbrex::bshd(numbers.data() + 512, {1, 3, 2, 1});
    tensor_view<float> v_scales = imbrex::bshd(numbers.data() + 1024, {1, 3, 2, 4});
    imbrex::plan plan;

    void refused(imbrex::errc code, std::string const& piece) {
        imbrex::status const s = imbrex::plan_for(q, scaled_kv{imbrex::dense_kv{k, v}, k_scales, v_scales}, out, plan);
        EXPECT_EQ(s.code(), code) << s.message().c_str();
        EXPECT_NE(s.message().view().find(piece), std::string_view::npos) << s.message().c_str();
    }
};

TEST_F(ScaledKvRefusal, ThereIsNoneForTheCallThatTheTestsSpoil) {
    ASSERT_OK(imbrex::plan_for(q, scaled_kv{imbrex::dense_kv{k, v}, k_scales, v_scales}, out, plan));
    imbrex::status_text const text = imbrex::path_of(plan);
    std::string_view const path = text.view();
    EXPECT_NE(path.find("f32 x int8 x int8 -> f32"), std::string_view::npos) << path;
#if defined(IMBREX_HAS_INTEGER_UNITS)
    EXPECT_NE(path.find("int8 multiplied as it lies"), std::string_view::npos) << path;
#endif
}

TEST_F(ScaledKvRefusal, ScalesOfOtherShapes) {
    k_scales.shape.tokens = 2;
    refused(imbrex::errc::scales_shape, "key's scales are 4 in all");
    k_scales.shape = {};
    refused(imbrex::errc::scales_shape, "6 are needed");
    k_scales.shape = {1, 3, 2, 13};
    refused(imbrex::errc::scales_shape, "12 are needed");
    k_scales.shape = {1, 3, 2, -1};
    refused(imbrex::errc::negative_size, "key has a negative size -1");
    k_scales.shape = {index{1} << 40, index{1} << 40, 2, 1};
    refused(imbrex::errc::scales_shape, "6 are needed");
}

TEST_F(ScaledKvRefusal, GroupsThatDoNotDivideTheRow) {
    v_scales.shape.head_dim = 5;
    refused(imbrex::errc::group_not_whole, "value has rows of 12 numbers, which are no whole groups of 3");
}

TEST_F(ScaledKvRefusal, ScalesThatAreNotThere) {
    v_scales.data = nullptr;
    refused(imbrex::errc::null_data, "value has 3 tokens but its data pointer is null");
}

TEST_F(ScaledKvRefusal, ScalesAtAnOddAddress) {
    k_scales.data = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(k_scales.data) + 2);
    refused(imbrex::errc::misaligned, "alignment of 4");
}

TEST_F(ScaledKvRefusal, ScalesThatTheOutputLiesOn) {
    v_scales.data = out.data;
    refused(imbrex::errc::output_overlaps_input, "output shares memory with value");
}

TEST_F(ScaledKvRefusal, Int4RowsThatVectorsDoNotDivide) {
    tensor_view<imbrex::int4_pair> const pairs = imbrex::bshd(reinterpret_cast<imbrex::int4_pair*>(codes.data()), {1, 3, 2, 6});
    imbrex::status const s = imbrex::plan_for(q, scaled_kv{imbrex::dense_kv{pairs, v}, k_scales, v_scales}, out, plan);
    EXPECT_EQ(s.code(), imbrex::errc::pairs_not_whole);
    EXPECT_NE(s.message().view().find("key has rows of 12 numbers in int4, which are read 16 at a time"), std::string_view::npos);
}

TEST_F(ScaledKvRefusal, ScalesOfAPrefixUnlikeTheSuffixes) {
    imbrex::dense_kv const part{k, v};
    lengths const n{3};
    auto const planned_with = [&](auto const&... prefix) {
        return imbrex::plan_for(q, scaled_kv{imbrex::two_part_kv{part, part, std::span{n}}, k_scales, v_scales, prefix...}, out, plan);
    };
    EXPECT_OK(planned_with(k_scales, v_scales));
    EXPECT_EQ(planned_with().code(), imbrex::errc::scales_shape);
    EXPECT_EQ(planned_with(v_scales, v_scales).code(), imbrex::errc::scales_shape);
}

TEST_F(ScaledKvRefusal, ScalesOfElementsThatNeedNone) {
    tensor_view<float> const floats = imbrex::bshd(numbers.data() + 1500, {1, 3, 2, 12});
    imbrex::status const s = imbrex::plan_for(q, scaled_kv{imbrex::dense_kv{floats, v}, k_scales, v_scales}, out, plan);
    EXPECT_EQ(s.code(), imbrex::errc::scales_shape) << s.message().c_str();
    EXPECT_NE(s.message().view().find("0 are needed"), std::string_view::npos) << s.message().c_str();
}

}    // namespace
}    // namespace imbrex_test
