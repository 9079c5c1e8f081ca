// kv/: pages, rings and two parts give the bits of the same keys and values in one dense tensor.
#include <numeric>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::block_table;
using imbrex::position;
using f32 = imbrex::precision<float>;
using f32_on_bf16 = imbrex::precision<float, imbrex::bf16, imbrex::bf16, float>;
using lengths = std::vector<position>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr index q_heads = 4, kv_heads = 2, head_dim = 36, head_dim_v = 20;
constexpr imbrex::causal rule{imbrex::align::bottom_right};

class KvSources : public Seeded {
protected:
    // Queries of as many sequences as there are lengths, and each one's keys and values in dense tensors of their own.
    template <class P>
    struct sequences {
        tensor<typename P::query> q;
        tensor<typename P::output> out;
        guarded<float> lse;
        std::vector<tensor<typename P::key>> k;
        std::vector<tensor<typename P::value>> v;

        sequences(index q_tokens, lengths const& n)
            : q{{std::ssize(n), q_tokens, q_heads, head_dim}, order::bshd},
              out{{std::ssize(n), q_tokens, q_heads, head_dim_v}, order::bshd},
              lse{n.size() * static_cast<std::size_t>(q_tokens * q_heads)} {
            for (position const tokens : n) {
                k.emplace_back(shape4{1, tokens, kv_heads, head_dim}, order::bhsd);
                v.emplace_back(shape4{1, tokens, kv_heads, head_dim_v}, order::bhsd);
            }
        }
        imbrex::options options() const { return {.lse = imbrex::bhs(lse.data(), q.view.shape)}; }
    };

    template <class P>
    sequences<P> random_sequences(index q_tokens, lengths const& n) {
        sequences<P> s{q_tokens, n};
        fill(s.q.view);
        for (auto const& k : s.k) fill(k.view);
        for (auto const& v : s.v) fill(v.view);
        return s;
    }

    template <class T>
    static void copy_row(T const* from, T* to, index n) {
        std::copy_n(from, n, to);
    }
    template <class T>
    static void fill_with_nan(tensor<T> const& t) {
        for (auto& x : t.memory) x = imbrex::round_to<T>(nan);
    }

    // Sequence s, on its own: the last `held` tokens of its keys.
    template <class P>
    static void expect_same_bits(sequences<P> const& all, index held = std::numeric_limits<index>::max()) {
        for (std::size_t s = 0; s < all.k.size(); ++s) {
            SCOPED_TRACE(testing::Message() << "sequence " << s);
            auto const b = static_cast<index>(s);
            shape4 const one{1, all.q.view.shape.tokens, q_heads, head_dim};
            tensor<typename P::output> const out{{1, one.tokens, q_heads, head_dim_v}, order::bshd};
            guarded<float> const lse{static_cast<std::size_t>(one.tokens * q_heads)};
            auto k = all.k[s].view;
            auto v = all.v[s].view;
            index const left_out = std::max<index>(0, k.shape.tokens - held);
            k.data += left_out * k.strides.token, v.data += left_out * v.strides.token;
            k.shape.tokens = v.shape.tokens = k.shape.tokens - left_out;
            ASSERT_OK(planned(imbrex::tensor_view<typename P::query const>{all.q.view.row(b, 0, 0), one, all.q.view.strides},
                              imbrex::dense_kv{k, v}, out.view, rule, {.lse = imbrex::bhs(lse.data(), one)}));
            auto const* const ours = all.out.memory.data() + s * out.memory.size();
            EXPECT_EQ(std::memcmp(ours, out.memory.data(), out.memory.size() * sizeof(*ours)), 0);
            EXPECT_EQ(std::memcmp(all.lse.data() + s * lse.size(), lse.data(), lse.size() * sizeof(float)), 0);
        }
    }

    // A pool in which every sequence has its pages in random order, one page to spare in between; all that is not used is NaN.
    template <class P>
    struct pool {
        tensor<typename P::key> k;
        tensor<typename P::value> v;
        std::vector<position> ids, starts;
        index width = 0;
    };

    template <class P>
    pool<P> paged(sequences<P> const& all, lengths const& n, index page_size, order memory, bool lists) {
        index pages = 1, width = 1;
        for (position const tokens : n) {
            pages += (tokens + page_size - 1) / page_size;
            width = std::max(width, (tokens + page_size - 1) / page_size);
        }
        pool<P> p{{{pages, page_size, kv_heads, head_dim}, memory}, {{pages, page_size, kv_heads, head_dim_v}, memory}, {}, {}, 0};
        fill_with_nan(p.k);
        fill_with_nan(p.v);
        std::vector<position> free(static_cast<std::size_t>(pages));
        std::iota(free.begin(), free.end(), 0);
        std::shuffle(free.begin(), free.end(), shuffled_);
        p.width = lists ? 0 : width;
        for (std::size_t s = 0; s < n.size(); ++s) {
            if (lists) p.starts.push_back(static_cast<position>(p.ids.size()));
            for (index j = 0; j < n[s]; ++j) {
                if (j % page_size == 0) p.ids.push_back(free.back()), free.pop_back();
                for (index h = 0; h < kv_heads; ++h) {
                    copy_row(all.k[s].view.row(0, j, h), p.k.view.row(p.ids.back(), j % page_size, h), head_dim);
                    copy_row(all.v[s].view.row(0, j, h), p.v.view.row(p.ids.back(), j % page_size, h), head_dim_v);
                }
            }
            if (!lists) p.ids.resize((s + 1) * static_cast<std::size_t>(width), -1);    // unused ids may be anything
        }
        if (lists) p.starts.push_back(static_cast<position>(p.ids.size()));
        return p;
    }

    template <class P>
    void expect_pages_right(index q_tokens, lengths const& n) {
        auto const all = random_sequences<P>(q_tokens, n);
        for (index const page_size : {1, 3, 16, 64, 400}) {
            order const memory = page_size % 2 == 0 ? order::bhsd : order::bshd;
            SCOPED_TRACE(testing::Message() << q_tokens << " queries, pages of " << page_size);
            auto const p = paged(all, n, page_size, memory, page_size == 3 || page_size == 64);
            imbrex::paged_kv const kv{p.k.view, p.v.view, block_table{p.ids, p.width, p.starts}, std::span{n}};
            ASSERT_OK(planned(all.q.view, kv, all.out.view, rule, all.options()));
            expect_same_bits(all);
        }
    }

    template <class P>
    void expect_ring_right(index q_tokens, index capacity, lengths const& n) {
        SCOPED_TRACE(testing::Message() << q_tokens << " queries, ring of " << capacity);
        auto const all = random_sequences<P>(q_tokens, n);
        tensor<typename P::key> const k{{std::ssize(n), capacity, kv_heads, head_dim}, order::bhsd};
        tensor<typename P::value> const v{{std::ssize(n), capacity, kv_heads, head_dim_v}, order::bshd};
        fill_with_nan(k);
        fill_with_nan(v);
        for (std::size_t s = 0; s < n.size(); ++s) {
            for (index j = 0; j < n[s]; ++j) {
                for (index h = 0; h < kv_heads; ++h) {
                    copy_row(all.k[s].view.row(0, j, h), k.view.row(static_cast<index>(s), j % capacity, h), head_dim);
                    copy_row(all.v[s].view.row(0, j, h), v.view.row(static_cast<index>(s), j % capacity, h), head_dim_v);
                }
            }
        }
        ASSERT_OK(planned(all.q.view, imbrex::ring_kv{k.view, v.view, std::span{n}}, all.out.view, rule, all.options()));
        expect_same_bits(all, capacity);
    }

    // The prefix is the first tokens of sequence 0, and of all others.
    template <class P>
    void expect_two_parts_right(index q_tokens, index prefix, lengths const& suffixes) {
        SCOPED_TRACE(testing::Message() << q_tokens << " queries, prefix of " << prefix);
        lengths n = suffixes;
        for (position& tokens : n) tokens += static_cast<position>(prefix);
        auto const all = random_sequences<P>(q_tokens, n);
        index const most = *std::max_element(suffixes.begin(), suffixes.end());
        tensor<typename P::key> const pk{{1, prefix, kv_heads, head_dim}, order::bshd},
            k{{std::ssize(n), most, kv_heads, head_dim}, order::bhsd};
        tensor<typename P::value> const pv{{1, prefix, kv_heads, head_dim_v}, order::bhsd},
            v{{std::ssize(n), most, kv_heads, head_dim_v}, order::bhsd};
        fill_with_nan(k);
        fill_with_nan(v);
        for (std::size_t s = 0; s < n.size(); ++s) {
            auto const b = static_cast<index>(s);
            for (index j = 0; j < n[s]; ++j) {
                for (index h = 0; h < kv_heads; ++h) {
                    if (j < prefix) {    // of sequence 0
                        copy_row(all.k[0].view.row(0, j, h), all.k[s].view.row(0, j, h), head_dim);
                        copy_row(all.v[0].view.row(0, j, h), all.v[s].view.row(0, j, h), head_dim_v);
                    }
                    copy_row(all.k[s].view.row(0, j, h), j < prefix ? pk.view.row(0, j, h) : k.view.row(b, j - prefix, h), head_dim);
                    copy_row(all.v[s].view.row(0, j, h), j < prefix ? pv.view.row(0, j, h) : v.view.row(b, j - prefix, h), head_dim_v);
                }
            }
        }
        imbrex::two_part_kv const kv{imbrex::dense_kv{pk.view, pv.view}, imbrex::dense_kv{k.view, v.view}, std::span<position const>{suffixes}};
        ASSERT_OK(planned(all.q.view, kv, all.out.view, rule, all.options()));
        expect_same_bits(all);
    }

private:
    std::mt19937 shuffled_{test_seed()};
};

TEST_F(KvSources, PagesOfAnySizeGiveTheBitsOfDenseKeys) {
    expect_pages_right<f32>(1, {300, 0, 13, 1});
    expect_pages_right<f32>(40, {300, 17, 0, 40});    // gathered
    expect_pages_right<f32>(300, {300, 700});
}

TEST_F(KvSources, PagesOf16BitElementsGiveTheBitsOfDenseKeys) {
    expect_pages_right<f32_on_bf16>(2, {300, 0, 13, 1});
    expect_pages_right<f32_on_bf16>(40, {300, 17, 0, 40});
}

TEST_F(KvSources, ManyTilesOfPagesGiveTheBitsOfDenseKeys) { expect_pages_right<f32>(1, {2600, 1024, 1025}); }

TEST_F(KvSources, SequencesMayShareAPage) {
    lengths const n{20, 18};
    auto const all = random_sequences<f32>(3, n);
    for (index j = 0; j < 16; ++j) {
        for (index h = 0; h < kv_heads; ++h) {
            copy_row(all.k[0].view.row(0, j, h), all.k[1].view.row(0, j, h), head_dim);
            copy_row(all.v[0].view.row(0, j, h), all.v[1].view.row(0, j, h), head_dim_v);
        }
    }
    auto p = paged(all, n, 16, order::bshd, false);
    p.ids[static_cast<std::size_t>(p.width)] = p.ids[0];
    imbrex::paged_kv const kv{p.k.view, p.v.view, block_table{p.ids, p.width, {}}, std::span{n}};
    ASSERT_OK(planned(all.q.view, kv, all.out.view, rule, all.options()));
    expect_same_bits(all);
}

TEST_F(KvSources, RingsGiveTheBitsOfTheLastKeys) {
    for (index const q_tokens : {1, 40}) {
        expect_ring_right<f32>(q_tokens, 64, {0, 1, 63, 64, 65, 127, 128, 200});
        expect_ring_right<f32>(q_tokens, 300, {299, 301, 1000});
    }
    expect_ring_right<f32>(300, 700, {699, 900});
    expect_ring_right<f32>(1, 1, {0, 1, 5});
    expect_ring_right<f32_on_bf16>(8, 100, {99, 250});
}

TEST_F(KvSources, TwoPartsGiveTheBitsOfOne) {
    for (index const q_tokens : {1, 40, 300}) {
        expect_two_parts_right<f32>(q_tokens, 200, {0, 1, 100});
        expect_two_parts_right<f32>(q_tokens, 0, {5, 77});
        expect_two_parts_right<f32>(q_tokens, 256, {256, 0});
    }
    expect_two_parts_right<f32>(1, 1500, {0, 700});
    expect_two_parts_right<f32_on_bf16>(40, 200, {1, 100});
}

}    // namespace
}    // namespace imbrex_test
