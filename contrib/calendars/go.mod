module github.com/almanac-go/almanac/contrib/calendars

go 1.26.0

require (
	github.com/almanac-go/almanac v0.1.0
	github.com/google/uuid v1.6.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/text v0.41.0 // indirect

replace github.com/almanac-go/almanac => ../../
