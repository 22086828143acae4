// Package browsertest tests package dashboard in Chromium, before a real PostgreSQL.
//
// The tests need two things that they do not download:
//
//   - Chromium, in PATH as chromium or named by ALMANAC_TEST_CHROMIUM;
//   - axe-core, whose file axe.min.js ALMANAC_TEST_AXE names.
package browsertest
