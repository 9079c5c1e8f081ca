// One binary for many processors: which of the code that imbrex_add_dispatch() (cmake/imbrex_dispatch.cmake) compiled, once for
// each instruction set, this processor is to run.
//
//     // kernels.hpp, for everybody                                  // kernels.cpp, compiled once for each set
//     struct attention_kernels {                                     static imbrex::status attend(...) { ... }
//         imbrex::status (*attend)(...);                             IMBREX_DISPATCH_TABLE(attention_kernels, {attend})
//     };
//     IMBREX_DISPATCHED(attention_kernels)
//
//     auto const kernels = imbrex::dispatch::choose<attention_kernels>();    // in the caller
//     if (kernels) kernels->attend(...); else std::puts(kernels.reason().c_str());
//
// A table is a literal type, of pointers to functions as a rule. Only types that do not depend on the instruction set may cross
// it: views, kv, options, plans, status, rules that hold views (not: lanes, units).
//
// Decision: the choice is a value that its user holds, e.g. in a function's static, and not a global or an ifunc here. So it
// costs one CPUID where it is made, two parts of a program may choose apart, tests choose all sets in turn, and nothing runs
// before main.
#pragma once

#include <cstdlib>
#include <span>

#include "imbrex/cpu_features.hpp"
#include "imbrex/isa.hpp"
#include "imbrex/status.hpp"

namespace imbrex::dispatch {

// The code for one instruction set. Only `table` is compiled for it, so only call that where it runs.
struct variant {
    instruction_set set;
    void const* (*table)() noexcept;
};
struct variant_list {
    variant const* data;
    std::size_t size;
};

// Where code is to run. Tests make up their own.
struct machine {
    cpu_features features;
    bool (*ask_for_amx)() noexcept = imbrex::ask_for_amx;    // asked only when the best would be AMX

    static machine here() noexcept { return {features_here()}; }
};

// What IMBREX_ISA says; nothing where it is unset or empty.
inline std::string_view forced_by_environment() noexcept {
    char const* const forced = std::getenv("IMBREX_ISA");
    return forced == nullptr ? std::string_view{} : std::string_view{forced};
}

namespace detail {

// Null, or one of the variants, and why.
struct decision {
    variant const* chosen = nullptr;
    status_text reason{};
};

inline status_text names_of(std::span<variant const> variants) noexcept {
    status_text t;
    for (variant const& v : variants) t << (&v == variants.data() ? "" : ", ") << name_of(v.set);
    return t;
}

// Why a set does not run on a machine; empty where it does.
inline status_text obstacle(instruction_set set, machine const& m) noexcept {
    status_text t;
    if (auto const lacking = m.features.first_lacking(features_of(set))) {
        return t << "the processor or the system lacks " << name_of(*lacking);
    }
    if (features_of(set).has(cpu_feature::amx_tile) && !m.ask_for_amx()) return t << "the system refuses AMX's tiles";
    return t;
}

// Decision: a set that is asked for and not there is refused, not replaced. Who asks tests or measures that set, and would take
// the result of another for it.
inline decision forced(std::span<variant const> variants, std::string_view name, machine const& m) noexcept {
    decision d;
    for (variant const& v : variants) {
        if (name_of(v.set) != name) continue;
        if (status_text const why = obstacle(v.set, m); !why.view().empty()) {
            d.reason << "imbrex: " << name << " was asked for (IMBREX_ISA) but " << why << "; unset it or name another of "
                     << names_of(variants);
            return d;
        }
        d.chosen = &v;
        d.reason << name << ", because it was asked for (IMBREX_ISA)";
        return d;
    }
    d.reason << "imbrex: \"" << name.substr(0, 24) << "\" was asked for (IMBREX_ISA) but this binary has code for "
             << names_of(variants) << "; unset it or name one of these";
    return d;
}

// The best that runs, from the last on.
inline decision best(std::span<variant const> variants, machine const& m) noexcept {
    decision d;
    status_text passed_over;
    for (std::size_t i = variants.size(); i-- > 0;) {
        variant const& v = variants[i];
        status_text const why = obstacle(v.set, m);
        if (why.view().empty()) {
            d.chosen = &v;
            d.reason << name_of(v.set) << ", the best that runs here of " << names_of(variants) << passed_over;
            return d;
        }
        passed_over = {};
        passed_over << "; for " << name_of(v.set) << " " << why;
    }
    d.reason << "imbrex: none of " << names_of(variants) << " runs here" << passed_over << "; build for an older set too";
    return d;
}

inline decision decide(std::span<variant const> variants, std::string_view name, machine const& m) noexcept {
    return name.empty() ? best(variants, m) : forced(variants, name, m);
}

}    // namespace detail

// Sets that the binary has code for, from the plainest to the best.
template <class Table>
std::span<variant const> built() noexcept {
    static_assert(
        requires { imbrex_dispatch_variants(static_cast<Table const*>(nullptr)); },
        "imbrex: nothing says where this table comes from; put IMBREX_DISPATCHED(<table>) after it, in its namespace");
    variant_list const list = imbrex_dispatch_variants(static_cast<Table const*>(nullptr));    // IMBREX_DISPATCHED declares it
    return {list.data, list.size};
}

// A table and why it is this one; without a table where the set asked for, or any, does not run here.
template <class Table>
class choice {
public:
    explicit choice(detail::decision const& d) noexcept : reason_{d.reason} {
        if (d.chosen == nullptr) return;
        set_ = d.chosen->set;
        table_ = static_cast<Table const*>(d.chosen->table());
    }

    explicit operator bool() const noexcept { return table_ != nullptr; }
    Table const& operator*() const noexcept { return *table_; }
    Table const* operator->() const noexcept { return table_; }
    std::string_view isa() const noexcept { return table_ == nullptr ? std::string_view{"none"} : name_of(set_); }
    // Why, in one sentence, e.g. "x86-64-v3, because it was asked for (IMBREX_ISA)".
    status_text const& reason() const noexcept { return reason_; }

private:
    Table const* table_ = nullptr;
    instruction_set set_{};
    status_text reason_;
};

// The best that runs here; or the set of that name, where one is given: by default what IMBREX_ISA says.
template <class Table>
choice<Table> choose(std::string_view forced = forced_by_environment(), machine const& m = machine::here()) noexcept {
    return choice<Table>{detail::decide(built<Table>(), forced, m)};
}

}    // namespace imbrex::dispatch

#define IMBREX_DISPATCH_JOIN(table, set) imbrex_dispatch_##table##_##set
#define IMBREX_DISPATCH_SYMBOL(table, set) IMBREX_DISPATCH_JOIN(table, set)

// In the table's namespace, after it: imbrex_add_dispatch(<name>) defines what this declares, <name> being the table's.
#define IMBREX_DISPATCHED(table)                                                                                                 \
    extern "C" ::imbrex::dispatch::variant_list imbrex_dispatch_##table() noexcept;                                              \
    inline ::imbrex::dispatch::variant_list imbrex_dispatch_variants(table const*) noexcept { return imbrex_dispatch_##table(); }

// Once in the sources of imbrex_add_dispatch(<name>), in the table's namespace: the table for the set they are compiled for, as
// its initializer, e.g. {attend} or {.attend = attend}. The build defines IMBREX_DISPATCH_SET.
#define IMBREX_DISPATCH_TABLE(table, ...)                                                                                        \
    static_assert(::imbrex::tag_of(::imbrex::instruction_set::IMBREX_DISPATCH_SET) == IMBREX_TAG_TEXT,                           \
                  "imbrex: this source is not compiled for just the instruction set that its name says, which would then run "   \
                  "on the wrong processors; keep -march and -m flags out of FLAGS, CMAKE_CXX_FLAGS and what is linked");         \
    extern "C" void const* IMBREX_DISPATCH_SYMBOL(table, IMBREX_DISPATCH_SET)() noexcept;                                        \
    extern "C" void const* IMBREX_DISPATCH_SYMBOL(table, IMBREX_DISPATCH_SET)() noexcept {                                       \
        static constexpr table imbrex_dispatched __VA_ARGS__;                                                                    \
        return &imbrex_dispatched;                                                                                               \
    }
