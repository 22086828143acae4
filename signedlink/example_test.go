package signedlink_test

import (
	"fmt"

	"github.com/almanac-go/almanac/signedlink"
)

func ExampleNew() {
	young := signedlink.Key{ID: "2027", Secret: []byte("thirty-two bytes from a safe place")}
	old := signedlink.Key{ID: "2026", Secret: []byte("the key of last year, 32 bytes too")}
	then, _, err := signedlink.New("invitation", "https://example.com/join", old)
	if err != nil {
		panic(err)
	}
	now, base, err := signedlink.New("invitation", "https://example.com/join", young, old)
	if err != nil {
		panic(err)
	}
	subject, ok := now.Verify(then.Token([]byte("ada")))
	fmt.Printf("%s %s %t\n", base, subject, ok)

	other, _, err := signedlink.New("password", "https://example.com/join", old)
	if err != nil {
		panic(err)
	}
	_, ok = other.Verify(then.Token([]byte("ada")))
	fmt.Println(ok)
	// Output:
	// https://example.com/join ada true
	// false
}
