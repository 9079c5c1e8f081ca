// Every family of masks as one type, so that the kernel is compiled once for all, and each with its own idea of what is visible.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {

using imbrex::causal;
using imbrex::coverage;
using imbrex::head_context;
using imbrex::kv_range;
using imbrex::position;
using imbrex::tile_window;

// One mask of several types, chosen at run time.
template <class... Masks>
struct one_of {
    std::variant<Masks...> mask;

    template <class Ctx, class Q, class K>
    IMBREX_NOINLINE auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        using seen = decltype(q == kv);
        return std::visit([&](auto const& m) { return seen(m.keep(ctx, q, kv)); }, mask);
    }
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        return std::visit([&](auto const& m) { return m.classify(ctx, w); }, mask);
    }
    kv_range kv_bounds(head_context const& ctx, position first, position last) const noexcept {
        return std::visit([&](auto const& m) { return imbrex::kv_bounds_of(m, ctx, first, last); }, mask);
    }
    imbrex::status check(imbrex::call_shape const& call) const noexcept {
        return std::visit([&](auto const& m) { return imbrex::check_rule(m, call); }, mask);
    }
};

struct keeps_even_keys {
    template <class Ctx, class Q, class K>
    auto operator()(Ctx const&, Q const&, K const& kv) const {
        return (kv & 1) == 0;
    }
};

inline constexpr causal diagonal{imbrex::align::bottom_right};

template <class A, class B>
using both = imbrex::both_masks<A, B>;
using any_mask =
    one_of<imbrex::window, imbrex::prefix, imbrex::prefix_lengths, imbrex::either_mask<imbrex::prefix, imbrex::window>, imbrex::negated_mask<imbrex::window>,
           both<imbrex::chunked, causal>, imbrex::documents, both<imbrex::documents, causal>, imbrex::packed_documents, both<imbrex::key_lengths, causal>,
           imbrex::key_lengths, both<imbrex::left_padding, causal>, imbrex::mask_tensor<bool>, imbrex::mask_tensor<std::uint8_t>, imbrex::bit_mask, imbrex::tree,
           imbrex::block_sparse<>, imbrex::block_sparse<causal>, imbrex::mask_fn<keeps_even_keys>>;

struct named_mask {
    std::string name;
    any_mask rule;
    visibility sees;
};

// The masks that a call of this shape is tried with, and the memory of their operands, each between guard pages.
class masks_for {
public:
    explicit masks_for(attention_case const& shape) : c{shape}, offset{c.kv_tokens - c.q_tokens} {
        add_windows();
        add_ranges();
        add_lengths();
        add_tensors();
        add_trees();
        add_blocks();
    }
    std::vector<named_mask> const& all() const { return all_; }

private:
    void add(std::string name, auto rule, visibility sees) { all_.push_back({std::move(name), {rule}, std::move(sees)}); }

    template <class T>
    std::span<T> keep(std::vector<T> const& values) {
        auto memory = std::make_shared<guarded<T>>(values.size());
        std::copy(values.begin(), values.end(), memory->data());
        memory_.push_back(memory);
        return {memory->data(), values.size()};
    }
    // keep's T is not bool: std::vector<bool> has no data.
    bool const* keep_bools(std::vector<std::uint8_t> const& values) { return reinterpret_cast<bool const*>(keep(values).data()); }

    static std::size_t at(index i) { return static_cast<std::size_t>(i); }

    void add_windows() {
        index const o = offset;
        add("window", imbrex::window{.left = 10, .right = 3}, [o](index, index, index i, index j) { return i + o - j <= 10 && j - i - o <= 3; });
        add("long window", imbrex::window{.left = 60, .right = 0}, [o](index, index, index i, index j) { return j > i + o - 61 && j <= i + o; });
        add("all but a window", !imbrex::window{.left = 20, .right = 5}, [o](index, index, index i, index j) { return j < i + o - 20 || j > i + o + 5; });
        add("prefix", imbrex::prefix{5}, [](index, index, index, index j) { return j <= 4; });
        add("sinks and a window", imbrex::prefix{4} || imbrex::window{.left = 30, .right = 0},
            [o](index, index, index i, index j) { return j < 4 || (i + o - j >= 0 && i + o - j <= 30); });
        add("even keys", imbrex::mask_fn{keeps_even_keys{}}, [](index, index, index, index j) { return j % 2 == 0; });
    }

    void add_ranges() {
        index const o = offset, n = c.kv_tokens;
        add("chunks, causal", imbrex::chunked{37} && diagonal, [o](index, index, index i, index j) {
            index const p = i + o;
            return p >= 0 && p / 37 == j / 37 && j <= p;
        });
        std::vector<position> ids, starts{0};
        for (index b = 0; b < c.batch; ++b) {
            for (index j = 0; j < n; ++j) ids.push_back(static_cast<position>(b == 0 ? j / 50 * 3 : j < n / 3 ? 0 : 1));
        }
        auto const same = [o, n, ids](index b, index, index i, index j) { return i + o >= 0 && ids[at(b * n + i + o)] == ids[at(b * n + j)]; };
        auto const kept = keep(ids);
        add("documents", imbrex::documents{kept, n}, same);
        add("documents, causal", imbrex::documents{kept, n} && diagonal,
            [=](index b, index h, index i, index j) { return same(b, h, i, j) && j <= i + o; });
        for (index start = 29; start < n - 7; start += 29) starts.push_back(static_cast<position>(start));
        add("packed documents", imbrex::packed_documents{keep(starts)}, [o, starts](index, index, index i, index j) {
            for (std::size_t d = 0; d + 1 < starts.size(); ++d) {
                if (starts[d] <= i + o && i + o < starts[d + 1]) return starts[d] <= j && j < starts[d + 1];
            }
            return false;
        });
    }

    void add_lengths() {
        index const o = offset, n = c.kv_tokens;
        std::vector<position> lengths;
        for (index b = 0; b < c.batch; ++b) lengths.push_back(static_cast<position>(b % 2 == 0 ? n / 2 + 1 : 3 * n / 4));
        auto const kept = keep(lengths);
        auto const length = [lengths](index b) { return lengths[at(b)]; };
        add("lengths", imbrex::key_lengths{kept}, [=](index b, index, index, index j) { return j < length(b); });
        add("lengths, causal", imbrex::key_lengths{kept} && diagonal, [=](index b, index, index i, index j) { return j < length(b) && j <= i + o; });
        add("left padding, causal", imbrex::left_padding{kept} && diagonal, [=](index b, index, index i, index j) { return j >= length(b) && j <= i + o; });
        add("prefixes", imbrex::prefix_lengths{kept}, [=](index b, index, index, index j) { return j < length(b); });
    }

    void add_tensors() {
        for (int const ones : {0, 2, 3, 7, 10, 13}) {
            imbrex::score_shape const s{ones & 1 ? 1 : c.batch, ones & 2 ? 1 : c.q_heads, ones & 4 ? 1 : c.q_tokens, ones & 8 ? 1 : c.kv_tokens};
            std::vector<std::uint8_t> entries(at(s.batch * s.heads * s.q_tokens * s.kv_tokens)), bits;
            std::mt19937 engine{test_seed()};
            for (auto& x : entries) x = engine() % 3 != 0;
            auto const sees = [s, entries](index b, index h, index i, index j) {
                auto const along = [](index axis, index place) { return axis == 1 ? 0 : place; };
                return entries[at(((along(s.batch, b) * s.heads + along(s.heads, h)) * s.q_tokens + along(s.q_tokens, i)) * s.kv_tokens +
                                  along(s.kv_tokens, j))] != 0;
            };
            index const row = (s.kv_tokens + 7) / 8;
            bits.resize(entries.size() / at(s.kv_tokens) * at(row));
            for (index e = 0; e < static_cast<index>(entries.size()); ++e) {
                index const key = e % s.kv_tokens;
                bits[at(e / s.kv_tokens * row + key / 8)] |= static_cast<std::uint8_t>(entries[at(e)] << key % 8);
            }
            std::string const suffix = ", axes of one " + std::to_string(ones);
            add("bools" + suffix, imbrex::mask_tensor{imbrex::score_matrix(keep_bools(entries), s)}, sees);
            add("bits" + suffix, imbrex::packed_bits(keep(bits).data(), s), sees);
            if (ones == 0) add("bytes", imbrex::mask_tensor{imbrex::score_matrix(keep(entries).data(), s)}, sees);
        }
    }

    void add_trees() {
        index const n = std::min<index>({c.q_tokens, c.kv_tokens, 40}), first = c.kv_tokens - n, o = offset;
        std::vector<position> parents, entry(at(n * c.batch)), exit(at(n * c.batch));
        std::mt19937 engine{test_seed()};
        for (index b = 0; b < c.batch; ++b) {
            for (index i = 0; i < n; ++i) parents.push_back(static_cast<position>(engine() % static_cast<unsigned>(i + 1)) - 1);
            auto const part = [&](std::vector<position>& of) { return std::span{of}.subspan(at(b * n), at(n)); };
            EXPECT_OK(imbrex::number_tree(part(parents), part(entry), part(exit)));
        }
        add("trees", imbrex::tree{keep(entry), keep(exit), n}, [=](index b, index, index i, index j) {
            if (j < first) return true;
            if (i + o < first) return false;
            index token = i + o - first;
            while (token > j - first) token = parents[at(b * n + token)];
            return token == j - first;
        });
    }

    void add_blocks() {
        index const q_block = 24, kv_block = 50, o = offset;
        imbrex::score_shape const s{1, c.q_heads, (c.q_tokens + q_block - 1) / q_block, (c.kv_tokens + kv_block - 1) / kv_block};
        std::vector<std::uint8_t> blocks(at(s.heads * s.q_tokens * s.kv_tokens));
        std::mt19937 engine{test_seed()};
        for (auto& x : blocks) x = static_cast<std::uint8_t>(engine() % 3);
        auto const value = [=](index h, index i, index j) { return blocks[at((h * s.q_tokens + i / q_block) * s.kv_tokens + j / kv_block)]; };
        auto const view = imbrex::score_matrix<std::uint8_t const>(keep(blocks).data(), s);
        add("blocks", imbrex::block_sparse{view, q_block, kv_block}, [=](index, index h, index i, index j) { return value(h, i, j) != 0; });
        add("blocks, causal within", imbrex::block_sparse{view, q_block, kv_block, diagonal},
            [=](index, index h, index i, index j) { return value(h, i, j) == 1 || (value(h, i, j) == 2 && j <= i + o); });
    }

    attention_case c;
    index offset;
    std::vector<named_mask> all_;
    std::vector<std::shared_ptr<void>> memory_;
};

}    // namespace imbrex_test
