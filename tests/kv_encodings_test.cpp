// Encoded keys and values: attention over them is attention over the numbers that encoding.hpp says they are, whatever source
// they come from and whichever unit reads them. The reference reads numbers one by one (value_at), in double precision.
#include <numeric>

#include "encoded_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f8_e4m3;
using imbrex::f8_e5m2;
using imbrex::position;
using imbrex::q4_0_block;
using imbrex::q8_0_block;
using lengths = std::vector<position>;

constexpr index kv_heads = encoded_kv_heads;
constexpr imbrex::causal rule{imbrex::align::bottom_right};

class KvEncodings : public Seeded {
protected:
    // Random numbers of sequences of these lengths, encoded in a dense tensor, and as the decoded ones.
    template <class E>
    struct side {
        tensor<E> encoded;
        tensor<float> numbers;

        side(index batch, index tokens, index head_dim, order memory)
            : encoded{in_units<E>({batch, tokens, kv_heads, head_dim}), memory},
              numbers{{batch, tokens, kv_heads, head_dim}, order::bhsd} {
            fill_with_nan(encoded);
        }
    };

    template <class E>
    side<E> random_side(index batch, index tokens, index head_dim, order memory) {
        side<E> s{batch, tokens, head_dim, memory};
        fill(s.numbers.view);
        for_each_row(s.encoded.view, [&](index b, index j, index h, E* row) {
            float* const x = s.numbers.view.row(b, j, h);
            imbrex::encode_row(x, head_dim, row);
            for (index d = 0; d < head_dim; ++d) x[d] = imbrex::value_at(row, d);
        });
        return s;
    }

    // Few rows of blocks are multiplied as they lie, where the processor can.
    template <class K, class V>
    static constexpr numbers_are rounded() {
        return imbrex::group_unit<imbrex::precision<float, K, V>> ? numbers_are::rounded_to_16_bits : numbers_are::rounded_as_floats;
    }

    template <class K, class V>
    void expect_dense_right(index q_tokens, index kv_tokens, index head_dim, index head_dim_v, order memory) {
        SCOPED_TRACE(testing::Message() << q_tokens << " queries, " << kv_tokens << " keys, dense " << head_dim << " " << head_dim_v);
        auto const k = random_side<K>(2, kv_tokens, head_dim, memory);
        auto const v = random_side<V>(2, kv_tokens, head_dim_v, memory);
        asked const a{2, q_tokens, head_dim, head_dim_v};
        fill(a.q.view);
        ASSERT_OK(planned(a.q.view, imbrex::dense_kv{k.encoded.view, v.encoded.view}, a.out.view, rule, a.options()));
        auto const n = static_cast<position>(kv_tokens);
        expect_attention_over(a, k.numbers, v.numbers, {n, n}, kv_tokens, rounded<K, V>());
    }

    // Decode with 4 and 8 rows of a kv head, prefill, and tails of all of them.
    template <class K, class V>
    void expect_all_dense_right(index head_dim, index head_dim_v) {
        for (index const q_tokens : {1, 2, 33, 70}) expect_dense_right<K, V>(q_tokens, 131, head_dim, head_dim_v, order::bshd);
        expect_dense_right<K, V>(1, 1, head_dim, head_dim_v, order::bhsd);
        expect_dense_right<K, V>(1, 2050, head_dim, head_dim_v, order::bhsd);
        expect_dense_right<K, V>(300, 300, head_dim, head_dim_v, order::bshd);    // copied
    }

    template <class K, class V>
    void expect_pages_right(index q_tokens, index head_dim, index head_dim_v, index page_size) {
        SCOPED_TRACE(testing::Message() << q_tokens << " queries, pages of " << page_size);
        lengths const n{300, 0, 13};
        auto const k = random_side<K>(3, 300, head_dim, order::bhsd);
        auto const v = random_side<V>(3, 300, head_dim_v, order::bhsd);
        index const width = (300 + page_size - 1) / page_size, pages = 3 * width + 1;
        std::vector<position> ids(static_cast<std::size_t>(3 * width));
        std::iota(ids.begin(), ids.end(), 1);
        std::reverse(ids.begin(), ids.end());
        auto const pk = in_pages(k.encoded, n, page_size, pages, ids, width);
        auto const pv = in_pages(v.encoded, n, page_size, pages, ids, width);
        asked const a{3, q_tokens, head_dim, head_dim_v};
        fill(a.q.view);
        imbrex::paged_kv const kv{pk.view, pv.view, imbrex::block_table{ids, width, {}}, std::span{n}};
        ASSERT_OK(planned(a.q.view, kv, a.out.view, rule, a.options()));
        expect_attention_over(a, k.numbers, v.numbers, n, 300, rounded<K, V>());
    }
};

// Both narrower than 16 bits: four rows of queries a pass.
TEST_F(KvEncodings, EightBitKeysAndFourBitValuesAreTheirNumbers) {
    expect_all_dense_right<f8_e4m3, q4_0_block>(128, 96);
    expect_all_dense_right<f8_e4m3, q4_0_block>(37, 32);
}

TEST_F(KvEncodings, BlocksOfKeysAnd16BitValuesAreTheirNumbers) {
    expect_all_dense_right<q8_0_block, bf16>(96, 128);
    expect_all_dense_right<q8_0_block, bf16>(32, 37);
}

// Rows of one chunk of groups, of a part of one, and of more.
TEST_F(KvEncodings, BlocksOfKeysAndOfValuesAreTheirNumbers) {
    expect_all_dense_right<q8_0_block, q4_0_block>(128, 96);
    expect_all_dense_right<q8_0_block, q4_0_block>(32, 288);
    for (index const page_size : {1, 16, 400}) expect_pages_right<q8_0_block, q4_0_block>(1, 96, 64, page_size);
}

TEST_F(KvEncodings, SlotsOfPagesThatAreNotUsedMayBeNaN) {
    for (index const q_tokens : {1, 40}) {
        for (index const page_size : {1, 16, 400}) {
            expect_pages_right<f8_e5m2, f8_e4m3>(q_tokens, 80, 64, page_size);
            expect_pages_right<f8_e5m2, f8_e4m3>(q_tokens, 37, 50, page_size);
        }
    }
}

TEST_F(KvEncodings, ValuesOfOneGiveOne) {
    auto const k = random_side<f8_e4m3>(1, 900, 40, order::bhsd);
    tensor<q4_0_block> const v{{1, 900, kv_heads, 2}, order::bhsd};
    std::vector<float> const ones(64, 1.f);
    for_each_row(v.view, [&](index, index, index, q4_0_block* row) { imbrex::encode_row(ones.data(), 64, row); });
    for (index const q_tokens : {1, 40}) {
        asked const a{1, q_tokens, 40, 64};
        fill(a.q.view);
        ASSERT_OK(planned(a.q.view, imbrex::dense_kv{k.encoded.view, v.view}, a.out.view, rule, a.options()));
        for (float const x : a.out.memory) ASSERT_NEAR(x, 1, 0x1p-22);
    }
    auto const blocks = random_side<q8_0_block>(1, 900, 64, order::bhsd);
    for (index const q_tokens : {1, 2}) {
        asked const a{1, q_tokens, 64, 64};
        fill(a.q.view);
        ASSERT_OK(planned(a.q.view, imbrex::dense_kv{blocks.encoded.view, v.view}, a.out.view, rule, a.options()));
        for (float const x : a.out.memory) ASSERT_NEAR(x, 1, 0x1p-22);
    }
}

TEST_F(KvEncodings, NaNOfABlockReachesTheRowsThatSeeIt) {
    auto const k = random_side<q8_0_block>(1, 70, 64, order::bhsd);
    auto const v = random_side<q4_0_block>(1, 70, 64, order::bhsd);
    v.encoded.view.row(0, 69, 0)[1].d = imbrex::f16::from_bits(0x7e00);    // seen by the second token alone
    asked const a{1, 2, 64, 64};
    fill(a.q.view);
    ASSERT_OK(planned(a.q.view, imbrex::dense_kv{k.encoded.view, v.encoded.view}, a.out.view, rule, a.options()));
    for (index const head : {0, 3}) EXPECT_TRUE(std::isnan(a.out.view.row(0, 1, head)[40])) << head;
    for (index const d : {0, 31}) EXPECT_FALSE(std::isnan(a.out.view.row(0, 1, 0)[d])) << d;
    for (index d = 0; d < 64; ++d) EXPECT_FALSE(std::isnan(a.out.view.row(0, 1, 4)[d])) << d;
}

// Plans are all that these ask for: what is refused is so before a kernel is chosen.
class EncodedKvRefusal : public testing::Test {
protected:
    std::vector<float> numbers = std::vector<float>(4096);
    std::vector<q8_0_block> blocks = std::vector<q8_0_block>(64);
    tensor_view<float> q = imbrex::bshd(numbers.data(), {1, 1, 2, 64});
    tensor_view<float> out = imbrex::bshd(numbers.data() + 2048, {1, 1, 2, 64});
    tensor_view<q8_0_block> k = imbrex::bshd(blocks.data(), {1, 3, 1, 2});
    tensor_view<q8_0_block> v = imbrex::bshd(blocks.data() + 6, {1, 3, 1, 2});
    imbrex::plan plan;

    void refused(imbrex::errc code, std::string const& piece) {
        imbrex::status const s = imbrex::plan_for(q, imbrex::dense_kv{k, v}, out, plan);
        EXPECT_EQ(s.code(), code) << s.message().c_str();
        EXPECT_NE(s.message().view().find(piece), std::string_view::npos) << s.message().c_str();
    }
};

TEST_F(EncodedKvRefusal, ThereIsNoneForTheCallThatTheTestsSpoil) {
    ASSERT_OK(imbrex::plan_for(q, imbrex::dense_kv{k, v}, out, plan));
    EXPECT_NE(imbrex::path_of(plan).view().find("f32 x q8_0 x q8_0 -> f32"), std::string_view::npos) << imbrex::path_of(plan).c_str();
}

TEST_F(EncodedKvRefusal, BlocksThatAreNotAsManyAsTheHeadsNeed) {
    k.shape.head_dim = 1;
    refused(imbrex::errc::head_dim_mismatch, "query has head_dim 64 but key has 32");
    k.shape.head_dim = 2, v.shape.head_dim = 1;
    refused(imbrex::errc::output_shape, "is 64 but must be 32");
    v.shape.head_dim = 33;
    refused(imbrex::errc::head_dim_range, "value has head_dim 33; it must be between 1 and 32");
}

TEST_F(EncodedKvRefusal, BlocksAtAnOddAddress) {
    k.data = reinterpret_cast<q8_0_block*>(reinterpret_cast<std::byte*>(k.data) + 1);
    refused(imbrex::errc::misaligned, "key's data pointer is not a multiple of its element's alignment of 2");
}

TEST_F(EncodedKvRefusal, BlocksThatTheOutputLiesOn) {
    out.data = reinterpret_cast<float*>(blocks.data());
    refused(imbrex::errc::output_overlaps_input, "output shares memory with key");
}

}    // namespace
}    // namespace imbrex_test
