// Encoded rows: what a kv source hands to a unit. A row set gives token j's row as row(j), whose elements are contiguous.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "imbrex/encoding.hpp"

namespace imbrex {

// Rows a stride apart, in elements.
template <class E>
struct rows {
    using element = E;
    E const* data = nullptr;
    index stride = 0;

    constexpr E const* row(index j) const noexcept { return data + j * stride; }
    constexpr rows from(index j) const noexcept { return {data + j * stride, stride}; }
    // The first n rows as rows a stride apart, if they are that.
    constexpr std::optional<rows> in_one_run(index) const noexcept { return *this; }
};

// Two runs: rows before `split` are those of `before`, counted from row `before_first`; the others are those of `after`.
template <class E>
struct split_rows {
    using element = E;
    rows<E> before{};
    rows<E> after{};
    index before_first = 0;
    index split = 0;

    constexpr E const* row(index j) const noexcept { return j < split ? before.row(j - before_first) : after.row(j - split); }
    constexpr split_rows from(index j) const noexcept { return {before, after, before_first - j, split - j}; }
    constexpr std::optional<rows<E>> in_one_run(index n) const noexcept {
        if (split >= n) return before.from(-before_first);
        if (split <= 0) return after.from(-split);
        return {};
    }
};

// n / d for 0 <= n < 2^31 and 1 <= d < 2^31 without a division (Granlund & Montgomery 1994, Division by Invariant Integers using
// Multiplication, section 4: exact, as the rounded-up reciprocal has 31 bits more than d).
class page_division {
public:
    constexpr page_division() noexcept = default;
    constexpr explicit page_division(index d) noexcept : divisor_{d} {
        while ((index{1} << (shift_ - 31)) < d) ++shift_;
        auto const divisor = static_cast<std::uint64_t>(d);
        reciprocal_ = ((std::uint64_t{1} << shift_) + divisor - 1) / divisor;
    }
    constexpr index divisor() const noexcept { return divisor_; }
    constexpr index quotient(index n) const noexcept {
        return static_cast<index>((static_cast<std::uint64_t>(n) * reciprocal_) >> shift_);
    }

private:
    index divisor_ = 1;
    int shift_ = 31;
    std::uint64_t reciprocal_ = std::uint64_t{1} << 31;
};

// Rows in pages of equal size: row j is slot (first + j) % page_size of page ids[(first + j) / page_size].
template <class E>
struct paged_rows {
    using element = E;
    E const* data = nullptr;    // page 0's first row
    position const* ids = nullptr;
    index page_stride = 0;
    index stride = 0;    // from slot to slot
    page_division page_size{};
    index first = 0;

    constexpr E const* row(index j) const noexcept {
        index const token = first + j, page = page_size.quotient(token);
        return data + (ids[page] * page_stride + (token - page * page_size.divisor()) * stride);
    }
    constexpr paged_rows from(index j) const noexcept {
        paged_rows r = *this;
        r.first += j;
        return r;
    }
    constexpr std::optional<rows<E>> in_one_run(index n) const noexcept {
        if (n > 0 && page_size.quotient(first) != page_size.quotient(first + n - 1)) return {};
        return rows<E>{row(0), stride};
    }
};

template <class R>
concept row_set = requires(R const& r, index j) {
    typename R::element;
    { r.row(j) } -> std::same_as<typename R::element const*>;
    { r.from(j) } -> std::same_as<R>;
};

// Rows of whole numbers, and the scales of each in rows beside them: number d of a row is scaled by its scale d / group.
template <row_set Codes, row_set Scales>
struct scaled_rows {
    using element = typename Codes::element;
    Codes codes{};
    Scales beside{};
    index group = 1;

    constexpr element const* row(index j) const noexcept { return codes.row(j); }
    constexpr side_scales scales(index j) const noexcept { return {beside.row(j), group}; }
    constexpr float scale(index j) const noexcept { return *beside.row(j); }    // the first, of rows that have but one
    constexpr scaled_rows from(index j) const noexcept { return {codes.from(j), beside.from(j), group}; }
    constexpr auto in_one_run(index n) const noexcept {
        auto const c = codes.in_one_run(n);
        auto const s = beside.in_one_run(n);
        using run = scaled_rows<rows<element>, rows<float>>;
        return c && s ? std::optional<run>{run{*c, *s, group}} : std::nullopt;
    }
};

template <class R>
concept has_side_scales = row_set<R> && requires(R const& r, index j) {
    { r.scales(j) } -> std::same_as<side_scales>;
};

// Codes with the scales beside them where they need any.
template <row_set Codes, row_set Scales>
constexpr auto with_scales(Codes const& codes, Scales const& scales, index group) noexcept {
    if constexpr (side_scaled<typename Codes::element>)
        return scaled_rows<Codes, Scales>{codes, scales, group};
    else
        return codes;
}
template <class Codes, class Scales>
using rows_with_scales = decltype(with_scales(Codes{}, Scales{}, index{}));

// Whether all rows of the set are a stride apart.
template <class R>
inline constexpr bool one_run = false;
template <class E>
inline constexpr bool one_run<rows<E>> = true;
template <class E>
inline constexpr bool one_run<scaled_rows<rows<E>, rows<float>>> = true;

// One row after another. Of rows a stride apart without a multiplication for each, which costs decode 3 % (f32, 32/8 heads,
// D=128, AMD Zen 4, g++ 12, 2026-11-30).
template <row_set R>
class row_walk {
public:
    constexpr row_walk(R const& all, index first) noexcept : all_{all}, at_{first} {}
    constexpr typename R::element const* operator*() const noexcept { return all_.row(at_); }
    constexpr void operator++() noexcept { ++at_; }

private:
    R const& all_;
    index at_;
};
template <class E>
class row_walk<rows<E>> {
public:
    constexpr row_walk(rows<E> const& all, index first) noexcept : row_{all.row(first)}, stride_{all.stride} {}
    constexpr E const* operator*() const noexcept { return row_; }
    constexpr void operator++() noexcept { row_ += stride_; }

private:
    E const* row_;
    index stride_;
};

// f of rows [first, first + n) of a set, told as rows a stride apart where they are that: addresses then cost nothing.
template <row_set R, class F>
constexpr auto with_run(R const& all, index first, index n, F const& f) noexcept {
    R const some = all.from(first);
    if constexpr (!one_run<R>) {
        if (auto const run = some.in_one_run(n)) return f(*run);
    }
    return f(some);
}

// Keys and values of one window.
template <row_set KeyRows, row_set ValueRows>
struct kv_tile {
    KeyRows keys;
    ValueRows values;
};

}    // namespace imbrex
