"""Who may include whom. Dependencies run one way, and the pure layers see only headers that cannot do anything."""

import re

from source import Finding, is_code

# Longest prefix wins. A layer sees itself and what is listed; None sees everything.
LAYERS = {
    "core/base": [],
    "core/wire": ["core/base"],
    "core/rnbd": ["core/base", "core/wire"],
    "core/proto": ["core/base", "core/wire"],
    "core/fabric": ["core/base", "core/wire", "core/proto"],
    "core/record": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric"],
    "core/driver": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric", "core/record"],
    "core": ["core"],
    "backends/address": ["core"],
    "backends/verbs": ["core", "backends/address"],
    "backends/libfabric": ["core", "backends/address"],
    "backends/asio": ["core"],
    "backends": ["core"],
    "sim/choices": ["core"],
    "sim/network": ["core", "sim/choices"],
    "sim/faults": ["core", "sim/choices", "sim/network"],
    "sim/oracles": ["core"],
    "sim/model": ["core"],
    "sim/cluster": ["core", "sim/choices", "sim/network", "sim/faults", "sim/oracles", "sim/disks"],
    "sim": ["core", "sim"],
    "conformance/spec": [],
    "conformance/wire": ["core", "sim", "conformance/memory"],
    "conformance/explore": ["core", "sim"],
    "conformance/bench": ["core", "backends", "sim", "conformance/memory", "tools/lib", "tools/urtrsd"],
    "conformance/fuzz": ["core", "sim", "conformance/spec", "tools/lib", "tools/urtrsd"],
    "conformance": ["core", "backends", "sim", "conformance", "tools/lib"],
    "tools/lib/trace": ["core", "tools/lib/testing"],
    "tools/lib/judge": ["core", "sim", "conformance/spec", "tools/lib/trace"],
    "tools/lib": ["core", "backends", "sim", "conformance/spec", "tools/lib"],
    "tools": ["core", "backends", "sim", "conformance/explore", "conformance/wire", "tools"],
    "cmake": None,
}

PURE = ("core/wire", "core/proto", "core/rnbd")

# Headers without allocation, clock, randomness, threads, exceptions of their own or IO. A header is added here only
# when the purity symbol check stays green with it; <new> is here for placement alone, which that check tells apart.
PURE_HEADERS = {
    "algorithm", "array", "bit", "bitset", "compare", "concepts", "cstddef", "cstdint", "cstring", "initializer_list",
    "iterator", "limits", "new", "numeric", "optional", "span", "string_view", "tuple", "type_traits", "utility",
    "variant", "version", "tl/expected.hpp",
}

# Outside libraries and the only places that may know them.
OUTSIDE = {
    "boost/": ("backends/asio/", "conformance/", "tools/"),
    "rdma/": ("backends/libfabric/", "backends/verbs/", "conformance/", "tools/"),
    "infiniband/": ("backends/verbs/", "conformance/", "tools/"),
}

# Time comes in as an argument and chance from a seed; threads belong to backends and tools.
CLOCKLESS = ("core/", "sim/")
CLOCKS = {"chrono", "ctime", "time.h", "sys/time.h", "random", "thread", "mutex", "shared_mutex", "condition_variable",
          "future"}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def layer_of(path):
    fitting = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(fitting, key=len) if fitting else None


def _may_see(layer, target):
    allowed = LAYERS[layer]
    if allowed is None or target.startswith(layer + "/"):
        return True
    return any(target.startswith(prefix + "/") for prefix in allowed)


def _is_test(path):
    """Tests and what only tests include may use what they like, within the direction of the layers."""
    return bool(re.search(r"(^|/)(test_|testing/)|_test", path))


def includes(text):
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def check(path, text):
    layer = layer_of(path)
    if not is_code(path) or layer is None:
        return
    is_test = _is_test(path)
    for line, quoted, target in includes(text):
        target_layer = layer_of(target)
        if quoted and target_layer is None and LAYERS[layer] is not None:
            yield Finding(path, line, f'"{target}" is not written from the repository root ("core/wire/imm.hpp")')
        elif target_layer is not None and not _may_see(layer, target):
            seen = ", ".join([layer] + LAYERS[layer])
            yield Finding(path, line, f"{layer} must not include {target}: it sees only {seen}")
        elif any(target.startswith(p) and not path.startswith(places) for p, places in OUTSIDE.items()):
            yield Finding(path, line, f"<{target}> is not for {layer}: its library has its own place")
        elif target in CLOCKS and path.startswith(CLOCKLESS) and not is_test:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}: time and chance come in from outside")
        elif layer in PURE and not is_test and target_layer is None and target not in PURE_HEADERS:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}, which is pure (tools/dev/tidy/layers.py)")
