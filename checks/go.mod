module github.com/almanac-go/almanac/checks

go 1.26.0
