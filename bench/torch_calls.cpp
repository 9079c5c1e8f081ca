// Calls of ours for bench/torch_peer.py, through C: tensors (batch, heads, tokens, head_dim), contiguous, on OpenMP's threads.
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include <imbrex/executors/openmp.hpp>
#include <imbrex/imbrex.hpp>

namespace {

using imbrex::index;

struct call_shape {
    std::int64_t batch, q_heads, kv_heads, q_tokens, kv_tokens, head_dim, causal, threads;
};

struct call {
    virtual ~call() = default;
    virtual imbrex::status run() = 0;
    imbrex::plan plan;
    std::vector<std::byte> workspace;
    imbrex::status made;
};

template <class T, class Rule>
struct call_of final : call {
    imbrex::tensor_view<T const> q;
    imbrex::dense_kv<T> kv;
    imbrex::tensor_view<T> out;
    Rule rule;
    imbrex::openmp_executor threads;

    call_of(call_shape const& s, void const* queries, void const* keys, void const* values, void* outputs, Rule const& r)
        : q{imbrex::bhsd(static_cast<T const*>(queries), {s.batch, s.q_tokens, s.q_heads, s.head_dim})},
          kv{imbrex::bhsd(static_cast<T const*>(keys), {s.batch, s.kv_tokens, s.kv_heads, s.head_dim}),
             imbrex::bhsd(static_cast<T const*>(values), {s.batch, s.kv_tokens, s.kv_heads, s.head_dim})},
          out{imbrex::bhsd(static_cast<T*>(outputs), {s.batch, s.q_tokens, s.q_heads, s.head_dim})},
          rule{r},
          threads{static_cast<int>(s.threads)} {
        made = imbrex::plan_for(q, kv, out, plan);
        if (made) workspace.resize(imbrex::workspace_bytes(plan, s.threads));
    }
    imbrex::status run() override { return imbrex::attention(plan, q, kv, out, rule, {.executor = threads, .workspace = workspace}); }
};

template <class T>
call* make(call_shape const& s, void const* q, void const* k, void const* v, void* out) {
    if (s.causal != 0) return new call_of<T, imbrex::causal>{s, q, k, v, out, imbrex::causal{imbrex::align::bottom_right}};
    return new call_of<T, imbrex::full>{s, q, k, v, out, {}};
}

}    // namespace

// dtype: 0 f32, 1 bf16, 2 f16. Null where it cannot be planned.
extern "C" call* imbrex_make(int dtype, call_shape const* s, void const* q, void const* k, void const* v, void* out) {
    std::unique_ptr<call> made{dtype == 0   ? make<float>(*s, q, k, v, out)
                               : dtype == 1 ? make<imbrex::bf16>(*s, q, k, v, out)
                                            : make<imbrex::f16>(*s, q, k, v, out)};
    return made->made ? made.release() : nullptr;
}
extern "C" int imbrex_run(call* c) { return c->run() ? 0 : 1; }
extern "C" void imbrex_path(call* c, char* text, int size) {
    auto const path = path_of(c->plan);
    path.view().copy(text, static_cast<std::size_t>(size - 1));
    text[std::min<std::size_t>(path.view().size(), static_cast<std::size_t>(size - 1))] = '\0';
}
extern "C" void imbrex_free(call* c) { delete c; }
