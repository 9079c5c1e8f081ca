// Every transform and sink as one rule, chosen at run time, and the reference's own idea of each.
#pragma once

#include <span>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {

using f32 = imbrex::precision<float>;
using imbrex::align;
using imbrex::bf16;
using imbrex::coverage;
using imbrex::f16;
using imbrex::head_context;
using imbrex::position;
using imbrex::row_context;
using imbrex::score_stage;
using imbrex::score_view;
using imbrex::tile_window;

inline constexpr float infinite = std::numeric_limits<float>::infinity();

// One type for all, so that the kernel is compiled once: each part is one of its kind, or none, by `form`; not inlined, so that each
// transform is compiled once besides.
enum class scaling { none, head_scale, length_temperature };
enum class bias { none, alibi, relative, tensor_f32, tensor_bf16, tensor_f16, tensor_f64, function };

struct any_scaling {
    static constexpr score_stage stage = score_stage::scale;
    scaling form = scaling::none;
    imbrex::head_scale by_head{};
    imbrex::length_temperature by_length{};

    template <class Ctx, class S, class Q, class K>
    IMBREX_NOINLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        switch (form) {
            case scaling::none: return s;
            case scaling::head_scale: return by_head.transform(ctx, s, q, kv);
            case scaling::length_temperature: return by_length.transform(ctx, s, q, kv);
        }
        return s;
    }
    imbrex::status check(imbrex::call_shape const& call) const noexcept {
        if (form == scaling::head_scale) return by_head.check(call);
        return form == scaling::length_temperature ? by_length.check(call) : imbrex::status{};
    }
};

struct any_cap {
    static constexpr score_stage stage = score_stage::cap;
    bool on = false;
    imbrex::softcap cap{1};

    template <class Ctx, class S, class Q, class K>
    IMBREX_NOINLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        return on ? cap.transform(ctx, s, q, kv) : s;
    }
    imbrex::status check(imbrex::call_shape const& call) const noexcept { return on ? cap.check(call) : imbrex::status{}; }
};

inline auto half_of_even_keys_hidden() {
    return imbrex::transform_fn([](auto const&, auto const& s, auto const&, auto const& kv) {
        using S = std::remove_cvref_t<decltype(s)>;
        return imbrex::select((kv & 3) == 2, S(-infinite), S(s + imbrex::as_score<S>(kv & 7)));
    });
}

struct any_bias {
    static constexpr score_stage stage = score_stage::bias;
    bias form = bias::none;
    imbrex::alibi slopes{};
    imbrex::relative_bias relative{{}, 1, 0};
    imbrex::bias_tensor<float> tensor_f32{score_view<float const>{}};
    imbrex::bias_tensor<bf16> tensor_bf16{score_view<bf16 const>{}};
    imbrex::bias_tensor<f16> tensor_f16{score_view<f16 const>{}};
    imbrex::bias_tensor<double> tensor_f64{score_view<double const>{}};

    template <class F>
    auto with_form(F const& f) const noexcept {
        switch (form) {
            case bias::alibi: return f(slopes);
            case bias::relative: return f(relative);
            case bias::tensor_bf16: return f(tensor_bf16);
            case bias::tensor_f16: return f(tensor_f16);
            case bias::tensor_f64: return f(tensor_f64);
            case bias::function: return f(half_of_even_keys_hidden());
            default: return f(tensor_f32);
        }
    }
    template <class Ctx, class S, class Q, class K>
    IMBREX_NOINLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        if (form == bias::none) return s;
        return with_form([&](auto const& rule) { return rule.transform(ctx, s, q, kv); });
    }
    using stages_rows = void;
    template <class V>
    IMBREX_NOINLINE V row(row_context<position> const& ctx, position q, position kv, int n) const noexcept {
        switch (form) {
            case bias::tensor_f32: return tensor_f32.row<V>(ctx, q, kv, n);
            case bias::tensor_bf16: return tensor_bf16.row<V>(ctx, q, kv, n);
            case bias::tensor_f16: return tensor_f16.row<V>(ctx, q, kv, n);
            case bias::tensor_f64: return tensor_f64.row<V>(ctx, q, kv, n);
            default: return V(0);    // the others do not look at it
        }
    }
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        if (form == bias::none) return coverage::full;
        return with_form([&](auto const& rule) { return imbrex::classify_of(rule, ctx, w); });
    }
    imbrex::status check(imbrex::call_shape const& call) const noexcept {
        if (form == bias::none) return {};
        return with_form([&](auto const& rule) { return imbrex::check_rule(rule, call); });
    }
};

struct perhaps_causal {
    bool on = false;

    template <class Q, class K>
    auto keep(head_context const&, Q const& q, K const& kv) const noexcept {
        return kv <= q + (on ? 0 : 1 << 20);
    }
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        return on ? imbrex::causal{align::bottom_right}.classify(ctx, w) : coverage::full;
    }
};

struct perhaps_sink {
    std::span<float const> logits{};
    template <class Ctx>
    double sink(Ctx const& ctx) const noexcept {
        return logits.empty() ? -std::numeric_limits<double>::infinity() : imbrex::sink_logits<float>{logits}.sink(ctx);
    }
};

// What each form is made of, and the reference's own idea of it.
struct rule_case {
    scaling scales = scaling::none;
    double cap = 0;    // 0: none
    bias adds = bias::none;
    bool causal = false;
    bool sink = false;
};
inline std::ostream& operator<<(std::ostream& text, rule_case const& r) {
    return text << "scaling " << static_cast<int>(r.scales) << ", cap " << r.cap << ", bias " << static_cast<int>(r.adds)
                << (r.causal ? ", causal" : "") << (r.sink ? ", sink" : "");
}

class AttentionTransforms : public Seeded {
protected:
    static constexpr index heads = 4, most = 20, step = 40;
    std::vector<float> const factors{1.f, 0.5f, 1.5f, 0.25f}, slopes{0.25f, 0.0625f, 0.1f, 0.01f}, logits{0.f, 2.f, -3.f, 20.f};
    std::vector<float> temperatures, table, tensor_f32;
    std::vector<bf16> tensor_bf16;
    std::vector<f16> tensor_f16;
    std::vector<double> tensor_f64;

    void make_tables(attention_case const& c) {
        temperatures.assign(static_cast<std::size_t>(c.kv_tokens / step + 1), 0.f);
        imbrex::llama4_temperatures(0.5, temperatures);
        table.resize(static_cast<std::size_t>(heads * (2 * most + 1)));
        for (float& x : table) x = static_cast<float>(normal());
        std::size_t const count = static_cast<std::size_t>(c.batch * heads * c.q_tokens * c.kv_tokens);
        tensor_f32.resize(count), tensor_bf16.resize(count), tensor_f16.resize(count), tensor_f64.resize(count);
        for (std::size_t i = 0; i < count; ++i) {
            double const x = i % 5 == 0 ? -static_cast<double>(infinite) : 2 * normal();
            tensor_f32[i] = static_cast<float>(x), tensor_bf16[i] = bf16(x), tensor_f16[i] = f16(x), tensor_f64[i] = x;
        }
    }

    auto rule_of(rule_case const& r, attention_case const& c) const {
        imbrex::score_shape const shape{c.batch, heads, c.q_tokens, c.kv_tokens};
        any_bias added{r.adds, {slopes}, {table, heads, most}};
        added.tensor_f32 = imbrex::bias_tensor(imbrex::score_matrix(tensor_f32.data(), shape));
        added.tensor_bf16 = imbrex::bias_tensor(imbrex::score_matrix(tensor_bf16.data(), shape));
        added.tensor_f16 = imbrex::bias_tensor(imbrex::score_matrix(tensor_f16.data(), shape));
        added.tensor_f64 = imbrex::bias_tensor(imbrex::score_matrix(tensor_f64.data(), shape));
        perhaps_sink const sink{r.sink ? std::span<float const>{logits} : std::span<float const>{}};
        any_scaling const scale{r.scales, {factors}, {temperatures, step}};
        using imbrex::operator|;
        return scale | any_cap{r.cap != 0, imbrex::softcap{r.cap != 0 ? r.cap : 1}} | added | perhaps_causal{r.causal} | sink;
    }

    // Llama 4's, as the float that the table holds.
    static long double temperature_at(index q) {
        return static_cast<float>(1 + 0.5 * std::log(1 + static_cast<double>((q + 1) / step)));
    }
    double bias_at(rule_case const& r, attention_case const& c, index b, index h, index i, index j) const {
        index const q = i + c.kv_tokens - c.q_tokens;
        std::size_t const at = static_cast<std::size_t>(((b * heads + h) * c.q_tokens + i) * c.kv_tokens + j);
        switch (r.adds) {
            case bias::none: return 0;
            case bias::alibi: return -static_cast<double>(slopes[static_cast<std::size_t>(h)]) * static_cast<double>(std::abs(q - j));
            case bias::relative:
                return static_cast<double>(table[static_cast<std::size_t>(h * (2 * most + 1) + std::min(most, std::max(-most, j - q)) + most)]);
            case bias::tensor_f32: return static_cast<double>(tensor_f32[at]);
            case bias::tensor_bf16: return imbrex::to_double(tensor_bf16[at]);
            case bias::tensor_f16: return imbrex::to_double(tensor_f16[at]);
            case bias::tensor_f64: return tensor_f64[at];
            case bias::function: return j % 4 == 2 ? -static_cast<double>(infinite) : static_cast<double>(j % 8);
        }
        return 0;
    }
    score_effects effects_of(rule_case const& r, attention_case const& c) const {
        score_effects e;
        e.change = [=, this](index b, index h, index i, index j, long double s) -> long double {
            if (r.scales == scaling::head_scale) s *= static_cast<long double>(factors[static_cast<std::size_t>(h)]);
            if (r.scales == scaling::length_temperature) s *= temperature_at(i + c.kv_tokens - c.q_tokens);
            if (r.cap != 0) s = r.cap * std::tanh(s / static_cast<long double>(r.cap));
            return s + static_cast<long double>(bias_at(r, c, b, h, i, j));
        };
        if (r.sink) e.sink = [this](index h) { return logits[static_cast<std::size_t>(h)]; };
        return e;
    }
    visibility visibility_of(rule_case const& r, attention_case const& c) const {
        return [=, this](index b, index h, index i, index j) {
            if (r.causal && !sees_bottom_right(c.q_tokens, c.kv_tokens)(b, h, i, j)) return false;
            return bias_at(r, c, b, h, i, j) != -static_cast<double>(infinite);
        };
    }

    template <class P>
    static imbrex::options with_lse(call_tensors<P> const& t) { return {.lse = imbrex::bhs(t.lse.data(), t.q.view.shape)}; }

    // f(rule, its effects, tensors, case) for GQA 4/2 and no GQA, batch 2, in the narrow unit and the wide one.
    template <class P = f32, class F>
    void for_each_unit(rule_case const& r, F const& f) {
        for (index const kv_heads : {2, 4}) {
            for (index const q_tokens : {1, 3, 8, 75, 130}) {
                attention_case const c{.batch = 2, .q_tokens = q_tokens, .kv_tokens = 150, .q_heads = heads, .kv_heads = kv_heads, .head_dim = 24};
                SCOPED_TRACE(testing::Message() << c << ", " << r);
                make_tables(c);
                call_tensors<P> const t{c};
                fill(t, 1.5);
                f(t, c);
            }
        }
    }
    template <class P = f32>
    void expect_right(rule_case const& r) {
        for_each_unit<P>(r, [&](call_tensors<P> const& t, attention_case const& c) {
            ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
            expect_accurate(t, visibility_of(r, c), accuracy::rule, {}, effects_of(r, c));
        });
    }
};

}    // namespace imbrex_test
