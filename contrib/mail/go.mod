module github.com/almanac-go/almanac/contrib/mail

go 1.26.0

require (
	github.com/almanac-go/almanac v0.1.0
	github.com/emersion/go-msgauth v0.7.0
	github.com/emersion/go-sasl v0.0.0-20241020182733-b788ff22d5a6
	github.com/emersion/go-smtp v0.25.1
	github.com/google/uuid v1.6.0
	github.com/nicksnyder/go-i18n/v2 v2.6.1
	github.com/stretchr/testify v1.12.1
	github.com/wneessen/go-mail v0.8.1
	golang.org/x/text v0.43.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/almanac-go/almanac => ../../
