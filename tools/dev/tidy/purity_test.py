#!/usr/bin/env python3
"""Shows that the purity check sees what it is there for. Usage: purity_test.py CXX NM AR"""

import os
import subprocess
import sys
import tempfile
import unittest

import purity

HERE = os.path.dirname(os.path.abspath(__file__))
CXX, NM, AR = sys.argv[1:4] if len(sys.argv) > 3 else ("c++", "nm", "ar")


class PurityTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.allowed = purity.read_allowed(os.path.join(HERE, "pure_symbols.txt"))

    def archive(self, name, source):
        base = os.path.join(self.folder.name, name)
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
        self.assertEqual(found, [])

    def test_accepts_what_another_of_the_archives_defines(self):
        found = self.found_in("int inner(int); int outer(int x) { return inner(x) + 1; }",
                              "int inner(int x) { return x; }")
        self.assertEqual(found, [])

    def test_refuses_what_nobody_defines(self):
        self.assertEqual(self.found_in("int inner(int); int outer(int x) { return inner(x) + 1; }"),
                         [("part0.o", "inner(int)")])

    def test_refuses_allocation(self):
        self.assertEqual(self.found_in("int* make() { return new int(3); }"),
                         [("part0.o", "operator new(unsigned long)")])

    def test_refuses_a_hidden_allocation_of_the_standard_library(self):
        names = [name for _, name in self.found_in("""
            #include <vector>
            void grow(std::vector<int>& v) { v.push_back(1); }""")]
        self.assertIn("operator new(unsigned long)", names)

    def test_refuses_a_clock(self):
        names = [name for _, name in self.found_in("""
            #include <chrono>
            long stamp() { return std::chrono::steady_clock::now().time_since_epoch().count(); }""")]
        self.assertEqual(len(names), 1)
        self.assertIn("steady_clock::now()", names[0])

    def test_refuses_a_system_clock_call(self):
        self.assertEqual(self.found_in("""
            #include <ctime>
            long stamp() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }"""),
                         [("part0.o", "clock_gettime")])

    def test_refuses_io(self):
        names = [name for _, name in self.found_in('#include <cstdio>\nvoid say(int x) { std::printf("%d", x); }')]
        self.assertTrue(any("printf" in name for name in names), names)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
