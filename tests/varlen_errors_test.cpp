// What is refused of packed calls: each with its numbers, and nothing written.
#include <span>
#include <string>
#include <vector>

#include "instances/instances.hpp"
#include "refusal.hpp"

namespace imbrex_test {
namespace {

using imbrex::packed_kv;
using imbrex::packed_queries;
using imbrex::position;
using imbrex::tensor_role;

class VarlenRefusal : public Refusal {
protected:
    // 6 queries and 10 keys in two sequences.
    VarlenRefusal() {
        q.shape = {1, 6, 4, 8};
        k.shape = {1, 10, 2, 8};
        v.shape = {1, 10, 2, 6};
        out.shape = {1, 6, 4, 6};
        o.lse = imbrex::bhs(block.data() + 3072, q.shape);
    }
    std::vector<position> q_starts{0, 2, 6}, kv_starts{0, 5, 10};
    plan const for_two = make({.batch = 2, .q_tokens = 4, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6});

    template <class F>
    void refused(F const& with, errc code, pieces const& wanted) {
        imbrex::causal const r{imbrex::align::bottom_right};
        expect_refused([&] { return with([&](auto const& x, auto const& kv) { return imbrex::attention(x, kv, out, r, o); }); }, code,
                       wanted);
        expect_refused([&] { return with([&](auto const& x, auto const& kv) { return imbrex::attention(for_two, x, kv, out, r, o); }); },
                       code, wanted);
    }
    void refused(errc code, pieces const& wanted) {
        refused([&](auto const& f) { return f(packed_queries{q, q_starts}, packed_kv{k, v, kv_starts}); }, code, wanted);
    }
};

TEST_F(VarlenRefusal, ThereIsNoneForTheCallThatTheTestsSpoil) {
    status const s = imbrex::attention(for_two, packed_queries{q, q_starts}, packed_kv{k, v, kv_starts}, out, imbrex::full{}, o);
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    EXPECT_EQ(out.data[5 * 24 + 23], 0.25f);
}

TEST_F(VarlenRefusal, NoStarts) {
    q_starts.clear();
    refused(errc::starts_missing, {"query's sequence starts are empty"});
    q_starts = {0, 2, 6};
    kv_starts.clear();
    refused(errc::starts_missing, {"key's sequence starts are empty"});
}

TEST_F(VarlenRefusal, StartsThatFallOrAreNegative) {
    q_starts = {0, 5, 4};
    refused(errc::starts_order, {"query's", "hold 4 at entry 2"});
    q_starts = {-1, 2, 6};
    refused(errc::starts_order, {"query's", "hold -1 at entry 0", "negative"});
    q_starts = {0, 2, 6};
    kv_starts = {0, -2147483647 - 1, 10};
    refused(errc::starts_order, {"key's", "hold -2147483648 at entry 1"});
    kv_starts = {2147483647, 0, 10};
    refused(errc::starts_order, {"key's", "hold 0 at entry 1"});
}

TEST_F(VarlenRefusal, SequencesBeyondTheTokens) {
    q_starts = {0, 2, 7};
    refused(errc::starts_beyond, {"query's sequences end at token 7", "has 6"});
    q_starts = {7, 7, 7};
    refused(errc::starts_beyond, {"query's sequences end at token 7", "has 6"});
    q_starts = {0, 2, 6};
    kv_starts = {0, 5, 2147483647};
    refused(errc::starts_beyond, {"key's sequences end at token 2147483647", "has 10"});
}

TEST_F(VarlenRefusal, OtherNumbersOfSequences) {
    kv_starts = {0, 3, 5, 10};
    refused(errc::sequence_count, {"key has 3 packed sequences", "query has 2"});
    kv_starts = {10};
    refused(errc::sequence_count, {"key has 0 packed sequences", "query has 2"});
    kv_starts = {0, 5, 10};
    q_starts = {0, 6};
    refused(errc::sequence_count, {"key has 2 packed sequences", "query has 1"});
    refused([&](auto const& f) { return f(q, packed_kv{k, v, kv_starts}); }, errc::sequence_count,
            {"key has 2 packed sequences", "query has 1"});
    q_starts = {0, 2, 6};
    k.shape.batch = v.shape.batch = 3;
    k.shape.tokens = v.shape.tokens = 3;
    refused([&](auto const& f) { return f(packed_queries{q, q_starts}, dense_kv{k, v}); }, errc::batch_mismatch,
            {"key has batch 3", "query has 2"});
    k.shape.batch = 1;
    refused([&](auto const& f) { return f(packed_queries{q, q_starts}, dense_kv{k, v}); }, errc::batch_mismatch,
            {"value has batch 3", "query has 2"});
}

TEST_F(VarlenRefusal, PackedTensorsWithABatch) {
    q.shape.batch = 2;
    refused(errc::packed_batch, {"query has batch 2", "packed"});
    q.shape.batch = 1;
    k.shape.batch = 0;
    refused(errc::packed_batch, {"key has batch 0"});
    k.shape.batch = 1;
    v.shape.batch = 2;
    refused(errc::packed_batch, {"value has batch 2"});
}

TEST_F(VarlenRefusal, AnOutputThatIsNotPackedAsTheQueriesAre) {
    out.shape = {2, 3, 4, 6};
    refused(errc::output_shape, {"axis 0", "is 2", "must be 1"});
    out.shape = {1, 5, 4, 6};
    refused(errc::output_shape, {"axis 1", "is 5", "must be 6"});
}

TEST_F(VarlenRefusal, MoreOrLongerSequencesThanThePlanHas) {
    auto const call_on = [&](plan const& p) {
        return imbrex::attention(p, packed_queries{q, q_starts}, packed_kv{k, v, kv_starts}, out, imbrex::full{}, o);
    };
    imbrex::problem shape = for_two.shape;
    shape.batch = 1;
    plan const one = make(shape);
    expect_refused([&] { return call_on(one); }, errc::over_batch, {"batch 2", "at most 1"});
    shape.batch = 2;
    shape.q_tokens = 3;
    plan const short_queries = make(shape);
    expect_refused([&] { return call_on(short_queries); }, errc::over_capacity, {"query has 4", "at most 3"});
    shape.q_tokens = 4;
    shape.kv_tokens = 4;
    plan const short_keys = make(shape);
    expect_refused([&] { return call_on(short_keys); }, errc::over_capacity, {"key has 5", "at most 4"});
}

// The starts are read while results are written, so they may share no memory.
TEST_F(VarlenRefusal, StartsThatLieInTheOutputTheLseOrTheWorkspace) {
    std::vector<std::byte> workspace(imbrex::workspace_bytes(for_two));
    o.workspace = workspace;
    auto const placed = [&](void* at) {    // starts 0, 2, 6 there
        auto* const p = static_cast<position*>(at);
        p[0] = 0, p[1] = 2, p[2] = 6;
        return std::span<position const>{p, 3};
    };
    auto const refuse_both = [&](void* at) {
        auto const there = placed(at);
        refused([&](auto const& f) { return f(packed_queries{q, there}, packed_kv{k, v, kv_starts}); }, errc::starts_overlap,
                {"query's sequence starts"});
        refused([&](auto const& f) { return f(packed_queries{q, q_starts}, packed_kv{k, v, there}); }, errc::starts_overlap,
                {"key's sequence starts"});
    };
    refuse_both(out.data + 100);
    refuse_both(o.lse.data + 3);
    refuse_both(workspace.data() + (workspace.size() - 16) / 4 * 4);
}

TEST_F(VarlenRefusal, AWorkspaceForFewerSequences) {
    imbrex::problem shape = for_two.shape;
    shape.batch = 1000;
    plan const many = make(shape);
    EXPECT_GE(imbrex::workspace_bytes(many), imbrex::workspace_bytes(for_two) + 990 * 12);
    std::vector<std::byte> workspace(imbrex::workspace_bytes(many) - 1);
    o.workspace = workspace;
    expect_refused(
        [&] { return imbrex::attention(many, packed_queries{q, q_starts}, packed_kv{k, v, kv_starts}, out, imbrex::full{}, o); },
        errc::workspace_too_small, {std::to_string(workspace.size()), std::to_string(workspace.size() + 1)});
}

TEST_F(VarlenRefusal, AnEmptyPackedCallIsNone) {
    q_starts = {3};
    kv_starts = {3};
    o.workspace = {};
    status const s = imbrex::attention(packed_queries{q, q_starts}, packed_kv{k, v, kv_starts}, out, imbrex::full{}, o);
    EXPECT_TRUE(s.ok()) << s.message().c_str();
}

}    // namespace
}    // namespace imbrex_test
