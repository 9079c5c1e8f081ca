// What is refused of keys and values in pages, rings and two parts: each with its numbers, and nothing written.
#include <string>
#include <vector>

#include "refusal.hpp"

namespace imbrex_test {
namespace {

using imbrex::kv_layout;
using imbrex::position;
using imbrex::tensor_role;

// Two sequences of 5 and 3 keys, in a pool of 4 pages of 2 slots, rings of 4 slots, or after a prefix of 2.
class KvRefusal : public Refusal {
protected:
    KvRefusal() {
        k = imbrex::bshd<float const>(block.data() + 512, {4, 2, 2, 8});
        v = imbrex::bshd<float const>(block.data() + 1024, {4, 2, 2, 6});
    }
    std::vector<position> lengths{5, 3}, ids{3, 0, 2, 1, 0, -1}, starts{};
    index width = 3;
    tensor_view<float const> prefix_k = imbrex::bshd<float const>(block.data() + 1500, {1, 2, 2, 8});
    tensor_view<float const> prefix_v = imbrex::bshd<float const>(block.data() + 1600, {1, 2, 2, 6});
    plan const for_pages = make({.batch = 2,
                                 .q_tokens = 3,
                                 .kv_tokens = 6,
                                 .q_heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 8,
                                 .head_dim_v = 6,
                                 .layout = kv_layout::paged});
    imbrex::causal const rule{imbrex::align::bottom_right};

    imbrex::paged_kv<float> pages() { return {k, v, {ids, width, starts}, lengths}; }
    imbrex::ring_kv<float> ring() { return {k, v, lengths}; }
    imbrex::two_part_kv<float> parts() { return {{prefix_k, prefix_v}, {k, v}, lengths}; }

    void pages_refused(errc code, pieces const& wanted) {
        expect_refused([&] { return imbrex::attention(q, pages(), out, rule, o); }, code, wanted);
        expect_refused([&] { return imbrex::attention(for_pages, q, pages(), out, rule, o); }, code, wanted);
    }
    void ring_refused(errc code, pieces const& wanted) {
        expect_refused([&] { return imbrex::attention(q, ring(), out, rule, o); }, code, wanted);
    }
    void parts_refused(errc code, pieces const& wanted) {
        expect_refused([&] { return imbrex::attention(q, parts(), out, rule, o); }, code, wanted);
    }
    // As many tensors of rings and suffixes as there are sequences.
    void two_of_four() {
        k = imbrex::bshd<float const>(block.data() + 512, {2, 4, 2, 8});
        v = imbrex::bshd<float const>(block.data() + 1024, {2, 4, 2, 6});
    }
};

TEST_F(KvRefusal, ThereIsNoneForTheCallsThatTheTestsSpoil) {
    EXPECT_TRUE(imbrex::attention(for_pages, q, pages(), out, rule, o).ok());
    starts = {0, 3, 6};
    EXPECT_TRUE(imbrex::attention(for_pages, q, pages(), out, rule, o).ok());
    two_of_four();
    EXPECT_TRUE(imbrex::attention(for_pages, q, ring(), out, rule, o).ok());
    lengths = {4, 3};
    EXPECT_TRUE(imbrex::attention(for_pages, q, parts(), out, rule, o).ok());
}

TEST_F(KvRefusal, APlanForOneRun) {
    lengths = {5, 3};
    expect_refused([&] { return imbrex::attention(fitting, q, pages(), out, rule, o); }, errc::plan_layout, {"pages", "kv_layout::paged"});
}

TEST_F(KvRefusal, LongerThanThePlan) {
    lengths = {5, 7};
    ids = {3, 0, 2, 1, 1, 0, 2, 3};
    width = 4;
    expect_refused([&] { return imbrex::attention(for_pages, q, pages(), out, rule, o); }, errc::over_capacity, {"key has 7", "at most 6"});
}

TEST_F(KvRefusal, LengthsThatAreTooFewOrOutOfRange) {
    lengths = {5};
    pages_refused(errc::lengths_count, {"1 kv lengths", "2 sequences"});
    lengths = {5, -1};
    pages_refused(errc::length_range, {"sequence 1 is -1", "between 0 and 2147483647"});
}

TEST_F(KvRefusal, ABlockTableTooNarrowForTheLength) {
    lengths = {5, 7};
    pages_refused(errc::table_width, {"sequence 1 needs 4 pages", "has 3"});
    starts = {0, 3, 4};
    lengths = {5, 3};
    pages_refused(errc::table_width, {"sequence 1 needs 2 pages", "has 1"});
}

TEST_F(KvRefusal, ABlockTableWithTooFewIds) {
    ids = {3, 0, 2, 1};
    pages_refused(errc::table_ids, {"sequence 1 reaches to id 5", "only 4"});
    width = index{1} << 40;
    pages_refused(errc::table_ids, {"reaches to id 1099511627776"});
}

TEST_F(KvRefusal, IdsThatAreNoPage) {
    ids[1] = 4;
    pages_refused(errc::page_id, {"id 1 is 4", "4 pages"});
    ids[1] = -1;
    pages_refused(errc::page_id, {"id 1 is -1"});
    ids[1] = 0, ids[4] = 77;
    pages_refused(errc::page_id, {"id 4 is 77"});
}

TEST_F(KvRefusal, ListsThatAreNotInOrder) {
    starts = {0, 3};
    pages_refused(errc::table_lists, {"2 starts", "needs 3"});
    starts = {0, 4, 3};
    pages_refused(errc::table_order, {"sequence 1 starts at 4", "-1 ids"});
    starts = {-1, 3, 6};
    pages_refused(errc::table_order, {"sequence 0 starts at -1"});
    starts.clear();
    width = -1;
    pages_refused(errc::table_order, {"sequence 0", "-1 ids"});
}

TEST_F(KvRefusal, PagesOfKeysUnlikeThoseOfValues) {
    v.shape.batch = 3;
    pages_refused(errc::page_count, {"key has 4 pages", "value has 3"});
    v.shape.batch = 4, v.shape.tokens = 1;
    pages_refused(errc::kv_tokens_mismatch, {"key has 2", "value has 1"});
}

TEST_F(KvRefusal, PagesOfMoreSlotsThanPositionsCount) {
    for (int const bits : {31, 40, 62}) {
        k.shape = {1, index{1} << bits, 2, 8}, v.shape = {1, index{1} << bits, 2, 6};
        k.strides.token = v.strides.token = 0;
        pages_refused(errc::too_long, {"key has " + std::to_string(index{1} << bits), "2147483647"});
    }
}

// However far a ring has come, its plan needs no more memory.
TEST_F(KvRefusal, ARingsWorkspaceDoesNotGrowWithItsPositions) {
    auto const bytes = [](index positions) {
        return imbrex::workspace_bytes(make({.q_tokens = 256, .kv_tokens = positions, .q_heads = 8, .kv_heads = 2, .head_dim = 64, .layout = kv_layout::paged}));
    };
    EXPECT_EQ(bytes(1'000'000'000), bytes(10'000'000));    // parts of shorter ones are fewer
}

TEST_F(KvRefusal, PagesWithoutSlots) {
    k.shape.tokens = v.shape.tokens = 0;
    pages_refused(errc::page_size, {"5 tokens", "of 0"});
}

TEST_F(KvRefusal, NumbersThatTheCallWritesOn) {
    std::span const numbers{reinterpret_cast<position const*>(block.data() + 2048), 6};    // in the output
    auto const overlaps = [&](imbrex::block_table const& table, std::span<position const> n) {
        expect_refused([&] { return imbrex::attention(q, imbrex::paged_kv<float>{k, v, table, n}, out, rule, o); }, errc::starts_overlap,
                       {"lengths or block table", "their own"});
    };
    std::fill_n(block.data() + 2048, 6, 0.0f);    // ids and lengths of 0
    overlaps({numbers, 3, {}}, lengths);
    overlaps({ids, 3, {}}, numbers.first(2));
}

TEST_F(KvRefusal, RingsThatDoNotFit) {
    ring_refused(errc::batch_mismatch, {"key has batch 4", "query has 2"});
    two_of_four();
    lengths = {5, 3, 1};
    ring_refused(errc::lengths_count, {"3 kv lengths", "2 sequences"});
    lengths = {0, 3};
    k.shape.tokens = v.shape.tokens = 0;
    ring_refused(errc::page_size, {"3 tokens", "of 0"});
}

TEST_F(KvRefusal, PartsThatDoNotFit) {
    two_of_four();
    lengths = {5, 3};
    parts_refused(errc::length_range, {"sequence 0 is 5", "between 0 and 4"});
    lengths = {4, 3};
    prefix_v.shape.tokens = 1;
    parts_refused(errc::kv_tokens_mismatch, {"key has 2", "value has 1"});
    prefix_v.shape.tokens = 2, prefix_k.shape.head_dim = 7;
    parts_refused(errc::prefix_mismatch, {"key's head_dim is 7 in the prefix", "8 in the suffix"});
    prefix_k.shape.head_dim = 8, prefix_k.shape.batch = 3;
    parts_refused(errc::batch_mismatch, {"key has batch 3", "query has 2"});
    prefix_k.shape.batch = 1, prefix_k.data = nullptr;
    parts_refused(errc::null_data, {"key", "2 tokens", "null"});
    prefix_k.data = out.data;
    parts_refused(errc::output_overlaps_input, {"output", "key"});
}

}    // namespace
}    // namespace imbrex_test
