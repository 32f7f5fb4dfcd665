"""Who may include whom. Dependencies run one way, and the pure layers see only headers that cannot do anything."""

import posixpath
import re

from source import Finding, is_code

# The six top folders, lowest first: core < backends, sim < conformance < tools; docs has examples.
TOPS = {"core": 0, "backends": 1, "sim": 1, "conformance": 2, "tools": 3, "docs": 3}

# Longest prefix wins. A file sees its own folder and what is listed; None sees everything.
LAYERS = {
    "core/base": [],
    "core/wire": ["core/base"],
    "core/iwarp": ["core/base"],
    "core/rnbd": ["core/base", "core/wire"],
    "core/proto": ["core/base", "core/wire"],
    "core/fabric": ["core/base", "core/wire", "core/proto"],
    "core/keyed": ["core/base", "core/wire", "core/proto", "core/fabric"],
    "core/tcp": ["core/base", "core/wire", "core/iwarp", "core/proto", "core/fabric"],
    "core/record": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric"],
    "core/driver": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric", "core/record"],
    "core": ["core"],
    "backends/address": ["core"],
    "backends/verbs": ["core", "backends/address"],
    "backends/libfabric": ["core", "backends/address"],
    "backends/tls": ["core", "backends/address"],
    "backends/tcp": ["core", "backends/address", "backends/tls"],
    "backends/system": ["core"],
    "backends/asio": ["core", "backends/address", "backends/system"],
    "backends/options": ["core", "backends/tls", "backends/verbs"],
    "backends/c": ["core", "backends/address", "backends/options", "backends/system", "backends/tls",
                   "backends/tcp", "backends/verbs"],
    "backends": ["core"],
    "sim/choices": ["core"],
    "sim/network": ["core", "sim/choices"],
    "sim/pipes": ["core", "sim/choices", "sim/network"],
    "sim/faults": ["core", "sim/choices", "sim/network"],
    "sim/oracles": ["core"],
    "sim/model": ["core"],
    "sim/cluster": ["core", "sim/choices", "sim/network", "sim/pipes", "sim/faults", "sim/oracles", "sim/disks"],
    "sim": ["core", "sim"],
    "conformance/spec": [],
    "conformance/wire": ["core", "sim", "conformance/memory"],
    "conformance/explore": ["core", "sim"],
    "conformance/bench": ["core", "sim", "conformance/memory"],
    "conformance/fuzz": ["core", "sim"],
    "conformance": ["core", "backends", "sim", "conformance"],
    "tools/lib/trace": ["core"],
    "tools/lib/judge": ["core", "sim", "conformance/spec", "tools/lib/trace"],
    "tools/lib": ["core", "backends", "sim", "conformance/spec", "tools/lib"],
    "tools/dev": ["core", "backends", "sim", "conformance", "tools"],
    "tools": ["core", "backends", "sim", "conformance/explore", "conformance/wire",
              "conformance/mock_net", "tools/lib"],
    "docs": ["core", "backends"],
    "cmake": None,
}

# What tests of tools see as well.
TESTS_OF_TOOLS_SEE = ["backends", "sim", "conformance", "tools/lib"]

PURE = ("core/wire", "core/iwarp", "core/proto", "core/rnbd")

# Headers without allocation, clock, randomness, threads, exceptions of their own or IO. A header is added here only
# when the purity symbol check stays green with it; <new> is here for placement alone, which that check tells apart.
PURE_HEADERS = {
    "algorithm", "array", "bit", "bitset", "compare", "concepts", "cstddef", "cstdint", "cstring", "initializer_list",
    "iterator", "limits", "new", "numeric", "optional", "span", "string_view", "tuple", "type_traits", "utility",
    "variant", "version", "tl/expected.hpp",
}

# Outside libraries and the only places that may know them.
OUTSIDE = {
    "boost/": ("backends/asio/", "conformance/", "tools/", "docs/examples/"),
    "rdma/": ("backends/libfabric/", "backends/verbs/", "conformance/", "tools/"),
    "openssl/": ("backends/tls/", "conformance/", "tools/"),
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


def seen_by(path):
    """The folders that a file sees besides its own; None: all."""
    layer = layer_of(path)
    seen = LAYERS[layer]
    if seen is None or not path.startswith("tools/") or not is_test(path):
        return seen
    return seen + [folder for folder in TESTS_OF_TOOLS_SEE if folder not in seen]


def _may_see(path, target):
    seen = seen_by(path)
    if seen is None or posixpath.dirname(target) == posixpath.dirname(path):
        return True
    return any(target.startswith(prefix + "/") for prefix in seen)


def runs_up(path, target):
    top, above = path.split("/")[0], target.split("/")[0]
    return TOPS.get(above, 0) > TOPS.get(top, len(TOPS))


def is_test(path):
    """Tests and what only tests include may use what they like, within the direction of the layers."""
    return bool(re.search(r"(^|/)test_|_test", path))


def _refusal(path, layer, target):
    if runs_up(path, target):
        top = path.split("/")[0]
        return (f"{top} must not include {target}: the order is core < backends, sim < conformance < tools. "
                f"What needs both belongs to {target.split('/')[0]} (docs/tree.md)")
    return f"{layer} must not include {target}: it sees only {', '.join([posixpath.dirname(path)] + seen_by(path))}"


def includes(text):
    """Examples write an installed header, <urtrs/core/driver/client.hpp>; the file of the tree is core/driver/client.hpp."""
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2).removeprefix("urtrs/")


def check(path, text):
    layer = layer_of(path)
    if not is_code(path) or layer is None:
        return
    test = is_test(path)
    for line, quoted, target in includes(text):
        target_layer = layer_of(target)
        if quoted and target_layer is None and LAYERS[layer] is not None:
            yield Finding(path, line, f'"{target}" is not written from the repository root ("core/wire/imm.hpp")')
        elif target_layer is not None and not _may_see(path, target):
            yield Finding(path, line, _refusal(path, layer, target))
        elif any(target.startswith(p) and not path.startswith(places) for p, places in OUTSIDE.items()):
            yield Finding(path, line, f"<{target}> is not for {layer}: its library has its own place")
        elif target in CLOCKS and path.startswith(CLOCKLESS) and not test:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}: time and chance come in from outside")
        elif layer in PURE and not test and target_layer is None and target not in PURE_HEADERS:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}, which is pure (tools/dev/tidy/layers.py)")
