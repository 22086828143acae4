// Package browsertest tests package dashboard in Chromium, before a real PostgreSQL.
//
// It is a module of its own, so that nobody who uses the dashboard gets the packages that drive a
// browser. The tests need two things that they do not download:
//
//   - Chromium, in PATH as chromium or named by ALMANAC_TEST_CHROMIUM;
//   - axe-core, whose file axe.min.js ALMANAC_TEST_AXE names.
package browsertest
