"""Tests the purity check with archives built by $CXX and $AR and read by $NM."""

import os
import subprocess

import pytest

import purity

HERE = os.path.dirname(os.path.abspath(__file__))
CXX, NM, AR = (os.environ.get(name, program) for name, program in (("CXX", "c++"), ("NM", "nm"), ("AR", "ar")))


class TestPurity:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.folder = tmp_path
        self.allowed = purity.read_allowed(os.path.join(HERE, "pure_symbols.txt"))

    def archive(self, name, source):
        base = os.path.join(self.folder, name)
        with open(base + ".cpp", "w", encoding="utf-8") as file:
            file.write(source)
        flags = ["-std=c++20", "-O2", "-fno-exceptions", "-fno-rtti", "-fPIC"]
        subprocess.run([CXX, *flags, "-c", base + ".cpp", "-o", base + ".o"], check=True)
        subprocess.run([AR, "rcs", base + ".a", base + ".o"], check=True)
        return base + ".a"

    def found_in(self, *sources):
        archives = [self.archive(f"part{number}", source) for number, source in enumerate(sources)]
        return purity.impure(NM, archives, self.allowed)

    def test_accepts_memory_functions_and_the_assert_handler(self):
        found = self.found_in("""
            #include <cstring>
            namespace rtrs { [[noreturn]] void assert_failed(const char*, const char*, int) noexcept; }
            void copy(char* to, const char* from, unsigned long n) {
              if (n > 4096) rtrs::assert_failed("n", "file", 1);
              std::memmove(to, from, n);
            }
            bool same(const char* a, const char* b, unsigned long n) { return std::memcmp(a, b, n) == 0; }""")
        assert found == []

    def test_accepts_symbols_of_another_archive(self):
        found = self.found_in("int inner(int); int outer(int x) { return inner(x) + 1; }",
                              "int inner(int x) { return x; }")
        assert found == []

    def test_refuses_undefined_symbols(self):
        assert self.found_in("int inner(int); int outer(int x) { return inner(x) + 1; }") == [("part0.o", "inner(int)")]

    def test_refuses_allocation(self):
        assert self.found_in("int* make() { return new int(3); }") == [("part0.o", "operator new(unsigned long)")]

    def test_refuses_a_hidden_allocation_of_the_standard_library(self):
        names = [name for _, name in self.found_in("""
            #include <vector>
            void grow(std::vector<int>& v) { v.push_back(1); }""")]
        assert "operator new(unsigned long)" in names

    def test_refuses_a_clock(self):
        names = [name for _, name in self.found_in("""
            #include <chrono>
            long stamp() { return std::chrono::steady_clock::now().time_since_epoch().count(); }""")]
        assert len(names) == 1
        assert "steady_clock::now()" in names[0]

    def test_refuses_a_system_clock_call(self):
        assert self.found_in("""
            #include <ctime>
            long stamp() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }""") == [("part0.o", "clock_gettime")]

    def test_refuses_io(self):
        names = [name for _, name in self.found_in('#include <cstdio>\nvoid say(int x) { std::printf("%d", x); }')]
        assert any("printf" in name for name in names), names
